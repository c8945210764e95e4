"""What the words around a page's learned output promise, whatever the digits: orders with a margin, ranges, signs.

Digits that training made differ from machine to machine, so pages show them (```text { .learned }) and nobody compares
them. Each function gets what the page's blocks left behind and what each of them printed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any


def readme(page: dict[str, Any], printed: list[str]) -> None:
    run = page["run"]
    assert run.test["all"]["ap"] > run.heuristics["heuristic"]["all"]["ap"] + 0.1, "learning pays"
    assert any(6 in line for line in genres(printed[-1])), "what user539 buys"


def shop(page: dict[str, Any], printed: list[str]) -> None:
    _, _, _, first, changed, newcomer, _ = printed
    rows = page["ranks"].ranking
    for group in ("all", "seen", "new"):
        for other in ("edgebank", "heuristic"):
            assert rows["pint"][group]["hits@10"] > rows[other][group]["hits@10"] + 0.02
    mine, theirs = (rows[name]["all"] for name in ("pint", "heuristic"))
    assert abs(mine["hits@1"] - theirs["hits@1"]) < 0.03, "as good at the very top"
    assert mine["mrr"] > theirs["mrr"] + 0.01
    assert mine["mrr"] < page["best_mrr"], "nobody does better than knowing every taste"
    _, recommended = genres(first)
    assert recommended.count(6) >= 3, "the genre of what was bought"
    assert genres(changed)[-1].count(4) >= 3, "the genre that was discovered"
    unknown, known = probabilities(newcomer)
    assert max(unknown) < 0.7, "hardly more than a half"
    assert min(known) > max(unknown) + 0.1, "one purchase changes that"


def trust_network(page: dict[str, Any], printed: list[str]) -> None:
    found = {name: page["auc"](scores) for name, scores in page["suspicion"].items()}
    best = found.pop("pint")
    assert all(best > other + 0.03 for other in found.values()), "positions tell strangers from partners of partners"
    assert 0.8 < best < 1, "good, not perfect"
    (strange,), (ordinary,) = (one for one in probabilities(printed[-1]) if one)
    assert strange + 0.1 < ordinary


PROMISES: dict[str, Callable[[dict[str, Any], list[str]], None]] = {
    "README.md": readme,
    "docs/tutorials/shop.md": shop,
    "docs/tutorials/trust-network.md": trust_network,
}


def genres(text: str) -> list[list[int]]:
    """The genres of the items that were printed, line by line: an item's last digit."""
    return [[int(item) % 10 for item in re.findall(r"\bitem(\d+)", line)] for line in text.splitlines()]


def probabilities(text: str) -> list[list[float]]:
    """The probabilities that were printed, line by line."""
    return [[float(one) for one in re.findall(r"\b0\.\d+|\b1\.0+", line)] for line in text.splitlines()]
