"""Records with per-item outcomes, made up, for tests of what follows from them."""

import numpy as np

from hierbench import registry
from hierbench.contracts import Estimate
from hierbench.results import Record, write_record

VERSIONS = {task.spec.name: task.spec.version for task in registry.list_tasks()}


def save(folder, model, task, metrics, items, **fields):
    defaults = {
        "task_version": VERSIONS.get(task, 1), "dataset": "d", "protocol": "released", "family": "random", "n": 40,
        "provenance": {"dataset_fingerprint": "f" * 64, "checkpoint_sha256": model * 8},
    }  # fmt: skip
    metrics = {name: Estimate(value) for name, value in metrics.items()}
    write_record(folder, Record(model=model, task=task, metrics=metrics, **{**defaults, **fields}), items)


def zero_shot(predicted, label, ids=None):
    ids = [f"i{k}" for k in range(len(label))] if ids is None else ids
    return {
        "images": {"image_id": ids, "label": label, "predicted": predicted, "correct": predicted == label}
    }


def many(folder, gains, n=400, seeds=("",), task="zero-shot/imagenet", spread=0.0, **fields):
    """Models whose hits rise by `gains` of a shared difficulty; with seeds, around them by `spread`."""
    rng = np.random.default_rng(11)
    ease = rng.random(n)
    label = np.arange(n) % 4
    for model, gain in gains.items():
        for seed in seeds:
            shift = gain + spread * rng.normal()
            hit = ease + 0.1 * rng.normal(size=n) < 0.5 + shift
            predicted = np.where(hit, label, (label + 1) % 4)
            figures = dict.fromkeys(("top1", "mean_per_class"), 100 * hit.mean())  # classes of one size
            save(folder, model + seed, task, figures, zero_shot(predicted, label), n=n, **fields)
