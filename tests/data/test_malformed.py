"""Malformed parquet files and manifests, drawn by a seed: each ends in one line or is read, never in another error."""

import json
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from hierbench.acquire.prepare import prepare
from hierbench.data.datasets import Classification, Retrieval
from hierbench.data.locate import Locations
from hierbench.data.manifests import load_manifest, load_manifest_file
from hierbench.data.readers import hf_parquet, open_dataset, open_folder
from hierbench.errors import HierbenchError

PETS = load_manifest("pets").class_ids
ROWS = 4


@pytest.fixture(autouse=True)
def nothing_cached():
    hf_parquet._row_group.cache_clear()


def columns():
    """Every column that the reader looks at, right as it is."""
    image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    return {
        "image": pa.array([{"bytes": b"image %d" % k, "path": f"{k}.jpg"} for k in range(ROWS)], image),
        "label": pa.array(range(ROWS), pa.int64()),
        "caption": pa.array([[f"a {k}", "b"] for k in range(ROWS)], pa.list_(pa.string())),
        "filename": pa.array([f"{k}.jpg" for k in range(ROWS)]),
        "split": pa.array(["test"] * ROWS),
    }


ODD = (
    pa.nulls(ROWS),
    pa.array([None] * ROWS, pa.string()),
    pa.array(["x"] * ROWS),
    pa.array(["x", None, "", "\u2028"]),
    pa.array([1.5] * ROWS),
    pa.array([True] * ROWS),
    pa.array([2**62] * ROWS),
    pa.array([-1] * ROWS, pa.int8()),
    pa.array([[["a"]]] * ROWS),
    pa.array([[], None, ["a"], [None]], pa.list_(pa.string())),
    pa.array([b"\xff"] * ROWS),
    pa.array([{"bytes": "text", "path": None}] * ROWS),
    pa.array(
        [{"bytes": None, "path": None}] * ROWS, pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    ),
    pa.array([None] * ROWS, pa.struct([("bytes", pa.binary())])),
    pa.array([{"bytes": [1]}] * ROWS),
    pa.array([{"other": b"x"}] * ROWS),
    pa.array(["a", "b", "a", "b"]).dictionary_encode(),
    pa.array([10**17] * ROWS, pa.timestamp("ns")),
)
FEATURES = (
    b"{", b"[]", b"null", b'{"info": []}', b'{"info": {"features": 3}}', b"\xff", b"[" * 100_000,
    json.dumps({"info": {"features": {"label": {"_type": "ClassLabel"}}}}).encode(),
    json.dumps({"info": {"features": {"label": {"_type": "ClassLabel", "names": [3] * 37}}}}).encode(),
    json.dumps({"info": {"features": {"label": {"_type": "ClassLabel", "names": {"a": "b"}}}}}).encode(),
    json.dumps({"info": {"features": {"gone": {"_type": "ClassLabel", "names": list(PETS)}}}}).encode(),
)  # fmt: skip
RIGHT = json.dumps({"info": {"features": {"label": {"_type": "ClassLabel", "names": list(PETS)}}}}).encode()


def malformed(draw):
    """A table with a column dropped, doubled or replaced, or with an odd description of its features."""
    chosen, features = columns(), RIGHT
    match draw.randrange(4):
        case 0:
            del chosen[draw.choice(list(chosen))]
        case 1:
            name = draw.choice(list(chosen))
            return pa.table([*chosen.values(), draw.choice(ODD)], names=[*chosen, name]), features
        case 2:
            for name in draw.sample(list(chosen), draw.randrange(1, 3)):
                chosen[name] = draw.choice(ODD)
        case _:
            features = draw.choice(FEATURES)
    return pa.table(chosen), features


def outcome(name, folder):
    """ "read", or the line that it ends in."""
    try:
        data = open_dataset(name, Locations({name: folder}))
        assert isinstance(data, Classification | Retrieval)
        for image_id in data.images.ids:
            data.images.read(image_id)
    except HierbenchError as error:
        return str(error)
    return "read"


def test_malformed_tables(tmp_path):
    draw = random.Random(3)
    told = []
    for _ in range(150):
        table, features = malformed(draw)
        pq.write_table(table.replace_schema_metadata({b"huggingface": features}), tmp_path / "test.parquet")
        hf_parquet._row_group.cache_clear()
        told += [outcome(name, tmp_path) for name in ("pets", "flickr30k")]
    assert "read" in told
    assert sum(line != "read" for line in told) > 100
    assert not any("\n" in line for line in told)


def test_damaged_bytes(tmp_path, layouts):
    """Bytes flipped, cut out and cut off in the files that the hub has and in those of the prepared form."""
    draw = random.Random(3)
    layouts.write_hf_parquet(tmp_path / "hub", layouts.some(*PETS[:3]), PETS, shards=1)
    prepare("pets", [tmp_path / "hub"], tmp_path / "prepared")
    told = []
    for folder in (tmp_path / "hub", tmp_path / "prepared"):
        (path,) = folder.rglob("*.parquet")
        whole = path.read_bytes()
        for _ in range(100):
            content = bytearray(whole)
            for _ in range(draw.randrange(1, 4)):
                content[draw.randrange(len(content))] = draw.randrange(256)
            if draw.random() < 0.3 and folder.name == "hub":
                start = draw.randrange(len(content))
                del content[start : start + draw.choice((1, 8, 10_000))]
            path.write_bytes(content)
            hf_parquet._row_group.cache_clear()
            told.append(outcome("pets", folder))
    assert not any("\n" in line for line in told)
    assert sum("is damaged" in line for line in told) > 50


def test_missing_values_in_the_prepared_form(tmp_path, layouts):
    folder = layouts.build("flickr30k", tmp_path / "source").folder
    prepare("flickr30k", [folder], tmp_path / "out")
    (path,) = (tmp_path / "out").glob("*.parquet")
    table = pq.read_table(path)
    info = json.loads((tmp_path / "out" / "dataset.json").read_text())
    for name, values in (
        ("id", [None, "b"]), ("captions", [["a", None], ["c"]]), ("caption_rows", [None, [0, 1, 2, 3]]),
    ):  # fmt: skip
        field = table.schema.field(name)
        pq.write_table(
            table.set_column(table.schema.get_field_index(name), field, pa.array(values, field.type)), path
        )
        info["shards"][0]["size"] = path.stat().st_size
        (tmp_path / "out" / "dataset.json").write_text(json.dumps(info))
        with pytest.raises(HierbenchError, match=r"is damaged \(values are missing"):
            open_folder(load_manifest("flickr30k"), tmp_path / "out")


def test_malformed_manifests(tmp_path):
    draw = random.Random(3)
    good = {
        "title": "Mine", "reader": "imagefolder", "tasks": ["zero-shot"], "fit": "crop",
        "classes": {"a": "dog", "b": "cat"},
        "templates": ["a {}."], "counts": {"images": 2, "per_class": 1}, "layout": {"images": ["x"]},
        "sources": [{"kind": "hub", "reader": "wds", "repo": "a/b"}], "aliases": {"c": "a"},
    }  # fmt: skip
    odd = [None, True, 0, -1, 10**30, 1.5, float("nan"), float("inf"), "", " ", "x" * 20_000, "\u2028", "{}", [], {},
           [[]], [None], {"a": {}}, {1: 2}, {None: "x"}, ["a", "a"], [{}], "2001-01-01", "../..", "\x00"]  # fmt: skip
    path = tmp_path / "mine.yaml"
    told = []
    for _ in range(200):
        fields = dict(good)
        for name in draw.sample(
            [*good, "taxonomy", "miniature", "metric", "name", "extra"], draw.randrange(1, 4)
        ):
            fields[name] = draw.choice(odd)
        if draw.random() < 0.2:
            fields["counts"] = {"per_class": draw.choice(odd)}
        text = yaml.safe_dump(fields, allow_unicode=True)
        if draw.random() < 0.3:
            place = draw.randrange(len(text))
            text = (
                text[:place]
                + draw.choice(["\t", ":", "&a *a", "!!timestamp x", "9" * 5000, "[" * 60])
                + text[place:]
            )
        path.write_text(text, encoding=draw.choice(["utf-8"] * 9 + ["utf-16"]))
        try:
            load_manifest_file(path)
            told.append("read")
        except HierbenchError as error:
            told.append(str(error))
    assert sum(line != "read" for line in told) > 100
    assert not any("\n" in line for line in told)
