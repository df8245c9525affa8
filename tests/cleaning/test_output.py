"""What a cleaning leaves: tables that PEP takes as they are, scores with who gave them, a page that stands alone."""

import csv
import json
import re

import numpy as np
import pyarrow.parquet as pq
import pytest

from hierbench import registry
from hierbench.cleaning import audit, oracle, output, sources
from hierbench.cleaning.roles import Cast
from hierbench.cleaning.select import Rules
from hierbench.data.locate import Locations
from hierbench.data.readers import open_dataset
from hierbench.errors import OutputError, UsageError
from hierbench.miniature.noise import noisy_chains


@pytest.fixture(scope="module")
def cleaned(tmp_path_factory, source, truth):
    from hierbench.cleaning import pipeline

    folder = tmp_path_factory.mktemp("cleaned")
    outcome = pipeline.clean(source, truth, Rules(negatives=20), folder)
    output.write(outcome, folder)
    return folder, outcome


def test_pep_takes_the_folder_as_it_is(cleaned, source):
    folder, outcome = cleaned
    dataset = open_dataset("hierarcaps-clean", Locations({"hierarcaps-clean": folder}))
    kept = [row for row, keeps in enumerate(outcome.kept) if keeps]
    assert dataset.captions == tuple(source.dataset.captions[row] for row in kept)
    assert dataset.pool == tuple(source.captions[n.caption] for n in outcome.pool)
    for image, row in zip(dataset.images.ids, kept, strict=True):
        assert dataset.images.read(image) == source.dataset.images.read(source.dataset.images.ids[row])
    task = registry.task("pep-v2")
    pool, counted = task.pairs.negatives(dataset)
    assert len(pool) == 20
    assert counted.sum() > 0.9 * counted.size
    assert set(task.requests(dataset).images) == set(dataset.images.ids)


def test_the_split_has_the_published_columns(cleaned):
    with open(cleaned[0] / "split.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["id", "captions", "image_url"]
    assert all(row["captions"].count(" => ") == 3 for row in rows)
    assert (cleaned[0] / "pool.csv").read_text().splitlines()[0] == "caption"


@pytest.mark.parametrize(
    ("stage", "columns", "rows"),
    [
        ("verify", {"sample_id", "image_id", "level", "caption", "finer_caption"}, 50 * 7),
        ("embed", {"image_id", "caption", "rank_by_image", "rank_by_caption"}, None),
        ("rerank", {"image_id", "caption"}, None),
        ("relate", {"sample_id", "specific", "general"}, None),
    ],
)
def test_every_score_says_who_gave_it(cleaned, stage, columns, rows):
    table = pq.read_table(cleaned[0] / f"{stage}.parquet")
    who = {"score", "model", "revision", "prompt_hash", "backend", "dtype"}
    assert set(table.column_names) == columns | who
    assert table.num_rows == rows if rows else table.num_rows > 0
    assert set(table.column("model").to_pylist()) == {"oracle"}
    assert np.isfinite(table.column("score").to_numpy()).all()
    hashes = set(table.column("prompt_hash").to_pylist())
    assert len(hashes) == (2 if stage == "verify" else 1)


def test_scores_of_the_stages_agree_with_the_decisions(cleaned, source):
    folder, outcome = cleaned
    table = pq.read_table(folder / "verify.parquet").to_pylist()
    truth = {(row["sample_id"], row["level"]): row["score"] for row in table if row["image_id"]}
    for decision in outcome.decisions:
        assert decision.verify == tuple(truth[decision.sample_id, level] for level in (1, 2, 3, 4))
    pairs = {
        (row["image_id"], row["caption"]) for row in pq.read_table(folder / "rerank.parquet").to_pylist()
    }
    own = {
        (image, chain[0])
        for image, chain in zip(source.dataset.images.ids, source.dataset.captions, strict=True)
    }
    assert not pairs & own


def test_the_manifest(cleaned):
    folder, _ = cleaned
    manifest = output.read_manifest(folder)
    assert manifest["counts"]["samples"] == manifest["counts"]["kept"] + manifest["counts"]["dropped"] == 50
    assert sum(manifest["counts"]["dropped_for"].values()) == manifest["counts"]["dropped"]
    assert set(manifest["counts"]["dropped_for"]) == {"truth", "order", "ambiguity"}
    assert manifest["rules"]["min_verify"] == 0.5
    assert manifest["planted"]["precision"] == manifest["planted"]["recall"] == 1
    assert set(manifest["files"]) == {path.name for path in folder.glob("*.*")} - {"manifest.json"}
    assert manifest["answers"]["order"] <= 150  # two samples may ask the same
    assert manifest["neither_yes_nor_no"] is None  # an oracle does not say


def test_the_page_stands_alone_and_shows_everything(cleaned, source):
    page = (cleaned[0] / "audit.html").read_text(encoding="utf-8")
    assert not re.findall(r'(?:src|href)="(?!data:)', page)
    assert "http" not in page.replace("http-equiv", "")
    assert page.count("<img ") == page.count("data:image/jpeg;base64,") == 50
    assert page.count('class="cut"') == 2 * 8  # a line and a number in every histogram with a threshold
    assert all(f">{sample}<" in page for sample in source.dataset.sample_ids)
    assert len(page) < 1_000_000


def test_captions_cannot_break_the_page(cleaned):
    from dataclasses import replace

    _, outcome = cleaned
    nasty = '<script>alert("x")</script>'
    dataset = replace(outcome.source.dataset, captions=((nasty,) * 4, *outcome.source.dataset.captions[1:]))
    page = audit.page(replace(outcome, source=replace(outcome.source, dataset=dataset)))
    assert nasty not in page
    assert "&lt;script&gt;alert" in page


def test_another_selection_leaves_no_measurement_behind(clean, tmp_path):
    clean(tmp_path, rules=Rules(keep=30, negatives=5))
    (tmp_path / output.PEP).write_text("of this selection")
    clean(tmp_path, rules=Rules(keep=30, negatives=5))
    assert (tmp_path / output.PEP).exists()
    clean(tmp_path, rules=Rules(keep=10, negatives=5))
    assert not (tmp_path / output.PEP).exists()


def test_a_selection_that_was_stopped_is_not_taken_for_a_finished_one(cleaned, clean, tmp_path, monkeypatch):
    clean(tmp_path)
    monkeypatch.setattr(output.audit, "page", lambda outcome: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        output.write(cleaned[1], tmp_path)
    with pytest.raises(OutputError, match="has come to its end"):
        output.read_manifest(tmp_path)


def test_other_rows_leave_no_image_behind(clean, contents, tmp_path):
    clean(tmp_path / "one")
    knowing = oracle.cast(noisy_chains(12, 0.25, "noise"))  # its embeddings have other columns
    few = {"given": sources.miniature(12, 0.25, "noise"), "rules": Rules(negatives=3), "cast": knowing}
    clean(tmp_path / "one", **few)
    clean(tmp_path / "fresh", **few)
    assert contents(tmp_path / "one") == contents(tmp_path / "fresh")


def test_the_published_rows_are_never_cleaned_in_place(clean, counting, tmp_path):
    """A cleaning takes the images of dropped samples out of its folder."""
    (tmp_path / "hc" / "test_imgs").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "hc")
    (tmp_path / "hc" / "hierarcaps_test.csv").write_text(
        "id,captions,image_url\n1,a => b => c => d,http://x/1.jpg\n"
    )
    (tmp_path / "hc" / "test_imgs" / "1.jpg").write_bytes(b"image")
    given = sources.hierarcaps(Locations({"hierarcaps": tmp_path / "hc"}))
    cast, role = counting()
    for out in (tmp_path / "hc", tmp_path / "link", tmp_path / "hc" / "x" / ".."):
        with pytest.raises(UsageError, match=r"the published rows themselves lie there: choose a folder"):
            clean(out, cast, given=given)
    assert role.asked == 0
    assert sorted(path.name for path in (tmp_path / "hc").iterdir()) == ["hierarcaps_test.csv", "test_imgs"]


def test_answers_that_are_neither_are_in_the_manifest(clean, counting, truth, source, tmp_path):
    """Also where the answers come from an earlier run."""

    class Wavering:
        identity = truth.verifier.identity

        def probability_of_yes(self, questions):
            return truth.verifier.probability_of_yes(questions)

        def probability_and_share(self, questions):
            shares = [0.25 if "orange" in question.text else 0.75 for question in questions]
            return np.stack([self.probability_of_yes(questions), shares], 1)

    cast = Cast(Wavering(), truth.embedder, truth.reranker)
    outcome = clean(tmp_path / "one", cast)
    told = output.read_manifest(tmp_path / "one")["neither_yes_nor_no"]
    asked = {
        item for stage in ("verify", "order", "follows", "implies") for item in outcome.asked[stage].items
    }
    assert told["of"] == len({item.key for item in asked})
    assert told["lowest_share"] == 0.25
    assert 0 < told["answers"] < told["of"]
    assert "neither yes nor no" in (tmp_path / "one" / "audit.html").read_text()
    before = (tmp_path / "one" / "manifest.json").read_bytes()
    clean(tmp_path / "one", truth)  # asks nobody
    assert (tmp_path / "one" / "manifest.json").read_bytes() == before


def test_another_selection_leaves_no_image_behind(clean, tmp_path):
    clean(tmp_path, rules=Rules(keep=30, negatives=5))
    clean(tmp_path, rules=Rules(keep=10, negatives=5))
    assert len(list((tmp_path / output.IMAGES).iterdir())) == 10


def test_a_histogram_counts_what_it_draws():
    drawn = audit.histogram([("a", np.array([0.0, 0.01, 1.0])), ("b", np.array([0.5]))], 0.25)
    assert drawn.count("<rect") == 3
    assert "a: 2, b: 0" in drawn
    assert ">0.25</text>" in drawn


@pytest.mark.parametrize("content", [None, "no json", json.dumps({"schema": 99}), "[]"])
def test_a_folder_without_a_manifest(tmp_path, content):
    if content is not None:
        (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(OutputError, match=r"clean again|has come to its end"):
        output.read_manifest(tmp_path)


def test_a_folder_that_cannot_be_written(cleaned, tmp_path):
    (tmp_path / "test_imgs").write_text("in the way")
    with pytest.raises(OutputError, match="choose another -o"):
        output.write(cleaned[1], tmp_path)
