"""A training family, and a loss term, of a user's own: the files that docs/training.md shows, as they stand there."""

import json
import re
from pathlib import Path

import pytest
import torch
import yaml

from hierbench.cli import main
from hierbench.errors import UsageError
from hierbench.geometry import Lorentz
from hierbench.reference.configuration import build, resolve
from hierbench.reference.model import Batch
from hierbench.reference.tokenizer import tokenize

DOCS = (Path(__file__).resolve().parents[2] / "docs/training.md").read_text(encoding="utf-8")
SMALL = [
    "model.vision_sizes={embed_dim: 64, depth: 1, patch_size: 16}",
    "model.text=L1_W16",
    "model.embed_dim=8",
    "train={steps: 2, batch_size: 4, warmup_steps: 1, log_every: 1, precision: float32}",
    "data.workers=0",
]


def block(language):
    return re.search(rf"```{language}\n(.*?)```", DOCS, re.DOTALL)[1]


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A folder with the two files; the test runs in another."""
    (tmp_path / "files").mkdir()
    (tmp_path / "files/mine.yaml").write_text(block("yaml"))
    (tmp_path / "files/my_terms.py").write_text(block("python"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "files/mine.yaml"


def command(*words):
    with pytest.raises(SystemExit) as stop:
        main([str(word) for word in words])
    return stop.value.code


def test_a_family_in_an_existing_geometry_is_one_yaml(mine, capsys):
    assert command("train", mine, *SMALL, "--out", "run", "--device", "cpu") == 0
    assert "hierbench run --family meru --checkpoint run/model.safetensors" in capsys.readouterr().err
    logged = [json.loads(line) for line in Path("run/train.jsonl").read_text().splitlines()]
    for step in logged:
        terms = step["contrastive_loss"] + 0.1 * step["entailment_loss"] + 0.05 * step["closeness_loss"]
        assert step["loss"] == pytest.approx(terms, rel=1e-5)
    recorded = yaml.safe_load(Path("run/config.yaml").read_text())
    assert (recorded["family"], recorded["name"]) == ("mine", "run")
    assert recorded["objective"][2]["term"] == f"{mine.with_name('my_terms.py')}:Closeness"
    measured = command(
        *("run", "--family", "meru", "--checkpoint", "run/model.safetensors", "--out", "measured"),
        *("--task", "zero-shot/miniature-things", "--device", "cpu", "--no-cache"),
    )
    assert measured == 0
    assert "run" in capsys.readouterr().out  # called after its run


def test_the_example_term_is_the_mean_squared_distance(mine):
    config = resolve(mine, SMALL)
    model = build(config)
    images = torch.rand(3, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    _, figures = model.loss(Batch(images, ["a dog", "a cat", "a red car"]))
    with torch.no_grad():
        texts = ["a dog", "a cat", "a red car"]
        space = Lorentz(1.0)
        image = space.lift(model.encoder.image_tangents(images).double())
        text = space.lift(model.encoder.text_tangents(tokenize(texts)).double())
        expected = space.distance(image, text).diagonal().square().mean()
    assert figures["closeness_loss"].item() == pytest.approx(expected.item(), rel=1e-5)


TERM = {
    "label": "'x'",
    "needs_cones": "False",
    "items": "frozenset({'image'})",
    "temperatures": "frozenset()",
    "__call__": "lambda self, batch: (batch.image.sum(), {})",
}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"label": "3"}, "no label"),
        ({"needs_cones": "'no'"}, "no needs_cones"),
        (
            {"items": "frozenset({'picture'})"},
            "no items, a set of some of image, text, part_image, part_text",
        ),
        ({"temperatures": "frozenset({'heat'})"}, "no temperatures"),
        ({"temperatures": "frozenset({'global_logit_scale'})"}, "has no global_logit_scale"),
        ({"__call__": "None"}, "term"),
        ({"__call__": "lambda self, batch: 1 / 0"}, "failed: ZeroDivisionError"),
        ({"__call__": "lambda self, batch: batch.image.sum()"}, "must return (loss, figures)"),
        ({"__call__": "lambda self, batch: (batch.image, {})"}, "a tensor of one number"),
    ],
)
def test_a_class_that_is_no_term(tmp_path, change, told):
    body = "".join(f"    {name} = {value}\n" for name, value in (TERM | change).items())
    (tmp_path / "own.py").write_text(f"class Own:\n{body}")
    config = {"extends": "miniature/meru", "objective": [{"term": f"{tmp_path}/own.py:Own"}]}
    with pytest.raises(UsageError) as caught:
        build(resolve(config, SMALL)).loss(Batch(torch.rand(2, 3, 64, 64), ["a", "b"]))
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "entry", "told"),
    [
        ("import nothing_of_this_name", {}, "does not import: ModuleNotFoundError"),
        ("def Own(:", {}, "does not import: SyntaxError"),
        ("raise SystemExit(3)", {}, "does not import: SystemExit"),
        ("Own = 3", {}, "has no class Own"),
        ("class Own:\n    pass", {"power": 2}, "cannot be made of its options: TypeError"),
        (None, {}, "there is no file"),
    ],
)
def test_a_file_that_holds_no_term(tmp_path, content, entry, told):
    if content is not None:
        (tmp_path / "own.py").write_text(content)
    (tmp_path / "mine.yaml").write_text(
        yaml.safe_dump({"extends": "miniature/meru", "objective": [{"term": "own.py:Own", **entry}]})
    )
    with pytest.raises(UsageError) as caught:
        resolve(tmp_path / "mine.yaml")
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)
