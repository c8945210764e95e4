"""The Temporal Graph Benchmark, against the real package: its data set class, negatives and evaluator, no download."""

from __future__ import annotations

import os

import numpy as np
import pytest

import pintgn
from pintgn.errors import BadInput
from pintgn.interop import evaluate_tgb, from_tgb, tgb, tgb_parts, to_pyg
from pintgn.learn.run import Run
from tests.conftest import around
from tests.learn.helpers import QUICK

pytest.importorskip("tgb.linkproppred.evaluate", reason="py-tgb is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")  # of py-tgb and pandas: not ours to mend


def visits(seed=0, events=600):
    """Users return to their pages; (user, page, t, two features), pages numbered from 0."""
    rng = np.random.default_rng(seed)
    user = rng.integers(0, 15, events)
    page = (user * 3 + rng.integers(0, 2, events)) % 12
    page[:12] = np.arange(12)
    user[0] = 14
    return user, page, np.sort(rng.integers(0, events // 2, events)), rng.normal(size=(events, 2)).round(3)


def made(folder, columns, negatives=1_000):
    """TGB's own data set class over files such as it downloads; its own generator draws the negatives."""
    from tgb.linkproppred.dataset import LinkPropPredDataset
    from tgb.linkproppred.negative_generator import NegativeEdgeGenerator
    from tgb.utils.info import PROJ_DIR

    place = folder / "tgbl_uci"
    place.mkdir(parents=True)
    user, page, t, features = columns
    lines = ["user,item,t,label,features"]
    lines += [f"{u},{p},{s},0,{a},{b}" for u, p, s, (a, b) in zip(user, page, t, features, strict=True)]
    (place / "tgbl-uci_edgelist.csv").write_text("\n".join(lines) + "\n")
    dataset = LinkPropPredDataset("tgbl-uci", root=os.path.relpath(folder, PROJ_DIR), download=False)
    log = from_tgb(dataset)
    draw = NegativeEdgeGenerator("tgbl-uci", dataset.min_dst_idx, dataset.max_dst_idx, num_neg_e=negatives)
    for name, part in zip(("val", "test"), tgb_parts(dataset, log)[1:], strict=True):
        draw.generate_negative_samples(to_pyg(part), name, str(place))
    return dataset


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return made(tmp_path_factory.mktemp("tgb"), visits())


@pytest.fixture(scope="module")
def run(dataset):
    return pintgn.fit(pintgn.PINT(dim=8, neighbors=4), from_tgb(dataset), **QUICK)


def test_a_data_set_becomes_a_log_with_tgbs_own_numbers(dataset):
    log, data = from_tgb(dataset), dataset.full_data
    for ours, theirs in (("src", "sources"), ("dst", "destinations"), ("t", "timestamps")):
        assert (getattr(log, ours) == data[theirs]).all()
    assert np.allclose(log.features, data["edge_feat"])
    assert log.nodes == dataset.num_nodes
    assert log.id(20) == 20
    assert from_tgb(data) == log


def test_features_that_say_nothing_are_left_out(dataset):
    empty = dataset.full_data | {"edge_feat": np.zeros((600, 1))}
    assert from_tgb(empty).features is None


def test_tgbs_masks_cut_as_we_do(dataset):
    log = from_tgb(dataset)
    parts = tgb_parts(dataset, log)
    masks = (dataset.train_mask, dataset.val_mask, dataset.test_mask)
    for part, mask, ours in zip(parts, masks, log.split(), strict=True):
        assert (part.t == dataset.full_data["timestamps"][mask]).all()
        assert part == ours


@pytest.mark.parametrize(("model", "off"), [("pint", 0.02), ("edgebank", 1e-6)])
@pytest.mark.parametrize("part", ["val", "test"])
def test_tgbs_evaluator_and_ours_agree(dataset, run, part, model, off):
    """Every other page is a negative in both, so both rank the same; but nearly equal scores may change places."""
    run = run if model == "pint" else pintgn.fit(model, from_tgb(dataset), **QUICK)
    theirs = evaluate_tgb(run, dataset, part)
    ours = pintgn.evaluate(run, rank="all", part=part, baselines=()).ranking[model]["all"]
    assert theirs["events"] == ours["events"]
    assert theirs["mrr"] == pytest.approx(ours["mrr"], abs=off)
    assert theirs["hits@10"] == pytest.approx(ours["hits@10"], abs=off)


def test_no_figure_of_tgb_depends_on_the_batch(dataset, run, monkeypatch):
    expected = evaluate_tgb(run, dataset, "test")
    for size in (1, *around(expected["events"] // 2), *around(expected["events"])):
        monkeypatch.setattr(tgb, "BATCH", size)
        assert evaluate_tgb(run, dataset, "test") == pytest.approx(expected, abs=1e-6)


def test_few_negatives_of_tgbs_own_drawing(tmp_path, run):
    assert 0 < evaluate_tgb(run, made(tmp_path, visits(), negatives=5))["mrr"] <= 1


def test_validation_ignores_a_scrambled_future(tmp_path, dataset, run):
    user, page, t, features = visits()
    later = np.flatnonzero(dataset.test_mask)
    page[later] = page[np.random.default_rng(1).permutation(later)]
    other = made(tmp_path, (user, page, t, features))
    again = Run(run.settings, run.seed, from_tgb(other), run.model)
    assert evaluate_tgb(again, other, "val") == evaluate_tgb(run, dataset, "val")


def test_bad_input_is_refused_in_one_line(tmp_path, dataset, run):
    with pytest.raises(BadInput, match="no TGB data set"):
        from_tgb({"sources": []})
    with pytest.raises(BadInput, match="part='train'"):
        evaluate_tgb(run, dataset, "train")
    with pytest.raises(BadInput, match="other events"):
        evaluate_tgb(run, made(tmp_path, visits(seed=1)))
    with pytest.raises(BadInput, match="cover 600 events"):
        tgb_parts(dataset, from_tgb(dataset)[:10])


class Typed:
    """A data set of typed edges with negatives made up here, as TGB's `tkgl-` and `thgl-` sets have them."""

    def __init__(self, name, sampler, events=400):
        rng = np.random.default_rng(2)
        src, kind, t = rng.integers(0, 10, events), rng.integers(0, 3, events), np.sort(rng.integers(0, 60, events))
        self.name, self.negative_sampler = name, sampler
        self.full_data = {"sources": src, "destinations": (src * (kind + 2)) % 10, "timestamps": t, "edge_type": kind}
        cuts = np.searchsorted(t, [42, 51])
        parts = np.split(np.arange(events), cuts)
        self.train_mask, self.val_mask, self.test_mask = (np.isin(np.arange(events), part) for part in parts)
        sampler.eval_set = {"val": {}, "test": {}}
        for s, d, when, k in zip(src, self.full_data["destinations"], t, kind, strict=True):
            held = sampler.eval_set["test"].setdefault((when, s, k), [])
            held.append(d)
        for key, true in sampler.eval_set["test"].items():  # time-filtered: what is left out; else: what is ranked
            others = np.setdiff1d(np.arange(10), true)
            sampler.eval_set["test"][key] = np.unique(true) if sampler.conflicts else others[: 3 + key[2]]


@pytest.mark.parametrize("kind", ["tkgl-smallpedia", "thgl-software"])
def test_typed_edges_are_ranked_by_tgb_s_own_negatives_and_evaluator(kind):
    from tgb.linkproppred.evaluate import Evaluator
    from tgb.linkproppred.thg_negative_sampler import THGNegativeEdgeSampler
    from tgb.linkproppred.tkg_negative_sampler import TKGNegativeEdgeSampler

    if kind.startswith("tkgl"):
        sampler = TKGNegativeEdgeSampler(kind, 0, 9, "time-filtered")
        sampler.conflicts = True
    else:
        sampler = THGNegativeEdgeSampler(kind, 0, 9, np.zeros(10, int))
        sampler.conflicts = False
    dataset = Typed(kind, sampler)
    log = from_tgb(dataset)
    assert [feature.name for feature in log.schema.features] == ["edge_type"]
    options = {"train_until": 42, "val_until": 51, "hidden": 0.0, "epochs": 1, "progress": False}
    run = pintgn.fit(pintgn.PINT(dim=8), log, relation="edge_type", **options)
    found = evaluate_tgb(run, dataset)
    stream, test = run.new_stream(), run.parts.test
    stream.observe(run.parts.before(test))
    stream.model.eval()
    reciprocal = []
    for row in range(len(test)):  # one by one
        key = (test.t[row], test.src[row], log.features[test.first + row, 0])
        held = sampler.eval_set["test"][key]
        others = np.setdiff1d(np.arange(10), held) if sampler.conflicts else held
        among = np.append(test.dst[row], others)
        asked = test.query[np.full(len(among), row)].toward(among)
        now = test.t < test.t[row]
        ahead = stream.fork()
        ahead.observe(test[: int(now.sum())])
        z = ahead.score(asked).detach().numpy()
        scored = {"y_pred_pos": z[:1], "y_pred_neg": z[None, 1:], "eval_metric": ["mrr"]}
        reciprocal.append(float(Evaluator(kind).eval(scored)["mrr"]))
    assert found["mrr"] == pytest.approx(np.mean(reciprocal), abs=1e-4)
    assert found["events"] == len(test)
