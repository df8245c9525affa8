"""From configs to reference models: packaged recipes, overrides, and what is refused."""

import pytest
import torch

from hierbench.errors import HierbenchError, UnknownNameError, UsageError
from hierbench.reference import Batch, build
from hierbench.reference.configuration import packaged, resolve

FAMILIES = ("clip", "meru", "hycoclip", "uncha", "argent", "phyclip")
TINY = {
    "vision": "vit_tiny_patch16_224",
    "vision_sizes": {"embed_dim": 24, "depth": 1, "patch_size": 16},
    "image_size": 32,
    "text": "L1_W64",
    "embed_dim": 8,
}


def tiny(family, **changes):
    return build({"extends": f"{family}/vit-s", "model": TINY, **changes})


def batch(parts=True):
    draw = torch.Generator().manual_seed(0)
    images = torch.rand(3, 3, 32, 32, generator=draw)
    if not parts:
        return Batch(images, ["a dog", "a red car", "a house"])
    boxes = torch.rand(3, 2, 3, 32, 32, generator=draw)
    return Batch(
        images, ["a dog", "a red car", "a house"], boxes, [["a dog", "an ear"], ["a wheel"], ["a door"]]
    )


def test_every_family_comes_in_every_size_and_setting():
    names = set(packaged())
    for family in FAMILIES:
        sizes = {f"{family}/vit-{size}" for size in "sbl"}
        assert {*sizes, *(f"cc3m/{name}" for name in sizes), f"miniature/{family}"} <= names
    for name in names:
        assert resolve(name).family in FAMILIES


@pytest.mark.parametrize("family", FAMILIES)
def test_the_published_recipe(family):
    """The published recipes."""
    config = resolve(f"{family}/vit-b")
    train, data = config.train, config.data
    assert (train.batch_size, train.steps, train.warmup_steps) == (768, 500_000, 4000)
    assert (train.learning_rate, train.betas, train.weight_decay) == (5e-4, (0.9, 0.98), 0.2)
    assert data.crop_scale == ((0.8, 1.0) if family == "uncha" else (0.5, 1.0))
    assert (data.colour_jitter is not None) == (family == "uncha")
    assert min(data.boxes, 2) == {"hycoclip": 1, "argent": 1, "phyclip": 1, "uncha": 2}.get(family, 0)
    assert config.model.pixel_mean == (
        (0.485, 0.456, 0.406) if family in ("clip", "meru", "phyclip") else (0.229, 0.224, 0.225)
    )
    assert (config.model.text, config.model.embed_dim) == ("L12_W512", 512)
    weights = {term["term"]: term.get("weight", 1) for term in config.objective}
    expected = {
        "clip": {"contrastive": 1},
        "meru": {"contrastive": 1, "cone_entailment": 0.2},
        "hycoclip": {"contrastive": 1, "cone_entailment": 0.2},
        "phyclip": {"contrastive": 1, "cone_entailment": 0.2},
        "uncha": {"uncertainty_contrastive": 1, "piecewise_entailment": 0.2},
        "argent": {"contrastive": 1, "adaptive_entailment": 0.1, "norm_regulariser": 0.1},
    }
    assert weights == expected[family]
    assert resolve(f"cc3m/{family}/vit-b").train.steps == 40_000


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_trains_a_step(family):
    model = tiny(family)
    total, terms = model.loss(batch(parts=model.needs_parts))
    total.backward()
    assert total.isfinite()
    assert all(value.isfinite() for value in terms.values())
    without = [
        name
        for name, weight in model.encoder.named_parameters()
        if weight.requires_grad and (weight.grad is None or not weight.grad.isfinite().all())
    ]
    assert [
        name for name in without if "min_radius_head" not in name
    ] == []  # UNCHA's file has it, nothing reads it


def test_argent_on_merus_backbone():
    """One relation, no h, the regulariser over images and captions: no parts needed (ARGENT, ablation)."""
    objective = [
        {"term": "contrastive"},
        {"term": "adaptive_entailment", "weight": 0.1, "relations": ["text_image"], "factor": 1.0},
        {"term": "norm_regulariser", "weight": 0.1, "members": ["image", "text"]},
    ]
    model = tiny("meru", objective=objective)
    total, terms = model.loss(batch(parts=False))
    figures = {name: terms[f"{name}_loss"].item() for name in ("contrastive", "entailment", "norm")}
    assert total.item() == pytest.approx(
        figures["contrastive"] + 0.1 * figures["entailment"] + 0.1 * figures["norm"], rel=1e-6
    )


def test_weights_follow_from_the_seed_and_have_the_released_layout():
    first, again, other = tiny("meru"), tiny("meru"), build({"extends": "meru/vit-s", "model": TINY}, seed=1)
    state = first.state_dict()
    assert {"curv", "logit_scale", "visual_proj.weight", "textual.token_embed.weight"} <= state.keys()
    assert all(torch.equal(value, again.state_dict()[key]) for key, value in state.items())
    assert not torch.equal(state["visual_proj.weight"], other.state_dict()["visual_proj.weight"])
    other.load_state_dict(state)
    assert torch.equal(other.encoder.visual_proj.weight, state["visual_proj.weight"])


def test_the_learned_scalars_are_clamped_before_a_loss():
    model = tiny("meru")
    with torch.no_grad():
        model.encoder.logit_scale.fill_(9.0)
        model.encoder.curv.fill_(-7.0)
        model.encoder.visual_alpha.fill_(2.0)
    _, terms = model.loss(batch(parts=False))
    assert terms["logit_scale"].item() == pytest.approx(100)
    assert terms["curv"].item() == pytest.approx(0.1)
    assert model.encoder.visual_alpha == 0


def test_a_family_without_parts_leaves_them_unread():
    model = tiny("meru")
    with torch.no_grad():
        torch.testing.assert_close(model.loss(batch(parts=True))[0], model.loss(batch(parts=False))[0])


def test_overrides_reach_every_section():
    config = resolve(
        "uncha/vit-s",
        ["train.steps=10000", "model.embed_dim=64", "objective.1.entropy=process", "data.boxes=4"],
    )
    assert (config.train.steps, config.model.embed_dim, config.data.boxes) == (10_000, 64, 4)
    assert config.objective[1]["entropy"] == "process"
    assert config.objective[0] == {"term": "uncertainty_contrastive"}


@pytest.mark.parametrize(
    ("config", "what"),
    [
        ("hycoclip/vit-x", "no config 'hycoclip/vit-x'"),
        ({"extends": "clip/vit-s", "modle": {}}, "modle: unknown key"),
        ({"extends": "clip/vit-s", "model": {"width": 3}}, "model.width: unknown key"),
        ({"extends": "clip/vit-s", "train": {"steps": 0}}, "train.steps"),
        ({"extends": "clip/vit-s", "objective": []}, "objective"),
        ({"family": "clip"}, "model"),
        ({"extends": "clip/vit-s", "objective": [{"term": "triplet"}]}, "no term 'triplet'"),
        (
            {"extends": "clip/vit-s", "model": TINY, "objective": [{"term": "cone_entailment"}]},
            "hyperbolic space",
        ),
        (
            {"extends": "meru/vit-s", "model": TINY, "objective": [{"term": "uncertainty_contrastive"}]},
            "logit_scale",
        ),
    ],
)
def test_wrong_configs_are_refused(config, what):
    with pytest.raises((UsageError, UnknownNameError)) as raised:
        build(config)
    assert what in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "override", ["steps", "train.stepz=3", "train.steps.more=3", "=3", "objective.9.weight=1"]
)
def test_wrong_overrides_are_refused(override):
    with pytest.raises(UsageError) as raised:
        resolve("clip/vit-s", [override])
    assert "\n" not in str(raised.value)


def test_batches_that_do_not_fit_are_refused():
    model, whole = tiny("hycoclip"), batch()
    for wrong, what in (
        (Batch(whole.images, whole.captions), "give part_images"),
        (Batch(whole.images, whole.captions[:2]), "one caption per image"),
        (Batch(whole.images, whole.captions, whole.part_images), "part_captions"),
        (Batch(whole.images, whole.captions, whole.part_images[:, 0], whole.part_captions), "part_images"),
        (Batch(whole.images, whole.captions, whole.part_images[:, :1], whole.part_captions), "longer than 1"),
        (
            Batch(
                whole.images, whole.captions, whole.part_images, whole.part_captions, torch.ones(3, 2).bool()
            ),
            "has no caption",
        ),
    ):
        with pytest.raises(HierbenchError, match=what):
            model.loss(wrong)
