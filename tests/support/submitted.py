"""Runs of made-up models on the built-in world's colours, whole as the manifest wants them, for submissions."""

import numpy as np

from hierbench import registry
from hierbench.data.manifests import load_manifest, names_hash
from hierbench.results import Record, write_record, write_run
from hierbench.results.record import described

TASK, DATASET = "zero-shot/miniature-colours", "miniature-colours"
COUNT = 1000  # images of the dataset
MANIFEST = load_manifest(DATASET)
LABEL = np.arange(COUNT) % len(MANIFEST.classes)


def colour_items(hits, label=LABEL):
    """Items of a model that answers the first `hits` images rightly, the others with the next class."""
    predicted = np.where(np.arange(COUNT) < hits, label, (label + 1) % len(MANIFEST.classes))
    ids = [f"i{k}" for k in range(COUNT)]
    return {
        "images": {"image_id": ids, "label": label, "predicted": predicted, "correct": predicted == label}
    }


def colour_record(model, items, **changes):
    """The record that a run would leave of such items."""
    task = registry.task(TASK)
    provenance = {
        "checkpoint_sha256": model * 8, "source": "/home/somebody/weights.pth", "dtype": "float32",
        "dataset_fingerprint": "f" * 64, "names_hash": names_hash(MANIFEST.class_names()),
        "prompts_hash": names_hash(MANIFEST.prompts()), "geometry": {"name": "sphere"}, "revision": "abc",
        "model_notes": {"temperature": 0.07}, "preprocessing": "64 px", "tokenizing": "77 tokens",
    }  # fmt: skip
    known = {
        "task": TASK, "task_version": task.spec.version, "dataset": DATASET, "protocol": "released", "model": model,
        "family": "clip", "metrics": task.statistics(items).estimates(), "specs": described(task.spec.metrics),
        "headline": task.spec.headline, "n": COUNT, "provenance": provenance | changes.pop("facts", {}),
    }  # fmt: skip
    return Record(**{**known, **changes})


def run_of(folder, hits, label=LABEL, **changes):
    """An output folder with one record a model; `hits`: model -> how many of the 1,000 images it gets right."""
    for model, count in hits.items():
        items = colour_items(count, label)
        write_record(folder, colour_record(model, items, **changes), items)
    write_run(folder, {"models": list(hits), "tasks": [TASK], "layout": "miniature", "command": "/home/x"})
    return folder
