"""Verdicts on the paper's claims: the same seeds, paired, with an interval, and none where there is too little."""

from __future__ import annotations

import pytest

from paper.claims import claims, same_epoch
from paper.paired import Paired
from tests.paper.helpers import by_job, link_row

POSITIONS = "Positions help PINT (Table 1)"
BEST = "PINT is the best message-passing model (Table 1)"


def verdict(*rows, of=POSITIONS):
    return {claim.sentence: claim.verdict() for claim in claims(by_job(*rows))}[of]


def seeds(model, *aps, data="uci", first=0, **more):
    """Rows of several seeds, the same figure for all and new."""
    return [link_row(model, data, seed, ap=(ap, ap), **more) for seed, ap in enumerate(aps, first)]


def test_the_interval_is_students_of_the_paired_differences():
    # differences 1, 2, 3: mean 2, sample deviation 1, t of two degrees of freedom 4.3027: half is 4.3027 / 3 ** 0.5
    found = Paired.of({0: 11.0, 1: 22.0, 2: 33.0, 7: 0.0}, {0: 10.0, 1: 20.0, 2: 30.0, 8: 99.0})
    assert (found.seeds, found.mean) == (3, pytest.approx(2.0))
    assert (found.low, found.high) == (pytest.approx(2 - 2.4841, abs=1e-3), pytest.approx(2 + 2.4841, abs=1e-3))


def test_nothing_measured_is_no_verdict():
    assert {claim.verdict() for claim in claims({})} == {"Not measured yet."}
    assert verdict(link_row()) == "Not measured yet."


def test_a_claim_holds_where_the_interval_is_above_zero_and_not_where_it_is_below():
    ahead = verdict(*seeds("pint", 0.95, 0.96, 0.97), *seeds("pint-plain", 0.92, 0.93, 0.945))
    assert ahead.startswith("Holds: UCI transductive +2.83 (+2.12 to +3.55, 3 seeds) against PINT (w/o pos. feat.)")
    behind = verdict(*seeds("pint", 0.92, 0.93, 0.945), *seeds("pint-plain", 0.95, 0.96, 0.97))
    assert behind.startswith("Does not hold: UCI transductive -2.83 (-3.55 to -2.12, 3 seeds)")


def test_a_lead_within_the_noise_is_not_decided():
    said = verdict(*seeds("pint", 0.95, 0.92, 0.97), *seeds("pint-plain", 0.92, 0.93, 0.94))
    assert said.startswith("Not decided: UCI transductive +1.67 (")


def test_seeds_that_only_one_row_has_do_not_count():
    """One seed of a row beside three of another is one pair, however the means compare."""
    said = verdict(*seeds("pint", 0.95, 0.80, 0.80), *seeds("pint-plain", 0.92))
    assert said.startswith("Not decided: UCI transductive +3.00 (1 seed)")
    apart = verdict(*seeds("pint", 0.95), *seeds("pint-plain", 0.92, 0.92, first=1))
    assert apart.startswith("Not decided: UCI transductive no common seed against")


def test_the_best_of_several_has_to_beat_each_of_them():
    mine, plain, tgn = (seeds(name, *aps) for name, aps in AHEAD.items())
    assert verdict(*mine, *plain, *tgn, of=BEST).startswith("Holds: UCI transductive +2.00 (+2.00 to +2.00, 3 seeds)")
    few = verdict(*mine, *plain, *tgn[:1], of=BEST)
    assert few.startswith("Not decided: UCI transductive +5.00 (1 seed) against TGN-Att")
    beaten = verdict(*mine, *plain, *seeds("tgn", 0.97, 0.98, 0.99), of=BEST)
    assert beaten.startswith("Does not hold: UCI transductive -2.00 (-2.00 to -2.00, 3 seeds) against TGN-Att")


AHEAD = {"pint": (0.95, 0.96, 0.97), "pint-plain": (0.93, 0.94, 0.95), "tgn": (0.90, 0.91, 0.92)}


@pytest.mark.parametrize(
    ("capped", "ahead", "said"),
    [
        ("pint", True, "Holds"),  # it is ahead although it had less time
        ("pint", False, "Not decided"),
        ("pint-plain", True, "Not decided"),
        ("pint-plain", False, "Does not hold"),
    ],
)
def test_a_claim_is_not_decided_while_the_row_behind_was_capped(capped, ahead, said):
    rows = [
        row
        for model in ("pint", "pint-plain")
        for ended in ["capped" if model == capped else "by itself"]
        for row in seeds(model, *((0.96, 0.95) if (model == "pint") == ahead else (0.92, 0.91)), ended=ended)
    ]
    found = verdict(*rows)
    assert found.startswith(said)
    assert ("the one behind was capped" in found) == (said == "Not decided")


def test_capped_runs_are_compared_at_the_last_epoch_that_both_have_done():
    rows = by_job(
        link_row("pint", curve=[0.9, 0.92, 0.94]),
        link_row("pint-plain", curve=[0.89, 0.91]),
        link_row("pint", seed=1, curve=[0.9]),  # nothing beside it
        link_row("pint", "enron", curve=[]),
        link_row("pint-plain", "enron", curve=[0.7]),
    )
    assert same_epoch("pint", "pint-plain", rows) == ["UCI, seed 0, epoch 2: 92.00 against 91.00"]
