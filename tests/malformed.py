"""Malformed files through the commands that read them: `make malformed`, or `python -m tests.malformed 2000 --seed 0`.

Each case takes a good file, changes some of its bytes (or a field of its JSON), and gives it to the command that reads
it, in a process of its own. What must not happen: a traceback, a signal, a hang, more than one line of error; and a
silent misreading. What is read from text must be what Python's own reader finds in the changed bytes; from a Parquet
file that pintgn wrote, the original rows. Cases are a function of the seed and their number, so each can be run again:
`python -m tests.malformed 1 --start 417 --seed 0 --keep DIR`.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import json
import math
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import tomllib
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch: processes are forked

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SECONDS = 10
"""Of processor time; a case that only waits for its turn on a busy machine gets more time on the clock."""
PATIENCE = 60
MEMORY = 8 << 30


# --- what a case is -------------------------------------------------------------------------------------------------


@dataclass
class Outcome:
    """How a command ended."""

    code: int  # as a shell would say it; negative for a signal
    out: str
    err: str
    seconds: float
    hung: bool = False


@dataclass
class Kind:
    """Files of one kind: good ones, the command that reads them, and what it must have read."""

    name: str
    originals: list[Path]  # to be changed
    run: Callable[[Path, Path], None]  # the original's place with the change made, and a folder to work in
    judge: Callable[[Path, bytes, Path, Outcome], str | None]  # original, changed bytes, folder: what is wrong
    fields: bool = False  # whether to change JSON fields, too


def command(*words: object) -> None:
    """The command line in this process."""
    from pintgn.cli.app import main

    sys.argv = ["pintgn", *map(str, words)]
    main()


def in_child(work: Callable[[], None], folder: Path) -> Outcome:
    """Run in a fork of this process, output to files, limits set."""
    out, err = folder / "stdout", folder / "stderr"
    sys.stdout.flush()
    sys.stderr.flush()
    begin, child = time.perf_counter(), os.fork()
    if child == 0:
        code = 70
        try:
            for target, number in ((out, 1), (err, 2)):
                os.dup2(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
            sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
            resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            work()
            code = 0
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
        except BaseException:
            traceback.print_exc()
            code = 1
        finally:
            with contextlib.suppress(BaseException):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)
    status, hung = None, False
    while status is None:
        found, status = os.waitpid(child, os.WNOHANG)
        if found == 0:
            status = None
            if time.perf_counter() - begin > PATIENCE:
                os.kill(child, signal.SIGKILL)
                _, status = os.waitpid(child, 0)
                hung = True
            else:
                time.sleep(0.005)
    code = os.waitstatus_to_exitcode(status)
    hung = hung or code in (-signal.SIGXCPU, -signal.SIGKILL)
    texts = (path.read_bytes().decode(errors="replace") if path.exists() else "" for path in (out, err))
    return Outcome(code, *texts, time.perf_counter() - begin, hung)


# --- changes --------------------------------------------------------------------------------------------------------

TELLING = [
    b"\0", b"\xff", b"\xef\xbb\xbf", b"\r", b"\n", b'"', b"'", b",", b";", b"\t", b"{", b"}", b"[", b"]", b":", b"\\",
    b"-", b"NaN", b"null", b"true", b"1e999", b"-1", b"9223372036854775808", b"99999999999999999999", b"0",
    b"2024-01-01", b"\xc3\xa9", b"\xed\xa0\x80", b"PAR1", b"=", b"#",
]  # fmt: skip
VALUES = [None, True, -1, 0, 2**63, 2**70, 1.5, -0.0, 1e308, "", "x", "int64", [], {}, [1], {"a": 1}, float("nan")]


def changed(data: bytes, rng: np.random.Generator) -> bytes:
    """Some bytes changed: flipped, overwritten, cut, doubled, swapped, or with something telling put in."""
    made = bytearray(data)
    for _ in range(int(rng.choice([1, 1, 1, 2, 3]))):
        size = len(made)
        at = int(rng.integers(0, max(size, 1)))
        length = int(min(rng.integers(1, 33), size - at))
        way = int(rng.integers(0, 12))
        if way == 0 and size:
            made[at] ^= 1 << int(rng.integers(0, 8))
        elif way == 1:
            made[at : at + length] = rng.bytes(length)
        elif way == 2:
            del made[at : at + length]
        elif way == 3:
            made[at:at] = made[at : at + length]
        elif way == 4:
            made[at : at + length] = bytes(length)
        elif way == 5:
            del made[at:]
        elif way == 6:
            made[at:at] = TELLING[int(rng.integers(0, len(TELLING)))]
        elif way == 7:
            telling = TELLING[int(rng.integers(0, len(TELLING)))]
            made[at : at + len(telling)] = telling
        elif way == 8:
            for _ in range(int(rng.integers(2, 20))):
                if made:
                    made[int(rng.integers(0, len(made)))] ^= 1 << int(rng.integers(0, 8))
        elif way == 9:  # another digit
            digits = [place for place, byte in enumerate(made) if 48 <= byte <= 57]
            if digits:
                made[digits[int(rng.integers(0, len(digits)))]] = int(rng.integers(48, 58))
        elif way == 10:  # another letter
            letters = [place for place, byte in enumerate(made) if 97 <= byte <= 122]
            if letters:
                made[letters[int(rng.integers(0, len(letters)))]] = int(rng.integers(97, 123))
        else:  # a line doubled, or gone
            lines = bytes(made).split(b"\n")
            line = int(rng.integers(0, len(lines)))
            lines[line : line + 1] = [lines[line]] * int(rng.choice([0, 2]))
            made = bytearray(b"\n".join(lines))
    return bytes(made) if bytes(made) != data else changed(data, rng)


def changed_field(data: bytes, rng: np.random.Generator) -> bytes:
    """A field of a JSON object left out, or given another value."""
    value = json.loads(data)
    inner = value
    while isinstance(inner, dict) and inner:
        key = list(inner)[int(rng.integers(0, len(inner)))]
        deeper = isinstance(inner[key], dict) and inner[key] and rng.random() < 0.7
        if not deeper:
            if rng.random() < 0.4:
                del inner[key]
            else:
                inner[key] = VALUES[int(rng.integers(0, len(VALUES)))]
            break
        inner = inner[key]
    made = json.dumps(value).encode()
    return made if json.loads(made) != json.loads(data) else changed(data, rng)


# --- what was read, and what is there ---------------------------------------------------------------------------------


def no_complaint(original: Path, data: bytes, folder: Path, outcome: Outcome) -> str | None:
    return None


def fault(outcome: Outcome) -> str | None:
    """What no command may do, whatever it is given."""
    if outcome.hung:
        return f"hung: {outcome.seconds:.0f} s"
    if outcome.code < 0:
        return f"signal {-outcome.code}"
    if "Traceback" in outcome.err or outcome.code not in (0, 2):
        lines = outcome.err.strip().splitlines()
        return f"traceback: {lines[-1][:150] if lines else outcome.code}"
    said = [line for line in outcome.err.splitlines() if line.strip() and not line.startswith(("note: ", "observed "))]
    if outcome.code == 2 and len(said) != 1:
        return f"{len(said)} lines of error: {' | '.join(said)[:200]}"
    return None


def count_of(written: object, unit: str | None, whole: bool) -> float | Fraction:
    """A time as written, in the log's count."""
    text = str(written).strip()
    if unit is None:
        return Fraction(text) if whole else float(text)
    moment = datetime.fromisoformat(text)
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    micro = (since.days * 86_400 + since.seconds) * 10**6 + since.microseconds
    return Fraction(micro * 1000, 1000 ** (3 - ("s", "ms", "us", "ns").index(unit)))


def compare(rows: list[dict], path: Path, names: list[str]) -> str | None:
    """Rows as an independent reader has them, against the log that was made of them."""
    from pintgn import EventLog

    log = EventLog.open(path)
    if len(rows) != len(log):
        return f"{len(log)} events of {len(rows)} rows"
    unit = log.schema.time.unit
    times = [count_of(told["t"], unit, log.t.dtype.kind == "i") for told in rows]
    order = sorted(range(len(rows)), key=times.__getitem__)
    rows, times = [rows[k] for k in order], [times[k] for k in order]
    ends = [log.ids.decode(column).to_pylist() for column in (log.src, log.dst)]
    numbers = {f.name: k for k, f in enumerate(log.schema.features) if f.kind == "number"}
    for row, told in enumerate(rows):
        for side, name in enumerate(("src", "dst")):
            if str(told[name]).strip() != str(ends[side][row]):
                return f"row {row}: {name} is {told[name]!r}, read as {ends[side][row]!r}"
        if times[row] != log.t[row].item():
            return f"row {row}: t is {told['t']!r}, read as {log.t[row]} ({unit})"
        if log.features is not None and len(numbers) == len(log.schema.features):
            for name, k in numbers.items():
                there, read = float(told[name]), float(log.features[row, k])
                if not (np.float32(there) == np.float32(read) or (math.isnan(there) and math.isnan(read))):
                    return f"row {row}: {name} is {told[name]!r}, read as {read}"
    return None


def judge_csv(original: Path, data: bytes, folder: Path, outcome: Outcome) -> str | None:
    if outcome.code != 0:
        return None
    text = data.decode("utf-8-sig")
    lines = [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row]
    head = [name.strip() for name in lines[0]]
    uneven = [row for row in lines if len(row) != len(head)]
    if uneven:
        return f"a line has {len(uneven[0])} columns, not {len(head)}, and was read"
    return compare([dict(zip(head, row, strict=True)) for row in lines[1:]], folder / "out.parquet", head)


def judge_json(original: Path, data: bytes, folder: Path, outcome: Outcome) -> str | None:
    if outcome.code != 0:
        return None
    rows = [json.loads(line) for line in data.decode("utf-8-sig").splitlines() if line.strip()]
    return compare(rows, folder / "out.parquet", [])


def judge_answer(original: Path, data: bytes, folder: Path, outcome: Outcome) -> str | None:
    """What has a checksum is answered as before, or refused."""
    if outcome.code == 0 and outcome.out != ANSWERS.setdefault(original.name, outcome.out):
        return "another answer than that of the good file"
    return None


ANSWERS: dict[str, str] = {}
"""To the good files; those come first."""


def judge_ours(original: Path, data: bytes, folder: Path, outcome: Outcome) -> str | None:
    from pintgn import EventLog

    if outcome.code == 0 and EventLog.open(original) != EventLog.open(folder / "out.parquet"):
        return "other rows than the original's"
    return None


def judge_toml(original: Path, data: bytes, folder: Path, outcome: Outcome) -> str | None:
    if outcome.code != 0:
        return None
    given, read = tomllib.loads(data.decode()), tomllib.loads(outcome.out)
    for table, values in given.items():
        for key, value in values.items():
            found = read[table].get(key)
            if found != value and not (value == "auto" or found is None):
                return f"{table}.{key} is {value!r}, read as {found!r}"
    return None


# --- the kinds ------------------------------------------------------------------------------------------------------


def kinds(folder: Path) -> list[Kind]:
    """Good files of every kind, made once; a run and a service's store among them."""
    import pintgn

    rng = np.random.default_rng(0)
    count = 90
    src, dst = rng.integers(0, 12, count), rng.integers(0, 12, count)
    t = 1_000 + np.sort(rng.integers(0, 60, count))
    table = {"src": [f"p{k}" for k in src], "dst": [f"q {k}" for k in dst], "t": t.tolist()}
    table |= {"x": np.round(rng.normal(size=count), 3).tolist(), "y": rng.integers(0, 99, count).tolist()}
    days = [f"2024-03-{1 + k % 28:02d}T{k // 28:02d}:00:00" for k in sorted(int(x) % 28 for x in t)]

    def text(name: str, columns: dict, quoting: int = csv.QUOTE_MINIMAL) -> Path:
        with open(folder / name, "w", newline="") as file:
            writer = csv.writer(file, quoting=quoting)
            writer.writerow(columns)
            writer.writerows(zip(*columns.values(), strict=True))
        return folder / name

    texts = [
        text("plain.csv", table),
        text("numbers.csv", table | {"src": src.tolist(), "dst": dst.tolist()}),
        text("quoted.csv", table | {"dst": [f'a "b", {k}\n' for k in dst]}, csv.QUOTE_ALL),
        text("dates.csv", table | {"t": days}),
        text("decimals.csv", table | {"t": [k + 0.25 for k in t.tolist()]}),
    ]
    lines = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
    jsons = [folder / "events.jsonl", folder / "dates.jsonl"]
    jsons[0].write_text("".join(json.dumps(line) + "\n" for line in lines))
    jsons[1].write_text("".join(json.dumps(line | {"t": day}) + "\n" for line, day in zip(lines, days, strict=True)))

    def convert(path: Path, work: Path, *more: str) -> None:
        command("data", "convert", path, "-o", work / "out.parquet", *more)

    def from_text(path: Path, work: Path) -> None:
        convert(path, work, "--features", "x,y", "--sort", "--delimiter", ",")

    def from_json(path: Path, work: Path) -> None:
        convert(path, work, "--features", "x,y", "--sort")

    ours = [folder / "ours.parquet", folder / "rich.parquet"]
    read = pintgn.read_events(table, features=["x", "y"])
    read.save(ours[0])
    nodes = {"id": [f"p{k}" for k in range(12)], "age": rng.normal(size=12)}
    kinded = table | {"kind": [("a", "bc")[k % 2] for k in range(count)], "op": ["add", "delete"] * (count // 2)}
    with contextlib.redirect_stderr(io.StringIO()), _quiet():
        rich = pintgn.read_events(
            kinded,
            features=["x", "kind"],
            label="y",
            columns=pintgn.Columns(op="op", nodes=nodes),
            cleaning=pintgn.Cleaning(sort=True),
        )
    rich.save(ours[1])
    theirs = [folder / "theirs.parquet", folder / "plain.parquet"]
    pq.write_table(pa.table(table | {"t": pa.array(days).cast(pa.timestamp("s"))}), theirs[0])
    pq.write_table(pa.table(table), theirs[1], compression="none", use_dictionary=False)

    (folder / "pairs.csv").write_text("src,dst\np1,q 2\np3,q 4\n")
    run, stopped = folder / "run", folder / "stopped"
    model = pintgn.PINT(dim=8, neighbors=4, positions=2, memory=4)
    with _quiet():
        pintgn.fit(model, read, folder=run, epochs=1, batch=30)
        with contextlib.suppress(KeyboardInterrupt):
            pintgn.fit(pintgn.TGN(dim=8, memory=8, heads=2), read, folder=stopped, epochs=2, batch=30, progress=_stop)
    with pintgn.Service.open(run) as service:
        service.observe([{"src": "p1", "dst": "q 2", "t": 2_000 + k, "features": {"x": 1.0, "y": 2}} for k in range(5)])
    from pintgn.serve.api_keys import FILE, add_key, stored

    add_key(run / "live", "someone")

    def ask(path: Path, work: Path) -> None:
        command("predict", path, folder / "pairs.csv")

    def resume(path: Path, work: Path) -> None:
        command("train", path, "--resume", "--no-report")

    def serve(path: Path, work: Path) -> None:
        """What `pintgn serve` does before it listens."""
        from pintgn.errors import PintgnError

        try:
            stored(path / "live" / FILE)
            with pintgn.Service.open(path) as service:
                print(service.live.total)
                for report in service.reports:
                    print(f"note: {report}", file=sys.stderr)
        except PintgnError as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
            sys.exit(2)

    def whole(start: Callable[[Path, Path], None], top: Path) -> Callable[[Path, Path], None]:
        """The command on a copy of a folder in which one file is the changed one."""

        def run_it(path: Path, work: Path) -> None:
            copy = work / "run"
            shutil.copytree(top, copy)
            shutil.copyfile(path, copy / (folder / path.name.replace("~", "/")).relative_to(top))
            start(copy, work)

        return run_it

    def inside(top: Path, pattern: str) -> list[Path]:
        return sorted(path for path in top.rglob(pattern) if path.is_file())

    settings = folder / "settings.toml"
    settings.write_text(
        '[model]\nname = "pint"\ndim = 16\nlayers = 2\nneighbors = 8\nbeta = 0.5\n\n'
        '[train]\nepochs = 3\nbatch = 50\nlearning_rate = 0.001\nhidden = 0.1\nprotocol = "stream"\n\n'
        '[stream]\nmemory_block = 100\npositions_refresh = "event"\n'
    )

    def dry(path: Path, work: Path) -> None:
        command("train", folder / "plain.csv", "--config", path, "--dry-run")

    columns = {"src": ["p1", "p9"], "dst": ["q 2", "q 7"], "t": [3_000, 3_001]}
    body = folder / "body.json"
    body.write_text(json.dumps({"columns": columns | {"features": {"x": [0.5, 1.5], "y": [1.0, 2.0]}}}))

    def post(path: Path, work: Path) -> None:
        from pintgn.serve.api import create_app

        with _quiet():
            from starlette.testclient import TestClient
        with pintgn.Service.open(run, work / "live") as service:
            client = TestClient(create_app(service), raise_server_exceptions=True)
            sent = {"Content-Type": "application/json"}
            found = client.post("/events", content=path.read_bytes(), headers=sent)
        if found.status_code >= 500:
            raise AssertionError(f"{found.status_code}: {found.text}")
        if found.status_code != 200:
            print(found.json()["message"], file=sys.stderr)
            sys.exit(2)

    snapshot = [path for path in inside(run / "live" / "snapshots", "*") if path.suffix in (".json", ".npz")]
    return [
        Kind("CSV", texts, from_text, judge_csv),
        Kind("JSON lines", jsons, from_json, judge_json),
        Kind("Parquet, ours", ours, convert, judge_ours),
        Kind("Parquet, others'", theirs, convert, no_complaint),
        Kind("columns of POST /events", [body], post, no_complaint),
        Kind("TOML", [settings], dry, judge_toml),
        Kind("settings.toml", [run / "settings.toml"], whole(ask, run), judge_answer),
        Kind("run's JSON", [*inside(run, "run.json"), run / "result.json", run / "stream" / "stream.json"],
             whole(ask, run), no_complaint, fields=True),
        Kind("run's log", [run / "events.parquet"], whole(ask, run), judge_answer),
        Kind("run's arrays", inside(run / "stream", "*.npz"), whole(ask, run), judge_answer),
        Kind("safetensors", inside(run, "*.safetensors"), whole(ask, run), judge_answer),
        Kind("checkpoint", inside(stopped, "*.safetensors"), whole(resume, stopped), no_complaint),
        Kind("snapshot", [run / "live" / FILE, *snapshot], whole(serve, run), no_complaint, fields=True),
    ]  # fmt: skip


@contextlib.contextmanager
def _quiet():
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _stop(entry: dict) -> None:
    """A training that is interrupted after its first epoch."""
    if "val" in entry:
        raise KeyboardInterrupt


# --- all cases ------------------------------------------------------------------------------------------------------


def case(kind: Kind, number: int, seed: int, top: Path, keep: Path | None = None) -> tuple[str, str | None, float]:
    """Run one case: "read" or "refused", what is wrong if anything is, and how long it took."""
    rng = np.random.default_rng([seed, number])
    original = kind.originals[int(rng.integers(0, len(kind.originals)))]
    data = original.read_bytes()
    by_field = kind.fields and original.suffix == ".json" and rng.random() < 0.6
    data = changed_field(data, rng) if by_field else changed(data, rng)
    work = Path(tempfile.mkdtemp(prefix="case-", dir=top / "work"))
    try:
        # a file inside a folder is known by its way from the top
        name = str(original.relative_to(top)).replace("/", "~")
        path = work / name
        path.write_bytes(data)
        outcome = in_child(lambda: kind.run(path, work), work)
        wrong = fault(outcome)
        if wrong is None:
            try:
                wrong = kind.judge(original, data, work, outcome)
            except Exception as error:
                wrong = f"read what an independent reader cannot: {type(error).__name__}: {error}"
        if wrong is not None and keep is not None:
            keep.mkdir(parents=True, exist_ok=True)
            (keep / f"{number}-{name}").write_bytes(data)
            (keep / f"{number}-{name}.err").write_text(f"{kind.name}: {wrong}\n\n{outcome.err}")
        return ("read" if outcome.code == 0 else "refused"), wrong, outcome.seconds
    finally:
        shutil.rmtree(work, ignore_errors=True)


def warm_up(made: list[Kind], top: Path) -> None:
    """Every good file once, in this process' forks; and what each needs compiled, here."""
    for kind in made:
        for original in kind.originals:
            work = Path(tempfile.mkdtemp(prefix="good-", dir=top / "work"))
            path = work / str(original.relative_to(top)).replace("/", "~")
            shutil.copyfile(original, path)
            outcome = in_child(lambda kind=kind, path=path, work=work: kind.run(path, work), work)
            wrong = fault(outcome) or kind.judge(original, original.read_bytes(), work, outcome)
            if outcome.code != 0 or wrong is not None:
                raise AssertionError(f"{kind.name}, {original.name}, unchanged: {wrong} {outcome.err}")
            shutil.rmtree(work)


def run(cases: int, seed: int = 0, start: int = 0, only: str | None = None, keep: Path | None = None) -> dict:
    """All cases; what was found, by kind."""
    found: dict[str, Counter] = {}
    faults: list[str] = []
    slowest = 0.0
    with tempfile.TemporaryDirectory(prefix="pintgn-malformed-") as folder:
        top = Path(folder)
        (top / "work").mkdir()
        made = kinds(top)
        warm_up(made, top)
        made = [kind for kind in made if only is None or only.lower() in kind.name.lower()]
        for number in range(start, start + cases):
            kind = made[number % len(made)]
            ended, wrong, seconds = case(kind, number, seed, top, keep)
            slowest = max(slowest, seconds)
            tally = found.setdefault(kind.name, Counter())
            tally.update([ended, "cases"])
            if wrong is not None:
                tally.update(["faults"])
                faults.append(f"case {number}, {kind.name}: {wrong}")
                print(faults[-1], flush=True)
            if sys.stderr.isatty():
                print(f"\r{number + 1 - start} of {cases}", end="", file=sys.stderr, flush=True)
    return {"kinds": found, "faults": faults, "slowest": slowest}


def main() -> None:
    parser = argparse.ArgumentParser(description="Give malformed files to the commands that read them.")
    parser.add_argument("cases", type=int, nargs="?", default=2_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0, help="number of the first case, to go on or to repeat one")
    parser.add_argument("--only", help="kinds whose name has this in it")
    parser.add_argument("--keep", type=Path, help="a folder for the files of the cases that fail")
    given = parser.parse_args()
    found = run(given.cases, given.seed, given.start, given.only, given.keep)
    print(f"\n{'kind':<18}{'cases':>7}{'read':>7}{'refused':>9}{'faults':>8}")
    for name, tally in found["kinds"].items():
        print(f"{name:<18}{tally['cases']:>7}{tally['read']:>7}{tally['refused']:>9}{tally['faults']:>8}")
    total = sum((tally for tally in found["kinds"].values()), Counter())
    print(f"{'all':<18}{total['cases']:>7}{total['read']:>7}{total['refused']:>9}{total['faults']:>8}")
    print(f"the longest took {found['slowest']:.1f} s (seed {given.seed})")
    sys.exit(1 if found["faults"] else 0)


if __name__ == "__main__":
    main()
