"""Thumbnails of items: on request alone, small, without metadata, at most so many, gone when not asked for."""

import io

import pytest
from PIL import Image
from sites import record

from hierbench.data.locate import Locations
from hierbench.leaderboard.page import build, pictures
from hierbench.results import write_record

IDS = ["test-00001", "test-00328", "nowhere"]


@pytest.fixture
def run(tmp_path):
    """Images of the built-in world, named wrongly, and one that it does not have."""
    items = {"images": {"image_id": IDS, "label": [0, 1, 2], "predicted": [1, 2, 0]}}
    fields = {"task": "zero-shot/miniature-things", "dataset": "miniature-things", "n": 3}
    write_record(tmp_path / "run", record(metrics={"top1": (0.0, None, None)}, **fields), items)
    return tmp_path / "run"


def test_items_have_pictures_when_asked_for(run, tmp_path):
    built = build([run], tmp_path / "site", pictures=Locations())
    files = sorted((tmp_path / "site" / "pictures").iterdir())
    assert (built.pictures, len(files), built.without_pictures) == (2, 2, {})
    data = (tmp_path / "site" / "models" / "alpha.js").read_text()
    for path in files:
        assert path.name in data
        with Image.open(path) as picture:
            assert picture.format == "JPEG"
            assert max(picture.size) <= 96
    build([run], tmp_path / "site")  # without: they go
    assert not (tmp_path / "site" / "pictures").exists()
    assert ".jpg" not in (tmp_path / "site" / "models" / "alpha.js").read_text()


def test_a_thumbnail_is_small_and_says_nothing_of_where_it_was_taken():
    exif = Image.Exif()
    exif[0x010E] = "somebody's garden"
    whole = io.BytesIO()
    Image.effect_noise((900, 300), 60).convert("RGB").save(whole, "JPEG", exif=exif)
    small = pictures.thumbnail(whole.getvalue(), "x")
    with Image.open(io.BytesIO(small)) as picture:
        assert picture.size == (96, 32)
        assert not picture.getexif()
    assert len(small) < 10_000


def test_there_are_no_more_than_so_many(run, tmp_path, monkeypatch):
    monkeypatch.setattr(pictures, "MOST", 1)
    built = build([run], tmp_path / "site", pictures=Locations())
    assert built.pictures == 1
    assert built.without_pictures == {"miniature-things": "a site has at most 1 pictures"}


def test_a_dataset_that_is_not_there_gives_none_and_says_so(tmp_path):
    items = {"images": {"image_id": IDS, "label": [0, 1, 2], "predicted": [1, 2, 0]}}
    write_record(tmp_path / "run", record(metrics={"top1": (0.0, None, None)}, n=3), items)
    built = build([tmp_path / "run"], tmp_path / "site", pictures=Locations())
    assert built.pictures == 0
    assert "imagenet" in built.without_pictures["imagenet"]
    assert "\n" not in built.without_pictures["imagenet"]
