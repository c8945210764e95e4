"""Groups of options: a dataclass whose fields are options of a command, shared by commands and with Python."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import types
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from typer import Option


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of every parameter that is annotated with a dataclass; it gets the dataclass.

    A field is an option where it is annotated with one, or, in dataclasses that know nothing of a command line, with a
    help text: `Annotated[type, "help"]`, with a dict where there is more to say: `flag` names the option where it is
    not called as the field, `short` by one letter; `metavar` says what it takes; `least` and `most` bound a number;
    `duration` marks a length of time, which the command gets as text, because its unit is that of a log.

    >>> @dataclasses.dataclass
    ... class Size:
    ...     width: Annotated[int, Option(help="Columns.")] = 80
    >>> @grouped
    ... def draw(size: Size) -> None:
    ...     print(size.width)
    >>> str(inspect.signature(draw).parameters["width"].default), draw(width=3)
    3
    ('80', None)
    """
    own: list[inspect.Parameter] = []
    groups: dict[str, tuple[Any, list[inspect.Parameter]]] = {}
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        if dataclasses.is_dataclass(parameter.annotation):
            groups[parameter.name] = parameter.annotation, options_of(parameter.annotation)
            own += groups[parameter.name][1]
        else:
            own.append(parameter)

    @functools.wraps(command)
    def called(*arguments: Any, **given: Any) -> None:
        made = {
            name: kind(**{option.name: given.pop(option.name) for option in options})
            for name, (kind, options) in groups.items()
        }
        command(*arguments, **given, **made)

    first = [one for one in own if one.kind is not inspect.Parameter.KEYWORD_ONLY and one.default is one.empty]
    rest = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own if one not in first]
    called.__signature__ = inspect.Signature([*first, *rest])  # type: ignore[attr-defined]
    called.__annotations__ = {one.name: one.annotation for one in own}
    return called


def options_of(kind: Any, panel: str | None = None) -> list[inspect.Parameter]:
    """The fields of a dataclass that are options, as parameters, in a section of the help."""
    hints, found = typing.get_type_hints(kind, include_extras=True), []
    for field in dataclasses.fields(kind):
        annotation, about = hints[field.name], getattr(hints[field.name], "__metadata__", ())
        if not about:
            continue
        if isinstance(about[0], str):
            more = about[1] if len(about) > 1 else {}
            named = more.get("flag", f"--{field.name.replace('_', '-')}")
            flags = [named, *([more["short"]] if "short" in more else [])]
            bounds: Any = {"min": more.get("least"), "max": more.get("most")}
            option = Option(*flags, help=about[0], metavar=more.get("metavar"), rich_help_panel=panel, **bounds)
            annotation = Annotated[str | None if more.get("duration") else _simple(annotation.__origin__), option]
        default = None if field.default == () else field.default
        found.append(
            inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        )
    return found


def _simple(kind: Any) -> Any:
    """A type that can be written on a command line; text in the place of all others."""
    some = set(typing.get_args(kind) or [kind]) - {types.NoneType}
    return kind if len(some) == 1 and some <= {bool, int, float, str, Path} else str | None
