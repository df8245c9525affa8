"""The dual encoder against the released code's figures, and its state-dict layout."""

import math

import pytest
import torch
from golden_models import MODELS

from hierbench.geometry import Lorentz, Sphere
from hierbench.reference.checkpoint import _dimensions, dual_encoder_from, load_dual_encoder
from hierbench.reference.dual_encoder import DualEncoder
from hierbench.reference.layouts import LAYOUTS, LayoutSpec
from hierbench.reference.packing import pack
from hierbench.reference.tokenizer import tokenize


def small(layout, **options):
    """A model that builds and runs in milliseconds."""
    sizes = {"embed_dim": 64, "depth": 2}
    return DualEncoder.create(
        layout, vision="vit_tiny_patch16_224", vision_sizes=sizes, image_size=32, text="L2_W64",
        vocabulary=49_408, embed_dim=16, **options,
    )  # fmt: skip


@pytest.mark.parametrize("kind", MODELS)
def test_embeddings_are_those_of_the_released_code(kind, golden, recipe, tiny_checkpoint):
    file, name = MODELS[kind]
    figures, arrays = golden(file), golden(file, arrays=True)
    model = load_dual_encoder(tiny_checkpoint(kind))
    pixels, tokens = torch.from_numpy(recipe.images(8, 7)), tokenize(figures["captions"])
    with torch.inference_mode():
        geometry = model.geometry(learned=False)
        found = {
            "image_unprojected": model.encode_image(pixels),
            "text_unprojected": model.encode_text(tokens),
            "image": geometry.lift(model.image_tangents(pixels)),
            "text": geometry.lift(model.text_tangents(tokens)),
        }
    for array, value in found.items():
        expected = torch.from_numpy(arrays[f"{name}.{array}"])
        torch.testing.assert_close(value, expected, rtol=0, atol=1e-5, msg=lambda m, a=array: f"{a}: {m}")
    if "curvature" in figures["models"][name]:
        expected = pytest.approx(figures["models"][name]["curvature"], rel=1e-6)
        assert geometry.describe() == {"name": "lorentz", "curvature": expected}
    if "curvatures" in figures["models"][name]:
        expected = pytest.approx(figures["models"][name]["curvatures"], rel=1e-6)
        assert geometry.describe()["curvature"] == expected


@pytest.mark.parametrize("kind", MODELS)
def test_entries_and_shapes_are_those_of_the_released_files(kind, golden, tiny_state):
    file, name = MODELS[kind]
    expected = golden(file)["models"][name]["state_dict_shapes"]
    state = tiny_state(kind)
    model = dual_encoder_from(state)
    ours = model.state_dict()
    assert {key: list(value.shape) for key, value in ours.items()} == expected
    for key, value in state.items():  # strict in, the same bits out
        if key != "textual.attn_mask":
            assert torch.equal(ours[key], value), key
    assert torch.equal(ours["textual.attn_mask"], state["textual.attn_mask"].bool())


@pytest.mark.parametrize("kind", ["clip", "meru", "uncha", "phyclip"])
def test_a_model_made_from_names_has_the_released_layout(kind, golden):
    file, name = MODELS[kind]
    expected = golden(file)["models"][name]["state_dict_shapes"]
    layout = {"meru": "hyperbolic"}.get(kind, kind)
    with torch.device("meta"):
        model = DualEncoder.create(
            layout, vision="vit_tiny_patch16_224", text="L3_W128", embed_dim=expected["visual_proj.weight"][0]
        )
    assert {key: list(value.shape) for key, value in model.state_dict().items()} == expected


def test_positions_need_not_come_from_a_file(tiny_state):
    """The recipe keeps the buffers that the model makes at construction: ours must be the same ones."""
    state = tiny_state("meru")
    made = DualEncoder.create(
        "hyperbolic", vision="vit_tiny_patch16_224", text="L3_W128", embed_dim=64
    ).state_dict()
    torch.testing.assert_close(made["visual.pos_embed"], state["visual.pos_embed"], rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("size", "width", "heads", "depth"),
    [("small", 384, 12, 12), ("base", 768, 12, 12), ("large", 1024, 16, 24)],
)
def test_released_sizes_are_told_from_shapes(size, width, heads, depth):
    with torch.device("meta"):
        state = DualEncoder.create("hyperbolic", vision=f"vit_{size}_patch16_224").state_dict()
    assert state["visual.cls_token"].shape == (1, 1, width)
    with torch.device("meta"):
        again = DualEncoder.create("hyperbolic", **_dimensions(state, "test"))
    assert {key: value.shape for key, value in again.state_dict().items()} == {
        key: value.shape for key, value in state.items()
    }
    assert {block.attn.num_heads for block in again.visual.blocks} == {heads}
    assert len(again.visual.blocks) == depth
    assert (again.image_size, again.embed_dim, len(again.textual.resblocks)) == (224, 512, 12)
    assert {block.attn.heads for block in again.textual.resblocks} == {8}


def test_unusual_sizes_are_told_from_shapes():
    sizes = {"embed_dim": 64, "depth": 1, "patch_size": 8, "mlp_ratio": 48 / 11}
    model = DualEncoder.create(
        "clip", vision_sizes=sizes, image_size=24, text="L1_W32", vocabulary=50, context=9, embed_dim=12
    )
    again = dual_encoder_from(model.state_dict())
    assert {key: value.shape for key, value in again.state_dict().items()} == {
        key: value.shape for key, value in model.state_dict().items()
    }
    assert again.image_size == 24
    pixels = torch.rand(2, 3, 24, 24)
    assert torch.equal(again.encode_image(pixels), model.encode_image(pixels))


@pytest.mark.parametrize("layout", ["clip", "hyperbolic", "uncha", "phyclip"])
def test_every_used_parameter_gets_a_gradient(layout):
    model = small(layout)
    pixels, tokens = torch.rand(3, 3, 32, 32), tokenize(["a dog", "a dog on a beach", ""])
    loss = model.image_tangents(pixels).square().sum() + model.text_tangents(pack(tokens)).square().sum()
    loss.backward()
    without = {name for name, p in model.named_parameters() if p.requires_grad and p.grad is None}
    scalars = {"logit_scale", "curv", "global_logit_scale", "local_logit_scale", "global_local_logit_scale"}
    scalars |= {name for name, _ in model.named_parameters() if name.startswith("curvs.")}
    assert without <= scalars  # those belong to the objective
    frozen = {name for name, p in model.named_parameters() if not p.requires_grad}
    unused = {
        "uncha": {"logit_scale", "textual.min_radius_head.0.weight", "textual.min_radius_head.0.bias"},
        "phyclip": {"curv", "visual_alpha", "textual_alpha"},
    }
    assert frozen == {"visual.pos_embed"} | unused.get(layout, set())


def test_tangents_are_features_times_the_learned_scale():
    model, pixels, tokens = small("hyperbolic"), torch.rand(2, 3, 32, 32), tokenize(["a dog", "a cat"])
    with torch.no_grad():
        model.visual_alpha.fill_(math.log(3.0))
        model.textual_alpha.fill_(math.log(0.25))
        torch.testing.assert_close(model.image_tangents(pixels), 3 * model.encode_image(pixels))
        torch.testing.assert_close(model.text_tangents(tokens), 0.25 * model.encode_text(tokens))


def test_where_training_starts():
    """MERU §4: curvature 1, tangents of norm near 1, temperature 0.07; UNCHA's three temperatures as released."""
    torch.manual_seed(0)
    model = small("uncha")
    assert model.geometry(learned=False) == Lorentz(1.0)
    assert model.visual_alpha.exp().item() == pytest.approx(16**-0.5)
    temperatures = [model.global_logit_scale, model.local_logit_scale, model.global_local_logit_scale]
    assert [(-t).exp().item() for t in temperatures] == pytest.approx([0.07, 0.05, 0.06])
    assert model.textual.token_embed.weight.std().item() == pytest.approx(0.02, rel=0.01)
    assert model.textual.posit_embed.std().item() == pytest.approx(0.01, rel=0.05)
    assert model.visual_proj.weight.std().item() == pytest.approx(64**-0.5, rel=0.1)
    assert model.textual.resblocks[0].mlp.c_fc.weight.std().item() == pytest.approx(128**-0.5, rel=0.05)


def test_clamping_keeps_the_scalars_in_the_ranges_of_released_training():
    model = small("hyperbolic")
    with torch.no_grad():
        for scalar, value in (
            ("logit_scale", 9.0),
            ("curv", -7.0),
            ("visual_alpha", 0.5),
            ("textual_alpha", -4.0),
        ):
            getattr(model, scalar).fill_(value)
    model.clamp_scalars()
    found = [getattr(model, s).exp().item() for s in ("logit_scale", "curv", "visual_alpha", "textual_alpha")]
    assert found == pytest.approx([100.0, 0.1, 1.0, math.exp(-4)])


def test_the_layout_says_which_space_and_the_file_its_curvature():
    model = small("hyperbolic")
    with torch.no_grad():
        model.curv.fill_(math.log(0.25))
    assert model.geometry(learned=False).curvature == pytest.approx(0.25)
    assert small("clip").geometry() == Sphere()
    model.geometry().curvature.backward()  # d exp(c) / dc = exp(c)
    assert model.curv.grad.item() == pytest.approx(0.25)


def test_a_third_space_is_an_entry_of_the_table(monkeypatch):
    """Two factors: their scalars, their place in the geometry and the way back from a file all follow."""

    class Mixed(Sphere):
        def __init__(self, first, second):
            object.__setattr__(self, "curvatures", (first, second))

    spec = LayoutSpec(
        families=("mixed",),
        temperatures={"logit_scale": 0.07},
        geometry=Mixed,
        curvature="bends",
        alphas=("stretch", "shrink"),
        factor_width=8,
        told_by=frozenset({"bends.0", "bends.1"}),
    )
    monkeypatch.setitem(LAYOUTS, "mixed", spec)
    model = small("mixed")
    with torch.no_grad():
        model.bends[1].fill_(math.log(3.0))
        model.stretch[0].fill_(math.log(0.5))
        model.stretch[1].fill_(math.log(5.0))
    again = dual_encoder_from(model.state_dict())
    assert again.layout == "mixed"
    assert again.geometry(learned=False).curvatures == pytest.approx((1.0, 3.0))
    scaled = again.tangents(torch.ones(1, 16), "image")
    assert scaled.flatten().tolist() == pytest.approx([0.5] * 8 + [5.0] * 8)
    again.clamp_scalars()
    assert again.stretch[1] == 0  # at most 1 in training
