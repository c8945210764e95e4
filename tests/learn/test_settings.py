"""Settings: constructor arguments = TOML = --set; unknown keys and wrong types are errors in one line."""

from __future__ import annotations

import dataclasses

import pytest

from pintgn.errors import BadFile, BadInput, UnknownName
from pintgn.learn.defaults import from_training, resolved
from pintgn.learn.settings import Settings, Training
from pintgn.learn.settings_files import merged, parse_setting, parse_value, published_rows, read_settings
from pintgn.models.pint import PINT
from tests.conftest import ROOT
from tests.learn.helpers import random_log

PAPER = ROOT / "paper" / "paper.toml"


def test_settings_survive_the_file_exactly():
    log = random_log(400, 20)
    for given in ({}, {"model": {"layers": 2, "beta": 1e-5}, "train": {"epochs": 3, "clip": 0}}):
        settings = resolved(Settings.of(given), log)
        assert Settings.from_toml(settings.to_toml()) == settings


def test_a_model_made_in_python_keeps_every_argument():
    settings = Settings.of_model(PINT(dim=7, beta=0.3, time_unit=2.0), {})
    assert resolved(settings, random_log(400, 20)).model == PINT(dim=7, beta=0.3, time_unit=2.0).settings()


def test_what_is_left_open_comes_from_the_training_part_alone():
    log = random_log(1_000, 30)
    train = log.split()[0]
    chosen = from_training(Settings.of({}), train)
    assert chosen == from_training(Settings.of({}), train[: len(train)])
    assert chosen.train.epochs is not None
    assert chosen.train.learning_rate is not None
    assert chosen.model["beta"] == 1 / chosen.model["neighbors"]
    given = from_training(Settings.of({"model": {"neighbors": 5}, "train": {"epochs": 4}}), train)
    assert (given.model["neighbors"], given.model["beta"], given.train.epochs) == (5, 0.2, 4)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"modl": {}}, "settings has no setting 'modl'. Did you mean 'model'"),
        ({"model": {"dimm": 3}}, "Did you mean 'dim'"),
        ({"model": {"name": "pnt"}}, "there is no model 'pnt'. Did you mean 'pint'"),
        ({"train": {"epoch": 3}}, "Did you mean 'epochs'"),
        ({"stream": {"memory_blocks": 3}}, "Did you mean 'memory_block'"),
        ({"train": {"epochs": "three"}}, "train.epochs is a whole number or none, not 'three'"),
        ({"train": {"epochs": 1.5}}, "train.epochs is a whole number"),
        ({"train": {"scale_features": 1}}, "train.scale_features is true or false"),
        ({"model": {"dim": True}}, "model.dim is a whole number, not True"),
        ({"model": {"dim": 0}}, "dim=0"),
        ({"train": {"learning_rate": 0}}, "learning_rate=0.0"),
        ({"train": {"average": 1.0}}, "average=1.0"),
        ({"train": {"clip": -1}}, "clip=-1.0"),
        ({"train": {"protocol": "papr"}}, "Did you mean 'paper'"),
        ({"train": {"hidden": "dyglb"}}, "a share of the nodes, or 'dyglib'"),
        ({"train": 3}, "train is a table"),
    ],
)
def test_a_wrong_setting_is_one_line_that_helps(given, message):
    with pytest.raises(BadInput) as error:
        Settings.of(given).make_model()
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_set_finds_the_table_of_a_bare_name():
    assert parse_setting("layers=2") == {"model": {"layers": 2}}
    assert parse_setting("epochs = 5") == {"train": {"epochs": 5}}
    assert parse_setting("stream.positions_refresh=block") == {"stream": {"positions_refresh": "block"}}
    with pytest.raises(UnknownName, match="dim"):
        parse_setting("dimm=3")
    with pytest.raises(BadInput, match="NAME=VALUE"):
        parse_setting("layers")


def test_values_are_read_as_toml_and_bare_words_as_text():
    read = [parse_value(text) for text in ("1", "1.5", "1e-4", "true", '"a b"', "every", "none", "[1, 2]")]
    assert read == [1, 1.5, 1e-4, True, "a b", "every", None, [1, 2]]


def test_later_tables_are_laid_over_earlier_ones():
    assert merged({"a": {"x": 1, "y": 2}}, {"a": {"y": 3}, "b": 4}) == {"a": {"x": 1, "y": 3}, "b": 4}


def test_every_published_row_is_there_and_can_be_made():
    rows = published_rows(PAPER)
    assert rows["pint/uci"] == {"all": [96.01, 0.1], "new": [93.97, 0.1]}
    sets = {name.split("/")[1] for name in rows}
    assert sets == {"reddit", "wikipedia", "twitter", "uci", "enron", "lastfm"}
    made = 0
    for name in rows:
        tables = read_settings(PAPER, name)
        assert tables["train"]["protocol"] == "paper"
        Settings.of(tables).make_model()
        made += 1
    assert made == len(rows) > 50
    assert Settings.of(read_settings(PAPER, "pint/enron")).model["beta"] == pytest.approx(20 * 1e-5 / 20**0.5, rel=1e-3)


def test_a_settings_file_that_cannot_be_used_is_one_line(tmp_path):
    with pytest.raises(BadFile, match="cannot read"):
        read_settings(tmp_path / "nowhere.toml")
    (tmp_path / "bad.toml").write_text("[model\n")
    with pytest.raises(BadInput, match="not a TOML file"):
        read_settings(tmp_path / "bad.toml")
    with pytest.raises(BadInput, match="say which with --row"):
        read_settings(PAPER)
    with pytest.raises(UnknownName, match="pint/uci"):
        read_settings(PAPER, "pint/ucl")
    (tmp_path / "plain.toml").write_text("[train]\nepochs = 3\n")
    with pytest.raises(BadInput, match="no rows"):
        read_settings(tmp_path / "plain.toml", "pint/uci")
    assert read_settings(tmp_path / "plain.toml") == {"train": {"epochs": 3}}


def test_every_field_of_training_is_explained():
    for field in dataclasses.fields(Training):
        assert f"{field.name}:" in Training.__doc__ or f"{field.name}, " in Training.__doc__ or field.name in ("test",)
