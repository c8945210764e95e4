"""The `progress` argument of public functions: True shows a bar, False and None nothing, a function is called."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar, cast

from pintgn.display.bars import open_bar
from pintgn.errors import BadInput

Function = TypeVar("Function", bound=Callable[..., Any])
Bar = Callable[[], AbstractContextManager[Any]]
"""Opens a bar that can be called as a function given for `progress` is."""


def silent(*_: Any, **__: Any) -> None:
    """A callback that does nothing."""


@contextmanager
def progress_callback(progress: Any, bar: Bar) -> Iterator[Callable[..., None]]:
    """Context that gives the callback for a `progress` argument."""
    if callable(progress):
        yield progress
    elif progress is True:
        with bar() as call:
            yield call
    elif progress is False or progress is None:
        yield silent
    else:
        raise BadInput(f"progress={progress!r}; it is True (a bar), False or None (nothing), or a function.")


def takes_progress(bar: Bar) -> Callable[[Function], Function]:
    """Decorate a function that takes any `progress`, so that its body always gets a callback."""

    def decorate(function: Function) -> Function:
        usual = (function.__kwdefaults__ or {}).get("progress")

        @functools.wraps(function)
        def called(*arguments: Any, progress: Any = usual, **options: Any) -> Any:
            with progress_callback(progress, bar) as call:
                return function(*arguments, progress=call, **options)

        return cast(Function, called)

    return decorate


def counting(what: str, unit: str = "") -> Bar:
    """A bar; each call gives how many are done, of how many, and what is being done."""
    return lambda: open_bar(what, unit)


@contextmanager
def phases(what: str = "starting") -> Iterator[Callable[[str], None]]:
    """A bar; each call gives what is being done."""
    with open_bar(what) as bar:
        yield bar.doing
