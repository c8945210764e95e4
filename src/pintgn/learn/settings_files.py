"""Settings files: TOML tables, rows of a file of many, and `--set NAME=VALUE`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pintgn.errors import BadFile, BadInput, UnknownName, suggest
from pintgn.learn.settings import Streaming, TaskSettings, Training, dataclass_parameters, model_parameters


def read_settings(path: str | Path, row: str | None = None) -> dict[str, Any]:
    """The tables of a settings file, or of one row of a file of many.

    In a file of many, `models.NAME` holds what the rows of a model share, and what a row has published is left out.
    """
    given = read_toml(path)
    rows, models = given.pop("rows", None), given.pop("models", {})
    if rows is None:
        if row is not None:
            raise BadInput(f"{path} has no rows; leave out --row {row}.")
        return given
    if row is None:
        raise BadInput(f"{path} has {len(rows)} rows; say which with --row. There are: {', '.join(sorted(rows))}.")
    if row not in rows:
        raise UnknownName(f"{path} has no row {row!r}.{suggest(row, rows)}")
    chosen = {key: value for key, value in rows[row].items() if key != "published"}
    shared = {"model": models.get(chosen.get("model", {}).get("name"), {})}
    return merged(merged(given, shared), chosen)


def published_rows(path: str | Path) -> dict[str, dict[str, Any]]:
    """Published figures of each row of a settings file, as [mean, std] in percent, by name."""
    return {name: row.get("published", {}) for name, row in read_toml(path).get("rows", {}).items()}


def read_toml(path: str | Path, what: str = "settings") -> dict[str, Any]:
    try:
        return tomllib.loads(Path(path).read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise BadFile(f"cannot read the {what} in {path}: {getattr(error, 'strerror', None) or error}.") from error
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"{path} is not a TOML file: {error}.") from error


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Nested tables, the second laid over the first."""
    result = dict(below)
    for key, value in above.items():
        both = isinstance(value, Mapping) and isinstance(result.get(key), Mapping)
        result[key] = merged(result[key], value) if both else value
    return result


def parse_setting(text: str, model: str = "pint") -> dict[str, Any]:
    """`--set model.dim=64` as nested tables; without a table the name is looked up in model, train, stream and task.

    >>> parse_setting("train.epochs=3"), parse_setting("positions_at=every")
    ({'train': {'epochs': 3}}, {'model': {'positions_at': 'every'}})
    """
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals:
        raise BadInput(f"--set {text!r} is not NAME=VALUE, as in --set model.layers=2.")
    table, dot, key = name.partition(".")
    if not dot:
        homes = {
            "model": model_parameters(model),
            "train": dataclass_parameters(Training),
            "stream": dataclass_parameters(Streaming),
            "task": dataclass_parameters(TaskSettings),
        }
        table = next((home for home, known in homes.items() if name in known), "")
        if not table:
            raise UnknownName(f"there is no setting {name!r}.{suggest(name, [k for h in homes.values() for k in h])}")
        key = name
    return {table: {key: parse_value(value)}}


def parse_value(text: str) -> Any:
    """A value as it would stand in a TOML file; a bare word is a string, `none` is None."""
    if text.lower() == "none":
        return None
    try:
        return tomllib.loads(f"x = {text}")["x"]
    except tomllib.TOMLDecodeError:
        return text
