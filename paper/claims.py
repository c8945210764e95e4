"""What the paper claims, held against our rows: who is above whom, by how much, and with how many seeds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from paper.jobs import LAYOUT, MODELS, SETS
from paper.results import Row
from paper.tables import HALVES, cell

MESSAGE_PASSING = ("jodie", "dyrep", "tgat", "tgn", "pint-plain")


@dataclass(frozen=True)
class Claim:
    """One sentence of the paper, and what became of it here: one verdict for each place where it can be looked at.

    A place is open while the row that is behind, or one that it has to beat, was capped: it might still catch up.
    """

    sentence: str
    held: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    open: tuple[str, ...] = ()

    def verdict(self) -> str:
        said = {"Holds": self.held, "Does not hold here": self.failed, "Open, the row behind was capped": self.open}
        return " ".join(f"{what}: {'; '.join(places)}." for what, places in said.items() if places) or NOT_YET


NOT_YET = "Not measured yet."


def claims(newest: Mapping[str, Row]) -> list[Claim]:
    """The paper's claims about its tables that our rows can speak about."""
    sets = ("uci", "enron", "wikipedia")
    return [
        _above("Positions help PINT (Table 1)", [("pint", ("pint-plain",), d) for d in sets], newest),
        _above(
            "PINT is the best message-passing model (Table 1)", [("pint", MESSAGE_PASSING, d) for d in sets], newest
        ),
        _above(
            "PINT without positions beats the other message-passing models on data without features (Table 1)",
            [("pint-plain", MESSAGE_PASSING[:-1], d) for d in sets[:2]],
            newest,
        ),
        _above(
            "PINT beats CAW on UCI; CAW is ahead on Enron (Table 1)",
            [("pint", ("caw",), "uci"), ("caw", ("pint",), "enron")],
            newest,
        ),
        _above("Positions help TGN-Att (Table 2)", [("tgn-positions", ("tgn",), d) for d in sets[:2]], newest),
        _above(
            "PINT stays ahead of TGN-Att with positions (Table 2)",
            [("pint", ("tgn-positions",), d) for d in sets[:2]],
            newest,
        ),
        _above(
            "Longer positions help (d = 20 on UCI, d = 10 on Enron)",
            [("pint-d20", ("pint",), "uci"), ("pint-d10", ("pint",), "enron")],
            newest,
        ),
    ]


def _above(sentence: str, pairs: list[tuple[str, tuple[str, ...], str]], newest: Mapping[str, Row]) -> Claim:
    found: dict[str, list[str]] = {"held": [], "failed": [], "open": []}
    for model, others, data in pairs:
        for figure, half in HALVES.items():
            mine = cell(model, data, figure, newest, {})
            beside = [one for other in others if (one := cell(other, data, figure, newest, {})).values]
            if mine.mean is None or not beside:
                continue
            best = max(beside, key=lambda one: one.mean or 0.0)
            assert best.mean is not None
            ahead = mine.mean > best.mean
            behind = beside if ahead else [mine]
            kind = "open" if any(one.capped for one in behind) else "held" if ahead else "failed"
            said = f"{SETS[data]} {half.lower()} {mine.ours()} against {best.ours()} of {MODELS[best.model]}"
            found[kind].append(said)
    return Claim(sentence, **{kind: tuple(places) for kind, places in found.items()})


def same_epoch(one: str, other: str, newest: Mapping[str, Row]) -> list[str]:
    """Two models at the last epoch that both have done, seed by seed: what capped runs can be compared by."""
    found = []
    for data in SETS:
        runs = {(row["model"], row["seed"]): row.get("curve") or [] for row in every_row(newest) if row["data"] == data}
        for seed in sorted(seed for model, seed in runs if model == one and (other, seed) in runs):
            mine, theirs = runs[one, seed], runs[other, seed]
            if (epoch := min(len(mine), len(theirs))) and None not in (mine[epoch - 1], theirs[epoch - 1]):
                figures = f"{100 * mine[epoch - 1]:.2f} against {100 * theirs[epoch - 1]:.2f}"
                found.append(f"{SETS[data]}, seed {seed}, epoch {epoch}: {figures}")
    return found


def every_row(newest: Mapping[str, Row]) -> list[Row]:
    """Rows of links in the order of the tables."""
    models = list(dict.fromkeys(m for table in LAYOUT.values() for m in table[0]))
    rows = [row for row in newest.values() if row["task"] == "links" and row["model"] in models]
    return sorted(rows, key=lambda row: (list(SETS).index(row["data"]), models.index(row["model"]), row["seed"]))
