"""A model's panels: numbers worked by hand, and one line for whatever is not there."""

import numpy as np
import pytest
from sites import record

from hierbench.analysis.entailment import thinned
from hierbench.contracts import ModelCard
from hierbench.engine.contents import content_id
from hierbench.engine.store import EmbeddingStore
from hierbench.leaderboard.page import content, outcomes, panels
from hierbench.metrics.entailment import Curves
from hierbench.results import write_record

FACTS = {"card": {"embedding_dim": 4}, "geometry": {"name": "lorentz", "curvature": 0.25}, "dtype": "float32",
         "preprocessing": "as it is", "tokenizing": "plain", "device": "cpu"}  # fmt: skip
PAIRS = {
    "sample_id": ["s"] * 6, "general": ["a thing", "a dog", "a red dog", "an animal", "a car", "a tree"],
    "specific": ["i", "i", "j", "j", "i", "j"],
    "relation": ["l1_image", "l2_image", "l2_image", "l1_image", "negative_image", "negative_image"],
    "label": [1, 1, 1, 1, 0, 0], "score": [0.9, 0.8, 0.0, 0.7, 0.75, 0.0],
}  # fmt: skip


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HIERBENCH_CACHE", str(tmp_path / "cache"))


def made(tmp_path, task, items, dataset="somebodys", **fields):
    """The panels of a model with one record, by title."""
    measured = write_record(tmp_path / "run", record(task=task, dataset=dataset, **fields), items)
    found = panels.panels([content.Place(measured, tmp_path / "run")])
    return {panel["title"]: panel for panel in found}, measured


def test_scores_by_hand(tmp_path):
    found, _ = made(tmp_path, "pep-v2/x", {"pairs": PAIRS})
    panel = found["Entailment scores"]
    assert (panel["true"]["n"], panel["false"]["n"], panel["zero"]) == (4, 2, 0.3333)
    assert [sum(panel[name]["counts"]) for name in ("true", "false")] == [4, 2]
    # thresholds inf, .9, .8, .75, .7, 0: true 0 1 2 2 3 4 of 4, false 0 0 0 1 1 2 of 2
    assert panel["recall"] == [0, 0.25, 0.5, 0.5, 0.75, 1]
    assert panel["fpr"] == [0, 0, 0, 0.5, 0.5, 1]
    assert panel["precision"] == [1, 1, 1, 0.6667, 0.75, 0.6667]
    worst = found["Best and worst items"]["lists"]
    assert [entry["items"][0]["text"] for entry in worst] == ["a thing", "a red dog", "a car"]


def test_long_curves_are_thinned_and_keep_their_ends():
    across = np.linspace(0, 1, 10_000)
    kept = thinned(Curves(np.arange(10_000), across, across**2, across), outcomes.CURVE).threshold
    assert len(kept) <= outcomes.CURVE
    assert (kept[0], kept[-1]) == (0, 9_999)


def test_radii_by_hand(tmp_path):
    samples = {
        "sample_id": ["a", "b"],
        "image_id": ["i", "j"],
        "radius_l1": [0.0, 1.0],
        "radius_l2": [2.0, 4.0],
    }
    images = {"image_id": ["i", "j"], "precision": [1.0, 0.0], "recall": [1.0, 0.5]}
    found, _ = made(tmp_path, "hierarcaps/x", {"samples": samples, "images": images})
    panel = found["Radii by level"]
    assert [group["quantiles"][2] for group in panel["groups"]] == [0.5, 3.0]
    assert (panel["edges"][0], panel["edges"][-1]) == (0, 4)
    assert [sum(group["counts"]) for group in panel["groups"]] == [2, 2]


def test_the_disc_is_made_of_stored_embeddings(tmp_path):
    texts = PAIRS["general"][:4]
    facts = {**FACTS, "checkpoint_sha256": "ab" * 32}
    card = ModelCard("alpha", "meru", "", 4, 0, 0, "as it is", "ab" * 32, "plain")
    features = np.array([[0.1, 0, 0, 0], [0, 0.5, 0, 0], [0.9, 0, 0.1, 0], [0.3, 0.3, 0, 0.1]], np.float32)
    missing, measured = made(tmp_path, "pep-v2/x", {"pairs": PAIRS}, provenance=facts)
    assert "not in this machine's cache" in missing["Captions in the Poincaré disc"]["missing"]
    EmbeddingStore().section(card, "text").put([content_id(t) for t in texts], texts, features)
    found = panels.panels([content.Place(measured, tmp_path / "run")])[0]
    assert (found["levels"], found["shown"], found["lacking"]) == ([1, 2], 4, 0)
    assert {text: level for _, _, level, text in found["points"]} == {
        "a thing": 1, "an animal": 1, "a dog": 2, "a red dog": 2,
    }  # fmt: skip
    assert all(x * x + y * y < 1 for x, y, *_ in found["points"])


@pytest.mark.parametrize(
    ("geometry", "said"), [("sphere", "no hyperbolic space"), ("product", "a product of several")]
)
def test_a_space_without_a_disc_says_so(tmp_path, geometry, said):
    found, _ = made(tmp_path, "pep-v2/x", {"pairs": PAIRS}, provenance={"geometry": {"name": geometry}})
    assert said in found["Captions in the Poincaré disc"]["missing"]


def test_what_is_not_there_is_told_in_one_line(tmp_path):
    found, measured = made(tmp_path, "hierarchy/x", {})
    assert "no per-item outcomes" in found["Accuracy over the class tree"]["missing"]
    assert "--task hierarcaps/NAME" in found["Radii by level"]["missing"]
    found, _ = made(tmp_path, "hierarcaps/x", {"samples": {"image_id": ["i"]}})
    assert "cannot be used" in found["Radii by level"]["missing"]
    found, measured = made(tmp_path, "pep-v2/x", {"pairs": PAIRS})
    folder = tmp_path / "run" / "items" / "alpha" / "pep-v2__x"
    (folder / "pairs.parquet").write_bytes(b"edited")
    found = panels.panels([content.Place(measured, tmp_path / "run")])
    told = {panel["title"]: panel.get("missing", "") for panel in found}
    assert "another measurement" in told["Entailment scores"]


def test_the_tree_is_the_one_measured_on(tmp_path):
    from hierbench.data.manifests import load_manifest
    from hierbench.taxonomy import edge_hash

    tree = load_manifest("miniature-things").tree()
    label = [0, 0, 1]
    items = {
        "images": {"image_id": ["i", "j", "k"], "label": label, "predicted": [0, 1, 1], "tie": [0, 3, 0]}
    }
    facts = {"taxonomy_hash": edge_hash(tree.edges)}
    found, _ = made(tmp_path, "hierarchy/miniature-things", items, "miniature-things", provenance=facts)
    nodes = found["Accuracy over the class tree"]["nodes"]
    assert nodes[0][1:] == [-1, 3, 2, 3]
    names = load_manifest("miniature-things").class_names()
    assert [n[0] for n in nodes if n[2:] == [2, 1, 1]][-1] == names[0]
    (mistake,) = found["Best and worst items"]["lists"][-1]["items"]
    assert mistake["text"] == f"{names[0]}, taken for {names[1]}"
    other, _ = made(
        tmp_path, "hierarchy/miniature-things", items, "miniature-things", provenance={"taxonomy_hash": "0"}
    )
    assert "not the one that it was measured on" in other["Accuracy over the class tree"]["missing"]
