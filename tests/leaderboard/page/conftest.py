"""A run to make sites of."""

import numpy as np
import pytest
from sites import HOSTILE, record

from hierbench.results import write_record, write_run


def hits(first, others):
    """1,000 images, 400 of one class and 200 of each of three others, so many of them named rightly."""
    sizes = np.array([400, 200, 200, 200])
    label = np.repeat(np.arange(4), sizes)
    right = np.concatenate([np.arange(400) < first, *[np.arange(200) < others] * 3])
    predicted = np.where(right, label, (label + 1) % 4)
    return {"images": {"image_id": [f"i{k}" for k in range(1000)], "label": label, "predicted": predicted}}


@pytest.fixture
def run_folder(tmp_path):
    """Three models, of which one has a hostile name, two tasks, a gap, a failure; figures are those of the items."""
    folder = tmp_path / "run"

    def write(number, task="zero-shot/imagenet", items=None, **fields):
        card = {"parameters": 10**7 * (number + 1), "licence": "MIT", "trained_on": "GRIT"}
        model, family = ("alpha", "beta", HOSTILE)[number], ("meru", "clip", "<b>bold</b>")[number]
        write_record(folder, record(model, task, family, provenance={"card": card}, **fields), items)

    for number in range(3):
        value = 40.0 + number
        metrics = {"top1": (value, value - 1, value + 1), "mean_per_class": (value - 2.25, None, None)}
        write(number, items=hits(196 + 4 * number, 68 + 2 * number), metrics=metrics)
    write(0, "retrieval/coco", metrics={"t2i_r5": (60.0, 58.0, 62.0)})
    write(1, "retrieval/coco", error="DataError: <img src=x onerror=alert(1)>")
    write_run(folder, {"models": ["alpha", "beta", HOSTILE], "tasks": [], "layout": "argent"})
    return folder
