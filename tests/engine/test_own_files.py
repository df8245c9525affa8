"""hierbench.run with files of one's own: from Python as from the command line."""

import json

import pytest
from PIL import Image

import hierbench
from hierbench.errors import DataError, UsageError

MANIFEST = """
title: My colours
reader: imagefolder
tasks: [zero-shot]
fit: squeeze
templates: ["a {} picture."]
classes: {red: red, green: green}
"""
ADAPTER = '''"""A model that knows red from green."""
import torch
from hierbench.model_adapters import random
from hierbench.geometry import Sphere
from dataclasses import dataclass, replace

class Colours(random.RandomAdapter):
    def encode_images(self, pixels):
        return torch.nn.functional.pad(pixels.mean((2, 3)), (0, random.DIM - 3))

    def encode_texts(self, texts):
        found = torch.zeros(len(texts), random.DIM)
        for row, text in enumerate(texts):
            found[row, 0 if "red" in text else 1] = 1
        return found

def load(checkpoint=None, **options):
    found = random.load("sphere", name=options.get("name") or "colours")
    return Colours(replace(found.card, sha256="c0" * 32), found.geometry, found.projection, found.seed)
'''
TASK = """
from hierbench.tasks.zero_shot import *
from hierbench import registry
from dataclasses import replace as _replace

class Again:
    def __init__(self):
        self.whole = registry.task("zero-shot/own_colours")
        self.spec = _replace(self.whole.spec, name="own/again")
    def __getattr__(self, name):
        return getattr(self.whole, name)
    def inapplicable(self, geometry): return None
    def requests(self, dataset): return self.whole.requests(dataset)
    def statistics(self, items): return self.whole.statistics(items)
    def score(self, geometry, embeddings, dataset): return self.whole.score(geometry, embeddings, dataset)

TASKS = {"own/again": Again}
"""


@pytest.fixture
def own(tmp_path):
    for name, text in (("own_colours.yaml", MANIFEST), ("own_model.py", ADAPTER), ("own_task.py", TASK)):
        (tmp_path / name).write_text(text)
    for name in ("red", "green"):
        (tmp_path / "images" / name).mkdir(parents=True)
        Image.new("RGB", (8, 8), name).save(tmp_path / "images" / name / "one.png")
    return tmp_path


def test_a_dataset_a_model_and_a_task_of_ones_own(own):
    found = hierbench.run(
        "own_model",
        ["zero-shot/own_colours", "own/again"],
        data={"own_colours": own / "images"},
        adapter=own / "own_model.py",
        manifest=[str(own / "own_colours.yaml")],
        task_file=(own / "own_task.py",),
        out=own / "out",
        workers=0,
        progress=False,
    )
    assert [(record.task, record.error, record.n) for record in found] == [
        ("zero-shot/own_colours", None, 2),
        ("own/again", None, 2),
    ]
    for record in found:  # red is red and green is green
        assert record.metrics["top1"].value == 100
    written = json.loads((own / "out/results/own_model/own__again.json").read_text())
    assert written["metrics"]["top1"]["value"] == 100


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"manifest": "gone.yaml"}, DataError, "gone.yaml"),
        ({"adapter": ["gone.py"]}, UsageError, "gone.py"),
        ({"task_file": "gone.py"}, UsageError, "gone.py"),
        ({"manifests": "gone.yaml"}, UsageError, "no option 'manifests' of run"),
    ],
)
def test_files_that_are_not_there_are_one_line(own, options, error, said):
    with pytest.raises(error, match=said) as caught:
        hierbench.run("random", ["zero-shot/miniature-things"], out=own / "out", **options)
    assert "\n" not in str(caught.value)
    assert not (own / "out").exists()
