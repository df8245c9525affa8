"""Datasets are looked for in the order given; what is not there says how to get it."""

from pathlib import Path

import pytest

from hierbench.cache import cache_dir
from hierbench.data.locate import Locations, describe
from hierbench.errors import UnknownNameError


@pytest.fixture(autouse=True)
def no_data_folder(monkeypatch):
    monkeypatch.delenv("HIERBENCH_DATA", raising=False)


def folder(path):
    path.mkdir(parents=True)
    return path


def test_cache_dir(monkeypatch):
    monkeypatch.setenv("HIERBENCH_CACHE", "~/somewhere")
    assert cache_dir() == Path.home() / "somewhere"
    monkeypatch.setenv("HIERBENCH_CACHE", "")
    assert cache_dir() == Path.home() / ".cache" / "hierbench"


def test_the_order_of_the_places(tmp_path, monkeypatch):
    assert Locations(data_dir=tmp_path / "a").find("coco") is None
    in_cache = folder(cache_dir() / "datasets" / "coco")
    assert Locations(data_dir=tmp_path / "a").find("coco") == in_cache
    in_environment = folder(tmp_path / "b" / "coco")
    monkeypatch.setenv("HIERBENCH_DATA", str(tmp_path / "b"))
    assert Locations(data_dir=tmp_path / "a").find("coco") == in_environment
    in_folder = folder(tmp_path / "a" / "coco")
    where = Locations({"imagenet": tmp_path}, tmp_path / "a")
    assert where.find("coco") == in_folder
    assert where.find("hierarcaps") is None
    assert Locations({"coco": tmp_path / "mine"}, tmp_path / "a").find("coco") == tmp_path / "mine"


def test_home_and_plain_strings():
    assert Locations({"coco": "~/coco"}).find("coco") == Path.home() / "coco"


def test_a_path_for_an_unknown_dataset():
    with pytest.raises(UnknownNameError, match="did you mean imagenet"):
        Locations({"imagnet": Path("x")})


def test_describe(tmp_path):
    missing = describe("coco", Locations())
    assert (missing.ready, missing.path, missing.found_by) == (False, None, "")
    assert "val2017.zip" in missing.obtain
    assert missing.obtain.endswith("--data coco=PATH")
    found = describe("coco", Locations({"coco": tmp_path}))
    assert (found.ready, found.path, found.found_by) == (True, tmp_path, "--data")
    wrong = describe("coco", Locations({"coco": tmp_path / "nowhere"}))
    assert (wrong.ready, wrong.found_by) == (False, "--data")
    assert describe("miniature", Locations()).found_by == "built in"
    with pytest.raises(UnknownNameError):
        describe("flicker", Locations())
