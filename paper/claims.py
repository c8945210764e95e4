"""What the paper claims, held against our rows: who is above whom on the same seeds, by how much, and how surely."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from paper.jobs import LAYOUT, MODELS, SETS
from paper.paired import Paired
from paper.results import Row
from paper.tables import HALVES, figure_of, rows_of

MESSAGE_PASSING = ("jodie", "dyrep", "tgat", "tgn", "pint-plain")


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, with one verdict for each result here that tests it."""

    sentence: str
    held: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    undecided: tuple[str, ...] = ()

    def verdict(self) -> str:
        said = {"Holds": self.held, "Does not hold": self.failed, "Not decided": self.undecided}
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
    """Whether each model is above all the others on a data set: the place of a claim, judged by the closest of them."""
    found: dict[str, list[str]] = {"held": [], "failed": [], "undecided": []}
    for model, others, data in pairs:
        for figure, half in HALVES.items():
            beside = [_compared(model, other, data, figure, newest) for other in others]
            there = sorted((one for one in beside if one is not None), key=lambda one: one.difference.closeness)
            for kind in ("failed", "undecided", "held"):  # one that is not beaten is enough
                if those := [one for one in there if one.kind == kind]:
                    found[kind].append(f"{SETS[data]} {half.lower()} {those[0]}")
                    break
    return Claim(sentence, **{kind: tuple(places) for kind, places in found.items()})


@dataclass(frozen=True)
class Comparison:
    """A row beside one that it should be above.

    Not decided while the row that is behind was capped: it might still catch up.
    """

    other: str
    difference: Paired
    capped: bool  # the row that is behind

    @property
    def kind(self) -> str:
        if self.capped or self.difference.low <= 0 <= self.difference.high:
            return "undecided"
        return "held" if self.difference.mean > 0 else "failed"

    def __str__(self) -> str:
        return f"{self.difference} against {MODELS[self.other]}" + (
            ", the one behind was capped" if self.capped else ""
        )


def _compared(model: str, other: str, data: str, figure: str, newest: Mapping[str, Row]) -> Comparison | None:
    """The two on the seeds that both have; None while one of them has not been measured."""
    rows = [[row for row in rows_of("links", one, data, newest) if row["ended"] != "failed"] for one in (model, other)]
    mine, theirs = (
        {row["seed"]: 100 * value for row in some if (value := figure_of(row, figure)) is not None} for some in rows
    )
    if not mine or not theirs:
        return None
    difference = Paired.of(mine, theirs)
    behind = rows[1] if difference.mean > 0 else rows[0]
    common = mine.keys() & theirs.keys()
    return Comparison(other, difference, any(row["ended"] == "capped" and row["seed"] in common for row in behind))


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
