"""The listing commands: what a person reads and the JSON documents."""

import json

import pytest

from hierbench.cli import doctor
from hierbench.engine.store import EmbeddingStore
from hierbench.errata import errata, protocols


@pytest.mark.parametrize("noun", ["models", "tasks", "datasets", "errata", "doctor"])
def test_json_is_one_document_and_nothing_else(hierbench, noun):
    done = hierbench(noun, "--json")
    assert (done.status, done.err) == (0, "")
    assert json.loads(done.out)


@pytest.mark.parametrize("columns", ["60", "80", "120"])
def test_what_the_doctor_misses_fits_the_terminal_too(hierbench, monkeypatch, columns):
    """A machine without any of the optional parts: no WordNet, no package for training or for served models."""
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr(doctor, "_wordnet", lambda: {"folder": None})
    monkeypatch.setattr(doctor, "_version", lambda package: None if package in doctor.OPTIONAL else "1.0")
    done = hierbench("doctor")
    assert "WordNet: not found" in done.out
    assert done.out.count("not installed: ") == len(doctor.OPTIONAL)
    assert all(
        "/" in line for line in done.out.splitlines() if len(line) > int(columns)
    )  # a path may be long


@pytest.mark.parametrize("columns", ["80", "120"])
@pytest.mark.parametrize("noun", ["models", "tasks", "datasets", "errata", "doctor"])
def test_listings_fit_the_terminal(hierbench, monkeypatch, noun, columns):
    monkeypatch.setenv("COLUMNS", columns)
    done = hierbench(noun)
    assert (done.status, done.err) == (0, "")
    wide = [line for line in done.out.splitlines() if len(line) > int(columns)]
    assert all("/" in line for line in wide), wide  # a path may be long


def test_models(hierbench):
    document = json.loads(hierbench("models", "--json").out)
    families = {family["name"]: family["summary"] for family in document["families"]}
    assert {
        "clip",
        "meru",
        "hycoclip",
        "uncha",
        "argent",
        "phyclip",
        "open_clip",
        "hf_clip",
        "random",
    } <= families.keys()
    assert all(families.values())
    assert "hycoclip-vit-b" in {model["name"] for model in document["models"]}
    text = hierbench("models").out
    assert "hycoclip-vit-b" in text
    assert families["random"][:30] in text


def test_tasks(hierbench):
    document = json.loads(hierbench("tasks", "--json").out)
    by_name = {task["name"]: task for task in document["tasks"]}
    assert by_name["hierarchy/imagenet"]["headline"] == "tie"
    assert "argent" in by_name["pep-v2"]["suites"]
    assert {"argent", "miniature"} <= document["suites"].keys()


def test_datasets_say_what_is_there_and_how_to_get_the_rest(hierbench, tmp_path):
    (tmp_path / "here").mkdir()
    document = json.loads(hierbench("datasets", "--data", f"coco={tmp_path / 'here'}", "--json").out)
    by_name = {dataset["name"]: dataset for dataset in document["datasets"]}
    assert (by_name["coco"]["ready"], by_name["coco"]["path"]) == (True, str(tmp_path / "here"))
    assert not by_name["imagenet"]["ready"]
    assert "--data imagenet=PATH" in by_name["imagenet"]["obtain"]
    assert by_name["miniature"]["ready"]
    text = hierbench("datasets").out
    assert "How to get what is missing" in text


def test_a_manifest_of_ones_own_is_listed(hierbench, tmp_path):
    (tmp_path / "mine.yaml").write_text(
        "title: Mine\nreader: coco-captions\ntasks: [retrieval]\nfit: squeeze\nlayout: {table: [captions.json]}\n"
    )
    done = hierbench("datasets", "--manifest", tmp_path / "mine.yaml", "--json")
    assert done.status == 0, done.err
    assert "mine" in {dataset["name"] for dataset in json.loads(done.out)["datasets"]}


def test_errata(hierbench):
    document = json.loads(hierbench("errata", "--json").out)
    assert len(document["errata"]) == 14
    assert set(document["protocols"]) == {"released", "corrected"}
    text = hierbench("errata").out
    for erratum in errata():
        assert erratum.title in text
        assert erratum.id in text


def test_every_erratum_is_complete():
    assert len({erratum.id for erratum in errata()}) == len(errata())
    assert sum(erratum.mended for erratum in errata()) == 5  # names, labels, end token, product, ties
    for erratum in errata():
        for prose in (
            erratum.title,
            erratum.what,
            erratum.where,
            erratum.effect,
            erratum.released,
            erratum.corrected,
        ):
            assert len(prose) > 3
            assert "\n" not in prose
    assert all(protocols().values())


def test_doctor_says_what_to_type_next(hierbench, tmp_path):
    (tmp_path / "coco").mkdir()
    done = hierbench("doctor", "--data", f"coco={tmp_path / 'coco'}")
    assert done.status == 0
    assert "torch" in done.out
    assert "\ncpu " in done.out
    assert (
        f"Next: hierbench run --family FAMILY --checkpoint FILE --suite argent --data coco={tmp_path / 'coco'}"
        in (done.out.replace("\n", " ").replace("  ", " "))
    )
    assert hierbench("doctor").out.rstrip().endswith("Next: hierbench run")


def test_doctor_reports_as_json(hierbench):
    report = json.loads(hierbench("doctor", "--json").out)
    assert report["packages"]["torch"]
    assert {"cpu"} <= {device["name"] for device in report["devices"]}
    assert report["cache"]["bytes"] == 0
    assert {"imagenet", "coco", "hierarcaps"} <= {dataset["name"] for dataset in report["datasets"]}


def test_cache(hierbench, tmp_path):
    assert "(no embeddings)" in hierbench("cache", "stats").out
    assert json.loads(hierbench("cache", "stats", "--json").out)["sections"] == []
    assert hierbench("cache", "prune").out == "deleted 0 sections and 0 measurements, 0 B freed\n"
    done = hierbench("cache", "export", tmp_path / "e.parquet")
    assert done.status == 2
    assert "no stored embeddings" in done.err


def test_cache_with_embeddings(hierbench, tmp_path):
    import numpy as np

    from hierbench.contracts import ModelCard

    card = ModelCard("m", "random", "here", 4, 8, 0, "none", sha256="0" * 64)
    EmbeddingStore().section(card, "text").put([b"0" * 32], ["a dog"], np.ones((1, 4), np.float32))
    document = json.loads(hierbench("cache", "stats", "--json").out)
    assert [(s["model"], s["kind"], s["rows"]) for s in document["sections"]] == [("m", "text", 1)]
    assert "m      text" in hierbench("cache", "stats").out
    assert (
        hierbench("cache", "export", tmp_path / "e.parquet").out
        == f"1 rows written to {tmp_path / 'e.parquet'}\n"
    )
    assert hierbench("cache", "prune", "--all").out.startswith("deleted 1 sections and 0 measurements, ")
    assert json.loads(hierbench("cache", "stats", "--json").out)["bytes"] == 0


def small_imagenet(folder):
    from PIL import Image

    for row, wnid in enumerate(("n03773504", "n04008634", "n01440764")):
        (folder / wnid).mkdir(parents=True)
        for shade in (40, 160):
            Image.new("RGB", (20, 20), (shade, 80 * row, 255 - shade)).save(folder / wnid / f"{shade}.png")
    return folder


def test_measured_errata(hierbench, tmp_path):
    words = ["--measure", "random", "--data", f"imagenet={small_imagenet(tmp_path / 'i')}", "--workers", "0"]
    done = hierbench("errata", *words)
    assert done.status == 0, done.err
    rows = [line for line in done.out.splitlines() if "zero-shot/imagenet" in line and "top1" in line]
    assert len(rows) == 1
    assert "lost-end-token: the model's family does not make this mistake." in done.out
    assert "hierbench data prepare food101" in done.err
    assert "for retrieval/coco" not in done.err  # this model does not make the mistake
    document = json.loads(hierbench("errata", *words, "--json").out)
    assert document["model"] == "random"
    effects = {(e["task"], e["metric"]): e for e in document["effects"]}
    assert effects["zero-shot/imagenet", "top1"]["n"] == 6
    assert effects["zero-shot/food101", ""]["status"] == "skipped"
    assert {
        "dataset": "food101",
        "tasks": ["zero-shot/food101"],
        "command": "hierbench data prepare food101",
    } in (document["missing"])


def test_measured_errata_of_a_checkpoint(hierbench):
    done = hierbench("errata", "--measure", "--family", "random", "--checkpoint", "sphere", "--name", "ours")
    assert done.status == 0, done.err
    assert done.out.startswith("ours: ")
    assert "(nothing was measured)" in done.out
    assert "hierbench data prepare imagenet" in done.err


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("random", "a model goes with --measure"),
        ("--measure", "--measure takes one model"),
        ("--measure random --family meru --checkpoint x.pth", "--measure takes one model"),
        ("--measure hycoclip-vit-bb", "no model 'hycoclip-vit-bb': did you mean hycoclip-vit-b"),
        ("--measure gone.pth", "gone.pth"),
        ("--measure random --data cooc=.", "no dataset 'cooc': did you mean coco"),
        ("--measure random --device tpu", "no device 'tpu'"),
        ("--measure random --data-dir gone", "--data-dir gone: there is no such folder"),
    ],
)
def test_mistakes_of_measured_errata(hierbench, words, line):
    done = hierbench("errata", *words.split())
    assert (done.status, done.out) == (2, "")
    assert line in done.err
    assert "Traceback" not in done.err
