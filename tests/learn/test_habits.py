"""What Python users are used to: mistakes in one line, progress, logging, frames, pictures, tables in notebooks."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
import torch

import pintgn
from pintgn import PINT, fit
from pintgn.errors import BadInput
from pintgn.learn.settings import Settings
from pintgn.models.base import check_device
from tests.learn.helpers import QUICK, random_log

pytestmark = pytest.mark.learning


@pytest.fixture(scope="module")
def run():
    return fit(PINT(dim=4), random_log(), **QUICK)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (lambda log: (log, "pint"), "a log where the model belongs"),
        (lambda log: (pd.DataFrame({"a": [1]}),), "a DataFrame where the model belongs.*read_events"),
        (lambda log: ("pint", pd.DataFrame({"a": [1]})), "a DataFrame where the log belongs.*read_events"),
        (lambda log: ("pint", pa.table({"a": [1]})), "a Table where the log belongs.*read_events"),
        (lambda log: ("pint", "trades.csv"), r"read_events\('trades.csv'\)"),
        (lambda log: ("pint", Path("trades.csv")), r"read_events\('trades.csv'\)"),
        (lambda log: ("pint",), "no log"),
        (lambda log: (), "nothing where the model belongs"),
        (lambda log: (PINT, log), r"the class PINT; make a model of it: fit\(PINT\(\), log\)"),
        (lambda log: (7, log), "an int where the model belongs"),
        (lambda log: ("PINT", log), "Did you mean 'pint'"),
    ],
)
def test_what_is_no_model_or_no_log_gets_one_line(given, said):
    with pytest.raises(BadInput, match=said) as error:
        fit(*given(random_log()))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("options", [{"seed": "1"}, {"seed": True}, {"progress": 3}])
def test_options_of_another_type_get_one_line(options):
    with pytest.raises(BadInput, match=next(iter(options))):
        fit("edgebank", random_log(), **options)


def test_a_warning_points_at_the_line_that_calls_fit():
    table = {"a": range(80), "b": range(80, 160), "t": range(80), "kind": ["x"] * 76 + ["y"] * 4}
    log = pintgn.read_events(table, "a", "b", "t", features=["kind"])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit("edgebank", log, hidden=0.0)
    ours = [one for one in caught if issubclass(one.category, pintgn.errors.PintgnWarning)]
    assert ours
    assert ours[0].filename == __file__


# -- device ----------------------------------------------------------------------------------------------------------


def test_a_device_that_is_not_there_is_refused_before_anything_is_read(monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    with pytest.raises(BadInput, match="device='cuda'.* has no CUDA. Use device='cpu'"):
        fit("pint", random_log(), device="cuda")
    with pytest.raises(BadInput, match="has no CUDA"):
        fit(PINT(), random_log(), device="cuda:1")
    with pytest.raises(BadInput, match="has no CUDA"):
        Settings.of({"stream": {"device": "cuda"}})
    with pytest.raises(BadInput, match="has no CUDA"):
        pintgn.Stream(PINT(), random_log().schema, device="cuda")


def test_a_device_is_named_as_torch_names_it(monkeypatch):
    for name in ("gpu", "", 3.5, "meta"):
        with pytest.raises(BadInput, match="'cpu', 'cuda', 'cuda:1' or 'mps'"):
            check_device(name)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    assert check_device("cuda:1").index == 1
    with pytest.raises(BadInput, match="has 2 CUDA devices, from 0 on"):
        check_device("cuda:2")


def test_a_run_that_was_trained_elsewhere_can_be_read_without_that_device(tmp_path):
    trained = fit("edgebank", random_log(), folder=tmp_path / "run")
    text = trained.settings.to_toml().replace('device = "cpu"', 'device = "cuda"')
    assert Settings.from_toml(text).stream.device == "cuda"


def test_a_run_that_was_trained_elsewhere_is_used_without_that_device(tmp_path, monkeypatch):
    for module in ("stream.core", "learn.settings"):  # as if there were a GPU
        monkeypatch.setattr(f"pintgn.{module}.check_device", lambda device: torch.device("cpu"))
    trained = fit(PINT(dim=4), random_log(), folder=tmp_path / "run", device="cuda", refit=True, **QUICK)
    assert trained.settings.stream.device == "cuda"
    monkeypatch.undo()
    with pytest.raises(BadInput, match="has no CUDA. Use device='cpu'"):
        pintgn.evaluate(tmp_path / "run")
    found = pintgn.evaluate(tmp_path / "run", device="cpu")
    assert found.negatives["random"]["pint"]["all"]["ap"] == pytest.approx(trained.test["all"]["ap"], abs=1e-3)
    live = pintgn.open(tmp_path / "run")
    assert live.model.device.type == "cpu"
    for use in (pintgn.open, pintgn.evaluate, pintgn.Service.open):
        with pytest.raises(BadInput, match="has no CUDA. Use device='cpu'"):
            use(tmp_path / "run", device="cuda")
    with pytest.raises(BadInput, match="device= is for a folder"):
        pintgn.open(trained, device="cpu")


# -- models ----------------------------------------------------------------------------------------------------------


def test_a_model_says_its_settings_and_its_size(run):
    assert repr(PINT()) == str(PINT()) == "PINT()"
    assert repr(PINT(dim=8, memory=4)) == "PINT(dim=8, memory=4)"
    assert repr(pintgn.TGN(heads=1)) == "TGN(heads=1)"
    assert repr(run.model).startswith("PINT(dim=4): ")
    assert repr(run.model).endswith(" parameters")
    assert "InjectiveLayer" in str(run.model)


# -- progress and logging --------------------------------------------------------------------------------------------


def test_a_function_is_told_of_phases_batches_and_epochs():
    told = []
    made = fit(PINT(dim=4), random_log(), **QUICK, progress=told.append)
    phases = [entry["phase"] for entry in told if "phase" in entry]
    assert phases[0] == "preparing"
    assert "test" in phases
    batches = [entry for entry in told if "done" in entry]
    assert {"epoch", "epochs", "done", "total", "loss"} == set(batches[0])
    assert batches[-1]["done"] == batches[-1]["total"] == len(made.parts.trained)
    assert [entry for entry in told if "val" in entry] == made.history


def test_what_a_function_raises_ends_the_training_and_the_run_goes_on_later(tmp_path):
    class Enough(Exception):
        pass

    def stop(entry):
        if "val" in entry:
            raise Enough

    settings = QUICK | {"epochs": 3}
    with pytest.raises(Enough):
        fit(PINT(dim=4), random_log(), **settings, folder=tmp_path / "run", progress=stop)
    went_on = fit(PINT(dim=4), random_log(), **settings, folder=tmp_path / "run")
    assert went_on.test == fit(PINT(dim=4), random_log(), **settings).test


def test_fit_prints_nothing_in_a_script_and_logs_every_epoch(capsys, caplog):
    with caplog.at_level(logging.INFO, logger="pintgn"):
        fit(PINT(dim=4), random_log(), **QUICK)
    assert capsys.readouterr() == ("", "")
    epochs = [record.getMessage() for record in caplog.records if record.getMessage().startswith("epoch ")]
    assert len(epochs) == QUICK["epochs"]
    assert epochs[0].startswith("epoch 1/2  loss ")


# -- frames, tables, pictures ----------------------------------------------------------------------------------------


def test_a_run_becomes_a_frame_with_a_row_for_each_epoch(run):
    frame = run.to_pandas()
    assert frame["epoch"].tolist() == [1, 2]
    assert frame["val_ap"].tolist() == [entry["val"]["all"]["ap"] for entry in run.history]
    assert frame["chosen"].tolist() == [epoch == run.best_epoch for epoch in (1, 2)]
    assert {"loss", "val_new_ap", "seconds", "events_per_second"} <= set(frame.columns)


def test_an_evaluation_becomes_a_frame_with_a_row_for_each_figure(run):
    found = pintgn.evaluate(run, ["random", "historical"], rank=5)
    frame = found.to_pandas()
    assert list(frame.columns[:3]) == ["negatives", "model", "group"]
    one = frame[(frame["negatives"] == "historical") & (frame["model"] == "edgebank") & (frame["group"] == "all")]
    assert one["ap"].item() == found.negatives["historical"]["edgebank"]["all"]["ap"]
    ranked = frame[frame["negatives"] == "ranked, 5"]
    assert ranked["mrr"].iloc[0] == found.ranking["pint"]["all"]["mrr"]
    several = pintgn.evaluate([run, run], "random").to_pandas()
    assert several["ap_std"].iloc[0] == 0.0


def test_a_run_and_an_evaluation_have_tables_for_notebooks(run):
    html = run._repr_html_()
    assert "Run(pint, seed 0" in html
    assert "<summary>Epochs</summary>" in html
    assert "model.dim" in html
    assert f"{100 * run.test['all']['ap']:.2f}" in html
    measured = pintgn.evaluate(run, rank=5)
    assert "ranked against 5" in measured._repr_html_()
    assert repr(measured) == "Evaluation(test part, ranked against 5 destinations)"
    assert "Settings" in fit("edgebank", random_log())._repr_html_()


def test_a_run_is_drawn_and_saved(run, tmp_path):
    picture = run.plot()
    assert picture._repr_svg_().startswith("<svg")
    assert f"epoch {run.best_epoch}, chosen" in str(picture)
    path = picture.save(tmp_path / "run.svg")
    assert path.read_text() == str(picture)
    with pytest.raises(BadInput, match=r"run\.svg"):
        picture.save(tmp_path / "run.png")
    assert repr(picture).startswith("Picture(")


def test_a_run_without_epochs_says_why_it_cannot_be_drawn():
    with pytest.raises(BadInput, match="edgebank has no epochs"):
        fit("edgebank", random_log()).plot()
