"""How `--help` reads: commands by purpose, options in groups, words instead of types, examples to copy."""

from __future__ import annotations

import inspect
import re
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

READING = "Reading DATA"
"""The group of options that say how events are read; the same for every command that reads some."""

SECTIONS = {
    "Events": {
        "data": "Inspect and convert events, download public data sets",
        "simulate": "Simulate a world with known ground truth",
    },
    "Learning": {
        "train": "Train a model, select its epoch on validation, test it",
        "tune": "Search for better settings",
        "evaluate": "Evaluate a run: AP, AUC, ranks",
        "report": "Write one HTML page about a run, or several",
    },
    "Using a run": {
        "predict": "Predict how likely each of these pairs is",
        "recommend": "List the most likely next destinations",
        "embed": "Write an embedding of every node",
        "explain": "Explain the score of a pair",
    },
    "Serving": {
        "serve": "Serve a run over HTTP",
        "feed": "Feed a service: Kafka, NATS, PostgreSQL, a growing file",
        "promote": "Serve another run without a stop",
        "keys": "Make and remove the API keys of a service",
        "backup": "Back up a run and its live events, also while it is served",
        "restore": "Restore a backup, verified",
    },
    "Looking deeper": {
        "theory": "Which models can distinguish what, and why",
        "demo": "Everything in a minute, without a download",
    },
}
EXAMPLES = {
    "data info": ["pintgn data info trades.csv --src buyer --dst seller --time when"],
    "data convert": ["pintgn data convert trades.csv --src buyer --dst seller --time when --sort -o trades.parquet"],
    "data fetch": ["pintgn data fetch uci", "pintgn data fetch uci --mirror /media/stick"],
    "simulate": ["pintgn simulate shop -o shop.csv --events 20000"],
    "train": [
        "pintgn train trades.csv --src buyer --dst seller --time when --features amount",
        "pintgn train shop.csv --model tgn --set model.dim=64 --runs 3 -o runs/tgn",
        "pintgn train runs/tgn --resume",
    ],
    "tune": ["pintgn tune shop.csv --trials 30 --set train.epochs=5"],
    "evaluate": ["pintgn evaluate runs/shop-pint --negatives all", "pintgn evaluate runs/shop-pint --rank all"],
    "report": ["pintgn report runs/shop-pint runs/shop-tgn -o compare.html"],
    "predict": ["pintgn predict runs/shop-pint pairs.csv -o scored.csv"],
    "recommend": ["pintgn recommend runs/shop-pint --src user1 -k 5"],
    "embed": ["pintgn embed runs/shop-pint -o nodes.npz"],
    "explain": ["pintgn explain runs/shop-pint user1 item7"],
    "serve": [
        "pintgn serve runs/shop-pint --port 8000",
        "pintgn serve runs/shop-pint --host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem --audit audit.log",
    ],
    "backup": ["pintgn backup runs/shop-pint -o shop.tar"],
    "restore": ["pintgn restore shop.tar -o runs/restored", "pintgn restore shop.tar --check"],
    "keys add": ["pintgn keys add runs/shop-pint grafana --scope read --rate 5"],
    "keys list": ["pintgn keys list runs/shop-pint"],
    "keys remove": ["pintgn keys remove runs/shop-pint grafana"],
    "theory wl": ["pintgn theory wl one.csv --against other.csv"],
    "theory distinguish": ["pintgn theory distinguish trades.csv ann bob --at 2021-06-01"],
    "theory tree": ["pintgn theory tree trades.csv ann --depth 3"],
    "theory report": ["pintgn theory report trades.csv --plot separable.svg"],
}
WORDS = {"str": "TEXT", "path": "PATH", "int": "NUMBER", "float": "NUMBER"}


class Command(TyperCommand):
    """A command with grouped options, whose help ends in examples."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        pieces = [piece.replace("{", "").replace("}", "") for piece in super().collect_usage_pieces(ctx)]
        return [re.sub(r"(\.\.\.|…)\.\.\.$", "...", piece) for piece in pieces]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        _write_options(self, ctx, formatter)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        shown = EXAMPLES.get(ctx.command_path.partition("pintgn ")[2])
        if shown:
            with formatter.section("Examples"):
                for line in shown:
                    formatter.write(f"{' ' * formatter.current_indent}{line}\n")


class Group(TyperGroup):
    """Commands by purpose; their descriptions are never cut off."""

    def list_commands(self, ctx: Any) -> list[str]:
        order = [name for section in SECTIONS.values() for name in section]
        return sorted(super().list_commands(ctx), key=lambda name: order.index(name) if name in order else len(order))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        _write_options(self, ctx, formatter)
        self.format_commands(ctx, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        commands = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        rows = {name: _short(one) for name, one in commands.items() if one is not None and not one.hidden}
        wide = max(map(len, rows))
        for title, section in SECTIONS.items() if "train" in rows else ():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(wide), section[name]) for name in section if rows.pop(name, None)])
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(list(rows.items()))


def apply_style(app: typer.Typer) -> None:
    """Give every command and group of an app this help format; a command without its arguments shows its help."""
    app.info.cls = Group
    for one in app.registered_commands:
        one.cls = Command
        needed = [p for p in inspect.signature(one.callback).parameters.values() if p.default is p.empty]  # type: ignore[arg-type]
        one.no_args_is_help = bool(needed)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            apply_style(group.typer_instance)


def _write_options(command: Any, ctx: Any, formatter: Any) -> None:
    groups: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
    for param in command.get_params(ctx):
        record = param.get_help_record(ctx)
        if record is None:
            continue
        argument = param.param_type_name == "argument"
        name = "Arguments" if argument else getattr(param, "rich_help_panel", None) or "Options"
        groups.setdefault(name, []).append(_worded(record[0], record[1], argument))
    for title, records in groups.items():
        if records:
            with formatter.section(title):
                formatter.write_dl(records)


def _short(command: Any) -> str:
    """The first paragraph about a command."""
    return " ".join((command.short_help or command.help or "").split("\n\n")[0].split()).removesuffix(".")


def _worded(names: str, help: str, argument: bool) -> tuple[str, str]:
    """Types as words that say what to write; an argument is required unless it stands in brackets."""
    if argument:
        names, help = re.sub(r"\s*<[^>]*>", "", names), help.replace("[required]", "").rstrip()
    return re.sub(r"<(?:list\[)?(\w+)\]?(?: range)?>", lambda found: WORDS.get(found[1], found[1].upper()), names), help
