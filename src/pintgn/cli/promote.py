"""`pintgn promote`: another run in the place of the one that is served, without a stop."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from pintgn.cli.common import AsJson, answer, say
from pintgn.cli.feed import read_key
from pintgn.errors import BadFile, BadInput

POLL = 0.5
"""Seconds between two looks at how far the candidate is."""
ENDS = {"promoted": 0, "rejected": 1, "failed": 2}


def promote(
    run: Annotated[
        Path | None, Argument(metavar="RUN", help="Folder of the new run, on the service's machine.")
    ] = None,
    service: Annotated[str, Option(help="Address of the service.")] = "http://127.0.0.1:8000",
    back: Annotated[bool, Option("--back", help="Go back to the run before.")] = False,
    scored: Annotated[int, Option(min=1, help="Live events that both runs score before the decision.")] = 200,
    force: Annotated[
        bool, Option("--force", help="Take over as soon as the run has caught up, whatever its quality.")
    ] = False,
    api_key: Annotated[Path | None, Option(help="File with the service's API key (scope admin).")] = None,
    wait: Annotated[bool, Option("--wait/--no-wait", help="Wait for the result.")] = True,
    as_json: AsJson = False,
) -> None:
    """Serve another run without a stop, once it has shown on live events that it is not worse.

    The new run catches up on the service's events, scores the same live events as the old one, and takes over between
    two of them. One that is worse beyond chance is rejected (exit code 1).
    """
    from pintgn.feed.client import Client, Unreachable

    if (run is None) != back:
        raise BadInput("name the new run, or say --back for the one before.")
    client, path = Client.of(service, read_key(api_key))
    if path != "/":
        raise BadInput(f"{service} has a path; name the service alone, such as http://127.0.0.1:8000.")
    asked = {"back": True} if run is None else {"run": str(run.absolute()), "scored": scored, "force": force}

    def ask(method: str, body: Any = None) -> Any:
        try:
            status, _, found = client.ask(method, "/models", body)
        except Unreachable as error:
            raise BadFile(f"{service} does not answer: {error}. Is the service running there?") from None
        if status >= 400:
            refusal = found if isinstance(found, dict) else {}
            raise BadInput(
                f"{refusal.get('message', f'the service answered {status}.')} {refusal.get('next', '')}".strip()
            )
        return found

    try:
        before = len(ask("GET")["history"])
        found = ask("POST", asked)
        state = ""
        while wait and len(found["history"]) <= before:
            if (at := found["candidate"]) is not None and at["state"] != state:
                state = at["state"]
                say(
                    f"{at['run']}: {state}" + (f", needs {at['enough']:,} scored events" if state == "compared" else "")
                )
            time.sleep(POLL)
            found = ask("GET")
    finally:
        client.close()
    if not wait:
        answer(as_json, found, f"{service}: begun; GET /models says what comes of it")
        return
    last = found["history"][-1]
    answer(as_json, last, f"{last['run']}: {last['state']}, {last['said']}")
    if code := ENDS[last["state"]]:
        raise SystemExit(code)
