"""A model's card: the block that Hugging Face reads, and the table below it."""

import json

import pytest
import yaml
from outcomes import many, save

from hierbench.contracts import Estimate
from hierbench.errors import OutputError, UnknownNameError
from hierbench.leaderboard.cards import card
from hierbench.results import Record, write_record

PROVENANCE = {
    "dataset_fingerprint": "f" * 64, "checkpoint_sha256": "a" * 64, "source": "/home/somebody/secret/weights.pth",
    "geometry": {"name": "lorentz", "curvature": 0.5}, "versions": {"hierbench": "9.9"}, "recorded": "2026-01-01",
}  # fmt: skip


def figures(folder):
    for task, metrics in (
        (
            "zero-shot/imagenet",
            {"top1": Estimate(40.5, 39.0, 42.0), "mean_per_class": Estimate(float("nan"))},
        ),
        ("retrieval/coco", {"t2i_r5": Estimate(50.0)}),
    ):
        record = Record(
            task=task, task_version=1, dataset=task.partition("/")[2], protocol="released", model="my_model: #1",
            family="meru", n=100, metrics=metrics, provenance=PROVENANCE, limit=100 if "coco" in task else None,
            specs={"top1": {"title": "Top-1", "unit": "percent", "higher_is_better": True}},
        )  # fmt: skip
        write_record(folder, record, {})


def block(text):
    _, head, body = text.split("---\n", 2)
    return yaml.safe_load(head), body


def test_the_block_holds_what_was_recorded(tmp_path):
    figures(tmp_path)
    head, body = block(card("my_model: #1", [tmp_path], "argent"))
    (model,) = head["model-index"]
    assert model["name"] == "my_model: #1"
    retrieval, classification = model["results"]
    assert classification["task"]["type"] == "zero-shot-image-classification"
    assert classification["dataset"] == {"type": "imagenet", "name": "imagenet"}
    (top1,) = classification["metrics"]  # a figure that is not a number is none
    assert top1 == {
        "type": "top1", "value": 40.5, "name": "Top-1",
        "args": {
            "unit": "percent", "interval_95": [39.0, 42.0], "n": 100, "task_version": 1,
            "measured_by": "hierbench 9.9",
        },
    }  # fmt: skip
    assert retrieval["metrics"][0]["args"]["limit"] == 100
    assert "# my_model: #1" in body
    assert "40.5" in body


def test_nothing_of_the_machine_is_told(tmp_path):
    figures(tmp_path)
    text = card("my_model: #1", [tmp_path])
    assert "somebody" not in text
    assert "weights.pth" in text


def test_huggingface_hub_reads_it(tmp_path):
    hub = pytest.importorskip("huggingface_hub")
    figures(tmp_path)
    data = hub.ModelCard(card("my_model: #1", [tmp_path])).data
    assert data.model_name == "my_model: #1"
    found = {(result.task_name, result.metric_type): result.metric_value for result in data.eval_results}
    assert found == {("zero-shot/imagenet", "top1"): 40.5, ("retrieval/coco", "t2i_r5"): 50.0}
    assert json.dumps(data.to_dict())


def test_who_has_no_card(tmp_path):
    many(tmp_path, {"a": 0.1})
    with pytest.raises(UnknownNameError, match="no model in these results 'b'"):
        card("b", [tmp_path])
    save(tmp_path / "x", "c", "zero-shot/imagenet", {"top1": 1.0}, {})
    failed = Record(
        task="zero-shot/imagenet", task_version=1, dataset="d", protocol="released", model="d", family="meru",
        error="no memory",
    )  # fmt: skip
    write_record(tmp_path / "x", failed, {})
    with pytest.raises(OutputError, match="d has no figures in"):
        card("d", [tmp_path / "x"])


def test_a_figure_that_is_not_that_of_its_items_says_so(tmp_path):
    many(tmp_path, {"a": 0.0})
    path = tmp_path / "results" / "a" / "zero-shot__imagenet.json"
    content = json.loads(path.read_text())
    content["metrics"]["top1"]["value"] = 99.9
    path.write_text(json.dumps(content))
    head, body = block(card("a", [tmp_path], "argent"))
    (result,) = head["model-index"][0]["results"]
    reasons = {metric["type"]: metric["args"].get("degenerate") for metric in result["metrics"]}
    assert reasons["mean_per_class"] is None
    assert "the recorded 99.9 of a is not the " in reasons["top1"]
    assert "the recorded 99.9 of a is not the " in body
