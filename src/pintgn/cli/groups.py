"""Groups of options: dataclasses, shared with Python, whose fields are the flags of a command."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import Field, fields, is_dataclass
from functools import wraps
from typing import Annotated, Any, get_type_hints

from typer import Option


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Make every parameter of a command that is a dataclass an option for each field with `help` in its metadata.

    `flag` names the option where it is not called as the field, `least` bounds a number, and `duration` marks a length
    of time, which the command gets as text: its unit is that of a log.
    """
    own = inspect.signature(command, eval_str=True).parameters.values()
    groups: dict[str, Any] = {one.name: one.annotation for one in own if is_dataclass(one.annotation)}
    flags = {name: [one for one in fields(kind) if "help" in one.metadata] for name, kind in groups.items()}
    parameters: list[inspect.Parameter] = []
    for one in own:
        if one.name not in groups:
            parameters.append(one.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        types = get_type_hints(groups[one.name])
        parameters += [_parameter(field, types[field.name]) for field in flags[one.name]]

    @wraps(command)
    def wrapped(**given: Any) -> None:
        made = {
            name: kind(**{field.name: given.pop(field.name) for field in flags[name]}) for name, kind in groups.items()
        }
        command(**given, **made)

    wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {one.name: one.annotation for one in parameters}
    return wrapped


def _parameter(field: Field, kind: Any) -> inspect.Parameter:
    about = field.metadata
    flag = about.get("flag", f"--{field.name.replace('_', '-')}")
    option = Option(flag, help=about["help"], min=about.get("least"))
    kind = str | None if about.get("duration") else kind
    return inspect.Parameter(
        field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=Annotated[kind, option]
    )
