"""Records to make sites of, made by hand, with everything that a page has to bear."""

from hierbench.contracts import Estimate
from hierbench.results import Record

HOSTILE = "<script>window.hacked=1</script>\"'&"


def record(model="alpha", task="zero-shot/imagenet", family="meru", **fields):
    """A measured record; `metrics` maps a metric to value, low, high."""
    metrics = fields.pop("metrics", {"top1": (40.0, 39.0, 41.0), "mean_per_class": (38.5, 37.5, 39.5)})
    if "error" not in fields and "skipped" not in fields:
        fields["metrics"] = {name: Estimate(*bounds) for name, bounds in metrics.items()}
    provenance = {
        "checkpoint_sha256": model.encode().hex(), "source": f"/home/somebody/{model}.pth",
        "dataset_fingerprint": "f" * 64, "geometry": {"name": "lorentz", "curvature": 0.5},
        "card": {"parameters": 7_000_000, "licence": "MIT", "trained_on": "GRIT"},
        "recorded": "2026-01-02T03:04:05+00:00",
    }  # fmt: skip
    defaults = {
        "task_version": 1, "dataset": "imagenet", "protocol": "released", "n": 1000,
        "provenance": provenance | fields.pop("provenance", {}),
    }  # fmt: skip
    return Record(model=model, task=task, family=family, **{**defaults, **fields})
