"""Plain-text help in sections: options and commands under their `rich_help_panel`, types as words."""

from __future__ import annotations

import inspect
import re
from typing import Any

from typer import Typer
from typer.core import TyperCommand, TyperGroup

READING = "Reading DATA"
"""The section of options that say how events are read; the same for every command that reads some."""
WORDS = {"str": "TEXT", "path": "PATH", "int": "NUMBER", "float": "NUMBER"}


class Command(TyperCommand):
    """A command with options in sections, and examples at the end of its help."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [re.sub(r"[{}]|(?<=…)\.\.\.", "", piece) for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        write_sections(self, ctx, formatter)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        if self.epilog:
            with formatter.section("Examples"):
                for line in self.epilog.splitlines():
                    formatter.write(f"{' ' * formatter.current_indent}{line}\n")


class Group(TyperGroup):
    """A group of commands in sections, in the order in which they were added."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        write_sections(self, ctx, formatter)
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, command in self.commands.items():
            title = getattr(command, "rich_help_panel", None) or "Commands"
            sections.setdefault(title, []).append((name.ljust(9), command.get_short_help_str(200).rstrip(".")))
        for title, rows in sections.items():
            with formatter.section(title):
                formatter.write_dl(rows)


def worded(names: str) -> str:
    """Types as words: `<int range>` is NUMBER."""
    return re.sub(r"<(?:list\[)?(\w+)[^>]*>", lambda found: WORDS.get(found[1], ""), names)


def write_sections(command: Any, ctx: Any, formatter: Any) -> None:
    """Arguments, options, and the options of each other section."""
    sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
    for param in command.get_params(ctx):
        if (record := param.get_help_record(ctx)) is not None:
            names, usual = worded(record[0]), "Options"
            if param.param_type_name == "argument":
                names, usual = record[0].partition(" <")[0], "Arguments"
            title = getattr(param, "rich_help_panel", None) or usual
            sections.setdefault(title, []).append((names, record[1].replace("[required]", "").rstrip()))
    for title, rows in sections.items():
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows)


def add_command(app: Typer, name: str, what: Any, summary: str, section: str, examples: list[str]) -> None:
    """Add a command, or a group of them, under a section of the help."""
    if isinstance(what, Typer):
        app.add_typer(what, name=name, short_help=summary, rich_help_panel=section)
    else:
        shown = "\n".join(f"pintgn {example}" for example in examples)
        app.command(name, short_help=summary, rich_help_panel=section, epilog=shown)(what)


def apply_style(app: Typer) -> None:
    """Give every command and group of an app this help; a command without the arguments it needs shows it."""
    app.info.cls = Group
    for command in app.registered_commands:
        command.cls = Command
        parameters = inspect.signature(command.callback).parameters.values()  # type: ignore[arg-type]
        command.no_args_is_help = any(one.default is one.empty for one in parameters)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            apply_style(group.typer_instance)
