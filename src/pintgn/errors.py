"""One family of exceptions: each says what was given, what is allowed, and the next step.

Every error derives from `PintgnError` and from the built-in it refines, so both
`except pintgn.errors.PintgnError` and `except ValueError` work. The command line prints the
message alone and exits with 2.
"""

from __future__ import annotations

import difflib
import itertools
import numbers
from collections.abc import Iterable


class PintgnError(Exception):
    """Base of every error that pintgn raises on purpose."""


class PintgnWarning(UserWarning):
    """Something worth knowing that stops nothing, such as a category never seen before."""


class BadInput(PintgnError, ValueError):
    """The data or an argument cannot be used as it is."""


class EventOrderError(BadInput):
    """Events are not sorted by time, or arrive before the clock."""


class UnknownName(BadInput, KeyError):
    """A column, node, data set or setting that does not exist."""

    def __str__(self) -> str:  # KeyError would print the repr of the message
        return str(self.args[0])


class StaleQuery(BadInput):
    """A question about a time that has already passed."""


class BadFile(PintgnError, OSError):
    """A file that is missing, damaged or not what its name says."""

    def __str__(self) -> str:
        return str(self.args[0])


class TooLarge(PintgnError, MemoryError):
    """The request needs more memory than there is; the message says how much, and what would fit."""


class LostWorker(PintgnError, ConnectionError):
    """One of several processes that work together has ended, or cannot be reached."""

    def __str__(self) -> str:
        return str(self.args[0])


def check_count(value: object, name: str, least: int, none: bool = False) -> None:
    """Refuse a value that is not a whole number of at least `least`; with `none`, None is fine, too."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not (value is None and none) and not (whole and value >= least):  # type: ignore[operator]
        raise BadInput(f"{name}={value!r}; a whole number of at least {least} is needed.")


COMPARED = 2_000
"""Names that a mistyped one is compared with: a file may have 200,000 columns."""


def suggest(given: object, known: Iterable[object]) -> str:
    """A sentence that helps with a mistyped name: the near miss, or what there is.

    >>> suggest("dimm", ["dim", "layers"])
    " Did you mean 'dim'?"
    >>> suggest("zzz", ["dim", "layers"])
    " There are: 'dim', 'layers'."
    """
    names = [str(name) for name in itertools.islice(known, COMPARED)]
    near = difflib.get_close_matches(str(given), names, n=3, cutoff=0.6)
    if near:
        return f" Did you mean {' or '.join(map(repr, near))}?"
    if not names:
        return ""
    shown = ", ".join(repr(name) for name in names[:12])
    return f" There are: {shown}{', …' if len(names) > 12 else ''}."
