"""Groups of options: a dataclass whose fields are options of a command, shared by several commands."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import typing
from collections.abc import Callable
from typing import Any


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of every parameter that is annotated with a dataclass; it gets the dataclass.

    The fields of the dataclass are annotated as options are: `width: Annotated[int, Option(help="Columns.")] = 80`.
    """
    own, groups = [], {}
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        if not dataclasses.is_dataclass(parameter.annotation):
            own.append(parameter)
            continue
        kind: Any = parameter.annotation
        hints = typing.get_type_hints(kind, include_extras=True)
        groups[parameter.name] = kind
        own += [
            inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=hints[one.name])
            for one in dataclasses.fields(kind)
        ]

    @functools.wraps(command)
    def called(*arguments: Any, **given: Any) -> None:
        made = {
            name: kind(**{f.name: given.pop(f.name) for f in dataclasses.fields(kind)}) for name, kind in groups.items()
        }
        command(*arguments, **given, **made)

    first = [one for one in own if one.kind is not inspect.Parameter.KEYWORD_ONLY and one.default is one.empty]
    rest = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own if one not in first]
    called.__signature__ = inspect.Signature([*first, *rest])  # type: ignore[attr-defined]
    called.__annotations__ = {one.name: one.annotation for one in own}
    return called
