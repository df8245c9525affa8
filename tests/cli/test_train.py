"""`hierbench train`: what it refuses, and what a run leaves behind."""

import json

import pytest
import small_training
import torch
import yaml

import hierbench as package
from hierbench.reference.configuration import resolve

TINY = [*small_training.TINY, "train.batch_size=4", "train.warmup_steps=1", "train.steps=2"]


def test_the_packaged_configs_are_listed(hierbench):
    done = hierbench("train", "--list")
    assert (done.status, done.err) == (0, "")
    listed = done.out.splitlines()
    assert {"hycoclip/vit-b", "cc3m/argent/vit-s", "miniature/uncha"} <= set(listed)
    for name in listed:
        resolve(name)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], "name a config: `hierbench train --list` prints the packaged ones"),
        (["miniature/argnet"], "no config 'miniature/argnet': did you mean miniature/argent"),
        (["hycoclip/vit_b"], "did you mean hycoclip/vit-b"),
        (["something"], "no config 'something': known: argent/vit-b, "),
        (["mine.yaml"], "config mine.yaml cannot be read: No such file or directory"),
        (["miniature/clip", "train.stepz=3"], "config train.stepz: unknown key, did you mean steps"),
        (["miniature/clip", "trian.steps=3"], "config trian: unknown key, did you mean train?"),
        (["miniature/clip", "model.depth=3"], "config model.depth: unknown key, known: layout, vision, "),
        (["miniature/clip", "train.steps"], "override 'train.steps' is not of the form key=value"),
        (["miniature/clip", "train.steps=many"], "config train.steps: Input should be a valid integer"),
        (["miniature/clip", "family.name=x"], "override 'family.name=x': family is no section of the config"),
        (["miniature/clip", "model.vision=vit_huge"], "no ViT 'vit_huge' in timm"),
        (["miniature/clip", "--resume"], "--resume needs --out DIR, the folder of the run to go on with"),
        (["miniature/clip", "--resume", "--out", "empty"], "nothing to resume in empty"),
        (["hycoclip/vit-s", "data.shards=nowhere"], "no tar shards match nowhere"),
        (["miniature/clip", "train.evaluate={suite: minature, every: 1}"], "did you mean miniature"),
        (["miniature/clip", "--evaluate", "minature"], "did you mean miniature"),
        (["status"], "train status takes the folder of one run: hierbench train status RUN"),
        (["status", "a", "b"], "train status takes the folder of one run"),
        (["status", "nowhere"], "no training run in nowhere: it has no config.yaml"),
        (["miniature/argent", *TINY, "data.boxes=0"], "data.boxes=0, but the objective compares parts"),
    ],
)
def test_what_it_refuses_it_refuses_in_one_line(hierbench, tmp_path, words, line):
    done = hierbench("train", *words, "--device", "cpu")
    assert (done.status, done.out) == (2, "")
    assert not (tmp_path / "runs").exists()
    assert done.err.startswith("hierbench: error: ")
    assert done.err.count("\n") == 1
    assert line in done.err


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has CUDA")
def test_cuda_where_there_is_none(hierbench, tmp_path):
    done = hierbench("train", "miniature/clip", "--device", "cuda", "--out", "run")
    assert (done.status, done.out) == (2, "")
    assert "no CUDA device here" in done.err
    assert not (tmp_path / "run").exists()


def test_a_run_and_its_model(hierbench, tmp_path):
    done = hierbench("train", "miniature/hycoclip", *TINY, "--out", "run", "--device", "cpu")
    assert (done.status, done.out) == (0, "run/model.safetensors\n")
    assert "hierbench run --family hycoclip --checkpoint run/model.safetensors" in done.err
    run = tmp_path / "run"
    recorded = yaml.safe_load((run / "config.yaml").read_text())
    assert (recorded["family"], recorded["train"]["steps"], recorded["model"]["text"]) == (
        "hycoclip",
        2,
        "L1_W16",
    )
    logged = [json.loads(line) for line in (run / "train.jsonl").read_text().splitlines()]
    assert [figures["step"] for figures in logged] == [0, 1]
    assert {"loss", "contrastive_loss", "entailment_loss", "curv", "gradient_norm", "learning_rate"} <= {
        *logged[0]
    }
    adapter = package.load_model("hycoclip", run / "model.safetensors")
    assert adapter.card.image_size == 64
    assert adapter.encode_texts(["a red dog", "a dog"]).shape == (2, 32)

    told = hierbench("train", "status", "run")
    assert (told.status, told.err) == (0, "")
    assert told.out.splitlines()[:2] == ["run: done", "step        2 of 2"]

    again = hierbench("train", "miniature/hycoclip", *TINY, "--out", "run", "--device", "cpu")
    assert (again.status, again.out) == (2, "")
    assert "run holds a run already: add --resume to go on with it, or choose another --out" in again.err
    resumed = hierbench("train", "miniature/hycoclip", *TINY, "--out", "run", "--device", "cpu", "--resume")
    assert (resumed.status, resumed.out) == (0, "run/model.safetensors\n")


def test_the_config_that_a_run_wrote_repeats_and_resumes_it(hierbench, tmp_path):
    first = hierbench("train", "miniature/meru", *TINY, "--out", "one", "--device", "cpu")
    assert first.status == 0
    again = hierbench("train", "one/config.yaml", "--out", "two", "--device", "cpu")
    assert (again.status, again.out) == (0, "two/model.safetensors\n")
    weights = [(tmp_path / run / "model.safetensors").read_bytes() for run in ("one", "two")]
    assert weights[0] == weights[1]
    configs = [yaml.safe_load((tmp_path / run / "config.yaml").read_text()) for run in ("one", "two")]
    assert [config.pop("name") for config in configs] == ["one", "two"]
    assert configs[0] == configs[1]
    resumed = hierbench("train", "one/config.yaml", "--resume", "--device", "cpu")
    assert (resumed.status, resumed.out) == (0, "one/model.safetensors\n")


@pytest.mark.parametrize("out", ["file", "file/x"])
def test_a_place_that_cannot_be_written_is_told_before_anything_is_built(hierbench, tmp_path, out):
    (tmp_path / "file").write_text("")
    done = hierbench("train", "miniature/clip", "-o", out, "--device", "cpu")
    assert done.status == 2
    assert done.err.startswith(f"hierbench: error: cannot write to {out} (")
    assert done.err.endswith("): choose another --out\n")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
