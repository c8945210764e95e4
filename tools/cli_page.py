"""Write docs/cli.md from what the commands say about themselves; `--check` only says whether it is fresh."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "docs" / "cli.md"
HEAD = """\
# Commands

<!-- written by `python tools/cli_page.py` from `--help`; a test holds that it is fresh -->

Every command prints its answer to stdout and everything else to stderr; `--json` prints one object for machines. Exit
codes: 0 done, 1 a fault of ours, 2 bad input or usage, 130 interrupted.
"""


def contexts(app: Any = None, name: str = "pintgn") -> dict[str, Any]:
    """Every command and group by its full name, each in the context in which the command line would ask it for help."""
    import typer

    from pintgn.cli.app import app as ours

    found: dict[str, Any] = {}
    settings = {"help_option_names": ["-h", "--help"], "terminal_width": 88, "max_content_width": 88}

    def walk(command: Any, name: str, parent: Any = None) -> None:
        context = type(command).context_class(command, info_name=name, parent=parent, **settings)
        found[context.command_path] = context
        if hasattr(command, "list_commands"):
            for one in command.list_commands(context):
                walk(command.get_command(context, one), one, context)

    walk(typer.main.get_command(app or ours), name)
    return found


def help_of(context: Any) -> str:
    """What `--help` prints, 88 characters wide whatever the terminal."""
    return "\n".join(line.rstrip() for line in context.command.get_help(context).splitlines())


def text() -> str:
    """The whole page."""
    parts = [HEAD]
    for name, context in contexts().items():
        level = "##" if name.count(" ") < 2 else "###"
        parts.append(f"{level} {name}\n\n```text\n{help_of(context)}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    if "--check" in sys.argv:
        fresh = PAGE.exists() and PAGE.read_text() == text()
        print("docs/cli.md is fresh" if fresh else "docs/cli.md is stale: run python tools/cli_page.py")
        sys.exit(not fresh)
    PAGE.write_text(text())
    print(f"wrote {PAGE.name}")
