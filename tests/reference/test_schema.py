"""Malformed configs: each ends in one line, before anything is built, allocated or written."""

import random

import pytest
import yaml

from hierbench.errors import HierbenchError, UsageError
from hierbench.reference.configuration import packaged, resolve

NUMBERS = [
    *("model.embed_dim", "model.image_size", "model.vision_sizes.embed_dim", "model.vision_sizes.depth"),
    *("model.vision_sizes.patch_size", "model.vision_sizes.mlp_ratio", "model.pixel_mean.0", "model.pixel_std.2"),
    *("data.boxes", "data.crop_scale.0", "data.jitter_probability", "data.flip_probability", "data.workers"),
    *("data.grayscale_probability", "data.caption_levels.1", "data.full_caption_steps", "data.close_ups"),
    *("data.shuffle_buffer", "data.colour_jitter.3", "train.steps", "train.batch_size", "train.micro_batch"),
    *("train.learning_rate", "train.betas.0", "train.weight_decay", "train.warmup_steps", "train.clip_norm"),
    *("train.max_nonfinite_steps", "train.seed", "train.log_every", "train.save_every", "train.keep_states"),
    *("objective.0.weight", "objective.1.across", "objective.1.factor"),
]  # fmt: skip
"""Every number of the schema."""

NOT_NUMBERS = [
    *("-1000", "1e21", ".nan", ".inf", "-.inf", "true", "many", "[1, 2]", "{a: 1}", "2026-01-01", "9" * 5000),
    *("!!timestamp abc", "!!python/object:os.system {}", "!!int x", "*nowhere", "[", '"\\ud800"', "!!binary x"),
]  # fmt: skip
"""What no field of the schema takes for a number: 1e21 and −1000 are beyond every range."""


def refused(config, overrides=()):
    with pytest.raises(HierbenchError) as caught:
        resolve(config, overrides)
    message = str(caught.value)
    assert "\n" not in message
    assert 10 < len(message) < 400
    return message


def test_every_number_has_a_type_and_a_range():
    packaged()  # read once
    draw = random.Random(0)
    start = ["data.colour_jitter=[0, 0, 0, 0]", "train.micro_batch=64", "train.clip_norm=1.0"]
    resolve("miniature/hycoclip", start)
    for key in NUMBERS:
        for value in draw.sample(NOT_NUMBERS, 6):
            refused("miniature/hycoclip", [*start, f"{key}={value}"])


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("train.betas=[1, 1]", "config train.betas.0: Input should be less than 1"),
        ("train.seed=-1", "config train.seed: Input should be greater than or equal to 0"),
        ("train.batch_size=1000000000", "config train.batch_size"),
        ("train.stepz=3", "config train.stepz: unknown key, did you mean steps?"),
        ("data.boxes=100000", "config data.boxes: Input should be less than or equal to 64"),
        ("data.workers=1000000", "config data.workers"),
        ("data.caption_levels=[.nan, 1, 1, 1]", "config data.caption_levels.0"),
        ("data.colour_jitter=[.nan, 0, 0, 0]", "config data.colour_jitter.0"),
        ("data.colour_jitter=[0, 0, 0, 0.6]", "config data.colour_jitter.3"),
        ("model.embed_dim=1e21", "config model.embed_dim"),
        ("model.vision_sizes.depth=0", "config model.vision_sizes.depth"),
        ("model.vision_sizes.depth=1000000", "config model.vision_sizes.depth"),
        ("model.vision_sizes.patch_size=0", "config model.vision_sizes.patch_size"),
        ("model.vision_sizes.patch_size=24", "image_size=64 is no multiple of the patches' 24 pixels"),
        ("model.vision_sizes.embed_dim=130", "embed_dim=130 is no multiple of 4"),
        ("model.vision_sizes.embed_dim=200", "width 200 cannot be split into 3 heads"),
        ("model.vision_sizes.img_size=32", "config model.vision_sizes.img_size: unknown key, known: embed_dim"),
        ("model.vision_sizes.pretrained=1", "config model.vision_sizes.pretrained: unknown key"),
        ("model.image_size=1", "config model.image_size"),
        ("model.text=L3_W90000", "config model: text=L3_W90000"),
        ("model.text=L999_W8", "1 to 128 layers"),
        ("model.text=L128_W8192", "more than 4e+09 weights"),
        ("model.text=twelve", "not of the form L12_W512"),
        ("model.layout=hyperbolic", "family clip has model.layout=clip, not hyperbolic"),
        ("family=../../x", "config family"),
        ("name=../x", "config name"),
        ("objective=[{term: [contrastive]}]", "objective: no term"),
        ("objective=[{term: contrastive, weight: .inf}]", "weight must be a number from 0 to 1,000,000"),
        ("objective=[3]", "config objective.0"),
        ("train=3", "config train"),
        ("train.warmup_steps=1800", "train.warmup_steps=1800 must be below train.steps=1800"),
        ('data.shards="a\\0b"', "config data.shards"),
        ("train.steps=3\ntrain.seed=4", "override"),
        ("extends=miniature/meru", "config extends: unknown key"),
    ],
)  # fmt: skip
def test_what_is_said_of_a_bad_value(override, told):
    assert told in refused("miniature/clip", [override])


def test_a_batch_that_no_memory_holds_is_refused_by_its_product():
    assert "fills more than 64 GiB" in refused("hycoclip/vit-b", ["train.batch_size=100000", "data.boxes=4"])


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"\xff\xfe" + "family: clip".encode("utf-16-le"), "not UTF-8"),
        ("family: caf\xe9".encode("latin-1"), "not UTF-8"),
        (b"family: clip\nfamily: meru\n", "line 2: 'family' stands there twice"),
        (b"extends: mine.yaml\n", "comes back to itself"),
        (b"extends: other.yaml\n", "comes back to itself"),
        (b"extends: [mine.yaml]\n", "one packaged name or .yaml file, got list"),
        (b"extends: 3\n", "got int"),
        (b"extends: nothing.yaml\n", "nothing.yaml cannot be read: No such file"),
        (b"extends: miniature/clip\n3: 4\n", "config"),
        (b"extends: miniature/clip\ntrain: {steps: !!timestamp abc}\n", "cannot be read as timestamp"),
        (b"extends: miniature/clip\ntrain: {steps: " + b"1" * 5000 + b"}\n", "cannot be read as int"),
        (b"- family\n", "fields"),
        (b"", "config family: Field required"),
        (b"\x00\x01", "config"),
    ],
)
def test_files_that_are_no_config(tmp_path, content, told):
    (tmp_path / "mine.yaml").write_bytes(content)
    (tmp_path / "other.yaml").write_text("extends: mine.yaml")
    assert told in refused(tmp_path / "mine.yaml")


def test_a_base_stands_beside_the_file_that_names_it(tmp_path):
    (tmp_path / "base.yaml").write_text("extends: miniature/meru\ntrain: {seed: 5}")
    (tmp_path / "mine.yaml").write_text("extends: base.yaml\nmodel: {embed_dim: 8}")
    config = resolve(tmp_path / "mine.yaml")
    assert (config.family, config.train.seed, config.model.embed_dim) == ("meru", 5, 8)


@pytest.mark.parametrize("name", ["argent/vit-l", "cc3m/uncha/vit-b", "miniature/clip"])
def test_what_a_config_dumps_it_reads_again(name, tmp_path):
    config = resolve(name)
    (tmp_path / "again.yaml").write_text(yaml.safe_dump(yaml.safe_load(config.model_dump_json())))
    assert resolve(tmp_path / "again.yaml") == config


def test_a_mapping_with_keys_that_are_no_text():
    with pytest.raises(UsageError, match="config"):
        resolve({"extends": "miniature/clip", 3: 4})
