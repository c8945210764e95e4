"""Groups of options: dataclasses, shared with Python, whose fields are the flags of a command."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import wraps
from typing import Annotated, Any, get_args, get_type_hints

from typer import Option


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Make every parameter of a command that is a dataclass an option for each field that has a help text.

    Such a field is `Annotated[type, "help"]`, with a dict where there is more to say: `flag` names the option where it
    is not called as the field, `short` by one letter; `least` and `most` bound a number, and `duration` marks a length
    of time, which the command gets as text: its unit is that of a log.
    """
    own = inspect.signature(command, eval_str=True).parameters.values()
    groups: dict[str, dict[str, inspect.Parameter]] = {}
    parameters: list[inspect.Parameter] = []
    for one in own:
        if is_dataclass(one.annotation):
            groups[one.name] = _flags(one.annotation)
            parameters += groups[one.name].values()
        else:
            parameters.append(one.replace(kind=inspect.Parameter.KEYWORD_ONLY))
    kinds: dict[str, Any] = {one.name: one.annotation for one in own}

    @wraps(command)
    def wrapped(**given: Any) -> None:
        made = {name: kinds[name](**{flag: given.pop(flag) for flag in flags}) for name, flags in groups.items()}
        command(**given, **made)

    wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {one.name: one.annotation for one in parameters}
    return wrapped


def _flags(kind: Any) -> dict[str, inspect.Parameter]:
    """An option for each field with a help text, by the field's name."""
    hints, found = get_type_hints(kind, include_extras=True), {}
    for field in fields(kind):
        of, *about = get_args(hints[field.name]) if hasattr(hints[field.name], "__metadata__") else (None,)
        if not about:
            continue
        more = about[1] if len(about) > 1 else {}
        flags = [more.get("flag", f"--{field.name.replace('_', '-')}"), *([more["short"]] if "short" in more else [])]
        option = Option(*flags, help=about[0], min=more.get("least"), max=more.get("most"))
        found[field.name] = inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=field.default,
            annotation=Annotated[str | None if more.get("duration") else of, option],
        )
    return found
