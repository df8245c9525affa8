"""Checkpoint files: every way in, and one clear line for every file that is none."""

import os
import pickle
import random

import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from hierbench.errors import CheckpointError
from hierbench.reference.checkpoint import (
    TOKEN_IDS,
    detect_family,
    dual_encoder_from,
    load_dual_encoder,
    read_state,
    with_token_rows,
)
from hierbench.reference.dual_encoder import DualEncoder
from hierbench.reference.layouts import layout_of
from hierbench.reference.tokenizer import tokenize


@pytest.fixture(scope="module")
def states():
    """Small state dicts in the released layout, by scalar layout."""
    torch.manual_seed(0)
    sizes = {"embed_dim": 64, "depth": 2}
    return {
        layout: DualEncoder.create(
            layout, vision_sizes=sizes, image_size=32, text="L2_W64", vocabulary=100, embed_dim=16
        ).state_dict()
        for layout in ("clip", "hyperbolic", "uncha", "phyclip")
    }


def one_line(info):
    message = str(info.value)
    assert "\n" not in message
    return message


# ------------------------------------------------------------------------------------------------ ways in


def test_nested_bare_and_safetensors_files_hold_the_same(states, tmp_path):
    state = states["hyperbolic"]
    torch.save({"model": state, "iteration": 7, "optimizer": {"lr": 0.1}}, tmp_path / "nested.pth")
    torch.save(state, tmp_path / "bare.pt")
    torch.save({"model": state}, tmp_path / "old.pth", _use_new_zipfile_serialization=False)
    save_file({key: value.clone() for key, value in state.items()}, tmp_path / "model.safetensors")
    for path in tmp_path.iterdir():
        found = read_state(path)
        assert found.keys() == state.keys(), path
        assert all(torch.equal(found[key], state[key]) for key in state), path
        load_dual_encoder(path, "hyperbolic")


def test_half_precision_files_are_loaded_as_float32(states, tmp_path):
    torch.save(
        {key: v.half() if v.is_floating_point() else v for key, v in states["clip"].items()},
        tmp_path / "h.pt",
    )
    model = load_dual_encoder(tmp_path / "h.pt")
    assert {p.dtype for p in model.parameters()} == {torch.float32}


def test_families_are_told_by_entries(states, tmp_path):
    for layout, state in states.items():
        torch.save(state, tmp_path / f"{layout}.pth")
        assert layout_of(state) == layout
    assert detect_family(tmp_path / "clip.pth") == "clip"
    assert detect_family(tmp_path / "uncha.pth") == "uncha"
    assert detect_family(tmp_path / "phyclip.pth") == "phyclip"
    with pytest.raises(
        CheckpointError, match="can be of meru, hycoclip or argent, whose files are alike: name the family"
    ) as info:
        detect_family(tmp_path / "hyperbolic.pth")
    assert "--family" in one_line(info)


def test_what_uncha_does_not_use_may_be_absent(states):
    unused = ("logit_scale", "textual.min_radius_head.0.weight", "textual.min_radius_head.0.bias")
    state = {key: value for key, value in states["uncha"].items() if key not in unused}
    model = dual_encoder_from(state)
    assert model.layout == "uncha"
    assert set(model.state_dict()) == set(states["uncha"])
    del state["local_logit_scale"]
    with pytest.raises(CheckpointError, match="missing: local_logit_scale"):
        dual_encoder_from(state)


def test_what_phyclip_inherits_may_be_absent_but_each_factor_needs_its_scalars(states):
    inherited = ("curv", "visual_alpha", "textual_alpha")
    state = {key: value for key, value in states["phyclip"].items() if key not in inherited}
    model = dual_encoder_from(state)
    assert (model.layout, set(model.state_dict())) == ("phyclip", set(states["phyclip"]))
    assert len(model.geometry().factors) == 2
    for missing in ("curvs.1", "textual_concept_alphas.0"):
        with pytest.raises(CheckpointError, match=f"missing: {missing}"):
            dual_encoder_from({key: value for key, value in state.items() if key != missing})
    with pytest.raises(CheckpointError, match=r"unexpected: curvs\.2"):
        dual_encoder_from(state | {"curvs.2": torch.tensor(0.0)})
    narrow = {key: value[:9] if key.endswith("_proj.weight") else value for key, value in state.items()}
    with pytest.raises(CheckpointError, match="embed_dim=9 is no multiple of the factors' width 8"):
        dual_encoder_from(narrow)


def test_a_file_may_hold_only_the_token_rows_it_uses(tmp_path):
    torch.manual_seed(0)
    sizes = {"embed_dim": 64, "depth": 1}
    model = DualEncoder.create("hyperbolic", vision_sizes=sizes, image_size=32, text="L1_W64", embed_dim=16)
    tokens = tokenize(["a photo of a dog", "a cat"])
    used = {token for row in tokens for token in row}
    save_file(with_token_rows(model.state_dict(), used), tmp_path / "small.safetensors")
    assert read_state(tmp_path / "small.safetensors")[TOKEN_IDS].tolist() == sorted(used)
    again = load_dual_encoder(tmp_path / "small.safetensors", "hyperbolic")
    assert torch.equal(again.encode_text(tokens), model.encode_text(tokens))
    weight = again.textual.token_embed.weight
    assert weight.shape == (49_408, 64)
    assert not weight[[token for token in range(1000) if token not in used]].any()
    bad = with_token_rows(model.state_dict(), used) | {TOKEN_IDS: torch.tensor([1, 2])}
    with pytest.raises(CheckpointError, match="does not fit"):
        dual_encoder_from(bad)


# ----------------------------------------------------------------------------------------------- bad files


def test_no_file_and_a_folder(tmp_path):
    with pytest.raises(CheckpointError, match="no checkpoint file") as info:
        read_state(tmp_path / "absent.pth")
    assert "absent.pth" in one_line(info)
    with pytest.raises(CheckpointError, match="is a folder"):
        read_state(tmp_path)


@pytest.mark.parametrize("name", ["empty.pth", "empty.safetensors"])
def test_an_empty_file(tmp_path, name):
    (tmp_path / name).touch()
    with pytest.raises(CheckpointError, match=r"is empty \(0 bytes\)") as info:
        read_state(tmp_path / name)
    one_line(info)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_without_permission(tmp_path):
    path = tmp_path / "secret.pth"
    torch.save({}, path)
    path.chmod(0)
    with pytest.raises(CheckpointError, match="cannot be read: Permission denied"):
        read_state(path)


@pytest.mark.parametrize("form", ["zip", "old", "safetensors"])
@pytest.mark.parametrize("share", [0.02, 0.5, 0.98])
def test_a_truncated_file(states, tmp_path, form, share):
    path = tmp_path / ("cut.safetensors" if form == "safetensors" else "cut.pth")
    if form == "safetensors":
        save_file({key: value.clone() for key, value in states["clip"].items()}, path)
    else:
        torch.save(states["clip"], path, _use_new_zipfile_serialization=form == "zip")
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(CheckpointError, match="truncated") as info:
        read_state(path)
    one_line(info)


def _text(path):
    path.write_text("this is no checkpoint\n" * 50)


def _jpeg(path):
    Image.new("RGB", (64, 48), "red").save(path, format="JPEG")


def _zip(path):
    import zipfile

    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "hello")


def _noise(path):
    path.write_bytes(bytes(range(256)) * 20)


@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
@pytest.mark.parametrize("write", [_text, _jpeg, _zip, _noise])
def test_a_file_that_is_no_checkpoint(tmp_path, write, suffix):
    path = tmp_path / f"x{suffix}"
    write(path)
    with pytest.raises(CheckpointError, match=r"truncated or no") as info:
        read_state(path)
    one_line(info)


@pytest.mark.parametrize(
    "content",
    [
        [1, 2],
        {},
        {"model": {}},
        {"model": 3},
        {"weights": "none"},
        torch.zeros(3),
        {"model": {"a": [torch.zeros(1)]}},
    ],
)
def test_a_torch_file_without_weights(tmp_path, content):
    torch.save(content, tmp_path / "x.pth")
    with pytest.raises(CheckpointError, match="holds no weights") as info:
        read_state(tmp_path / "x.pth")
    one_line(info)


class _Bomb:
    """Unpickling it makes a file."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return open, (self.path, "w")


@pytest.mark.parametrize("form", ["zip", "old", "pickle 2", "pickle 4"])
def test_a_pickle_that_would_run_code_is_refused_and_does_not(tmp_path, form):
    mark, path = tmp_path / "mark", tmp_path / "bomb.pth"
    content = {"model": {"logit_scale": torch.zeros(())}, "extra": _Bomb(mark)}
    if form.startswith("pickle"):
        path.write_bytes(pickle.dumps({"extra": _Bomb(mark)}, protocol=int(form[-1])))
    else:
        torch.save(content, path, _use_new_zipfile_serialization=form == "zip")
    with pytest.raises(CheckpointError, match="can run code: it was not loaded") as info:
        load_dual_encoder(path)
    one_line(info)
    assert not mark.exists()


def test_a_pickled_module_is_refused(tmp_path):
    torch.save(torch.nn.Linear(2, 2), tmp_path / "module.pth")
    with pytest.raises(CheckpointError, match=r"torch\.nn\.modules\.linear\.Linear"):
        read_state(tmp_path / "module.pth")


# --------------------------------------------------------------------------------------------- wrong entries


def test_another_architecture(tmp_path):
    torch.save(
        {"conv1.weight": torch.zeros(64, 3, 7, 7), "fc.bias": torch.zeros(10)}, tmp_path / "resnet.pth"
    )
    for read in (load_dual_encoder, detect_family):
        with pytest.raises(CheckpointError, match="not of the lineage's layout") as info:
            read(tmp_path / "resnet.pth")
        assert "visual.patch_embed.proj.weight" in one_line(info)


def test_a_layout_of_another_family(states, tmp_path):
    torch.save(states["hyperbolic"], tmp_path / "h.pth")
    torch.save(states["uncha"], tmp_path / "u.pth")
    torch.save(states["clip"], tmp_path / "c.pth")
    cases = [
        ("h", "clip", "meru, hycoclip or argent"),
        ("c", "hyperbolic", "clip"),
        ("u", "hyperbolic", "uncha"),
    ]
    for file, layout, family in [*cases, ("h", "uncha", "meru, hycoclip or argent")]:
        with pytest.raises(CheckpointError, match=f"those of --family {family}") as info:
            load_dual_encoder(tmp_path / f"{file}.pth", layout)
        one_line(info)


def test_missing_unexpected_and_misshapen_entries_are_named(states):
    state = dict(states["hyperbolic"])
    for number in range(2):
        del state[f"textual.resblocks.{number}.mlp.c_fc.weight"], state[f"visual.blocks.{number}.norm1.bias"]
    state["visual.head.weight"] = torch.zeros(3)
    state["textual_proj.weight"] = torch.zeros(16, 63)
    with pytest.raises(CheckpointError) as info:
        dual_encoder_from(state, "x.pth")
    message = one_line(info)
    assert message.startswith("checkpoint x.pth does not fit")
    assert "missing: visual.blocks.0.norm1.bias, visual.blocks.1.norm1.bias, " in message
    assert "and 1 more" in message
    assert "unexpected: visual.head.weight" in message
    assert "of another shape: textual_proj.weight [16, 63] instead of [16, 64]" in message


@pytest.mark.parametrize(
    ("entry", "shape", "reason"),
    [
        ("textual.posit_embed", (77, 224), "cannot be split into 3 heads"),
        ("visual.patch_embed.proj.weight", (66, 3, 16, 16), "is 66 wide, visual.pos_embed 64"),
        ("visual.pos_embed", (1, 6, 64), "of another shape: visual.pos_embed"),
        ("visual.pos_embed", (1, 0, 64), "another architecture"),
        ("visual.patch_embed.proj.weight", (64, 3, 0, 0), "another architecture"),
        ("textual.token_embed.weight", (100, 32), "of another shape: textual.token_embed.weight"),
        ("visual_proj.weight", (64,), "no entry visual_proj.weight of 2 dimensions"),
    ],
)
def test_widths_that_do_not_go_together(states, entry, shape, reason):
    with pytest.raises(CheckpointError, match=reason) as info:
        dual_encoder_from({**states["clip"], entry: torch.zeros(shape)})
    one_line(info)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_weights_that_are_not_finite_are_named(states, value):
    state = {key: entry.clone() for key, entry in states["hyperbolic"].items()}
    state["visual_proj.weight"][3, 5] = value
    state["curv"].fill_(value)
    with pytest.raises(
        CheckpointError, match=r"NaN or infinite weights in curv, visual_proj\.weight"
    ) as info:
        dual_encoder_from(state)
    one_line(info)


# ---------------------------------------------------------------------------------- what is not to be read


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.bool, torch.complex64, torch.float8_e4m3fn])
def test_weights_that_are_not_floating_point_are_refused(states, tmp_path, dtype):
    state = {**states["clip"], "visual_proj.weight": states["clip"]["visual_proj.weight"].to(dtype)}
    torch.save(state, tmp_path / "q.pth")
    kind = str(dtype).removeprefix("torch.")
    with pytest.raises(
        CheckpointError, match=rf"not floating point, in visual_proj\.weight \({kind}\)"
    ) as info:
        load_dual_encoder(tmp_path / "q.pth")
    one_line(info)


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
def test_tensors_that_claim_more_than_they_store_are_refused(states, tmp_path):
    weight = states["clip"]["visual_proj.weight"]
    for odd in (
        weight.to_sparse(),
        torch.quantize_per_tensor(weight, 0.1, 0, torch.qint8),
        torch.zeros(1, 1, 1).expand(1, 10**7, 10**6),
    ):
        torch.save({**states["clip"], "visual.pos_embed": odd}, tmp_path / "odd.pth")
        with pytest.raises(
            CheckpointError, match=r"sparse, quantised or expanded .* visual\.pos_embed"
        ) as info:
            load_dual_encoder(tmp_path / "odd.pth")
        one_line(info)


@pytest.mark.parametrize(
    ("entry", "found"),
    [
        ("visual.blocks.99999999.norm1.weight", "visual.blocks are not numbered 0 to 2 (2, 99999999)"),
        ("textual.resblocks.0007.ln_1.weight", "textual.resblocks are not numbered 0 to 2 (0007, 2)"),
    ],
)
def test_layers_are_numbered_without_gaps(states, entry, found):
    with pytest.raises(CheckpointError) as info:
        dual_encoder_from({**states["clip"], entry: torch.zeros(64)})
    missing, extra = found.split(" (")
    assert missing in one_line(info)
    assert all(number in str(info.value) for number in extra.rstrip(")").split(", "))


def test_sizes_are_no_larger_than_the_files_own_tensors(states):
    """A million patches and a width of a million fit in two small tensors; together they would be a terabyte."""
    state = {**states["clip"], "visual.pos_embed": torch.zeros(1, 10**6, 1)}
    state["visual.patch_embed.proj.weight"] = torch.zeros(10**6, 3, 1, 1)
    with pytest.raises(
        CheckpointError, match=r"visual\.patch_embed is 1000000 wide, visual\.pos_embed 1"
    ) as info:
        dual_encoder_from(state)
    one_line(info)


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "module._orig_mod."])
@pytest.mark.parametrize("wrap", [dict, lambda s: {"state_dict": s}, lambda s: {"state_dict": {"model": s}}])
def test_wrapped_and_prefixed_weights_are_the_same_weights(states, tmp_path, prefix, wrap):
    torch.save(wrap({prefix + key: value for key, value in states["uncha"].items()}), tmp_path / "w.pth")
    assert {key: value.shape for key, value in read_state(tmp_path / "w.pth").items()} == {
        key: value.shape for key, value in states["uncha"].items()
    }
    assert detect_family(tmp_path / "w.pth") == "uncha"


def test_a_tower_compiled_by_itself(states, tmp_path):
    state = {key.replace("visual.", "visual._orig_mod."): value for key, value in states["clip"].items()}
    torch.save(state, tmp_path / "c.pth")
    assert read_state(tmp_path / "c.pth").keys() == states["clip"].keys()
    torch.save({**state, **states["clip"]}, tmp_path / "twice.pth")
    with pytest.raises(CheckpointError, match="twice"):
        read_state(tmp_path / "twice.pth")


@pytest.mark.filterwarnings("ignore:.*torch.jit")
def test_a_torchscript_archive_is_told_and_not_run(tmp_path):
    torch.jit.script(torch.nn.Linear(2, 2)).save(tmp_path / "script.pt")
    with pytest.raises(
        CheckpointError, match="is a TorchScript archive, which holds code: it was not"
    ) as info:
        read_state(tmp_path / "script.pt")
    one_line(info)


def test_a_pipe_is_no_checkpoint(tmp_path):
    os.mkfifo(tmp_path / "pipe.pth")
    with pytest.raises(CheckpointError, match="no regular file"):
        read_state(tmp_path / "pipe.pth")


def _mistakes(state, draw):
    """One malformed file's content, drawn from the kinds of mistakes that files have."""
    key = draw.choice(sorted(state))
    value = state[key]
    other = draw.choice(sorted(state))
    return draw.choice(
        [
            lambda: {**state, key: value.flatten()[: draw.randrange(value.numel() + 1)].clone()},
            lambda: {**state, key: value[None]},
            lambda: {
                **state,
                key: (value.float() * 100).to(draw.choice([torch.int8, torch.int64, torch.complex64])),
            },
            lambda: {**state, key: value.float().to_sparse() if value.ndim else value.float() * float("nan")},
            lambda: {**state, key: value.float() / 0},
            lambda: {name: tensor for name, tensor in state.items() if name != key},
            lambda: {
                **state,
                draw.choice(["", "a\nb", "\x1b[1m", "visual.blocks.7.", "é" * 300, key + ".x"]): value,
            },
            lambda: {**state, draw.choice([3, None, (1, 2)]): value},
            lambda: {**state, key: draw.choice([None, [value], "x", 3, {}, {"a": value}])},
            lambda: draw.choice(
                [[], 3, {"model": {"model": {"model": {"model": state}}}}, {"state_dict": [state]}]
            ),
            lambda: {**state, key: state[other][..., None], other: value[None]},
            lambda: {f"module.{name}" if name == key else name: tensor for name, tensor in state.items()},
            lambda: {**state, TOKEN_IDS: draw.choice([value, torch.zeros(100), torch.arange(100) - 1])},
        ]
    )()


def test_malformed_files_are_one_line_each(states, tmp_path):
    draw = random.Random(7)
    for number in range(60):
        layout = draw.choice(sorted(states))
        content = _mistakes(dict(states[layout]), draw)
        path = tmp_path / "bad.pth"
        torch.save(content, path)
        if number % 5 == 0:
            data = bytearray(path.read_bytes())
            for _ in range(20):
                data[draw.randrange(len(data))] = draw.randrange(256)
            path.write_bytes(data[: draw.randrange(len(data))])
        with pytest.raises(CheckpointError) as info:
            load_dual_encoder(path)
        assert one_line(info).isprintable(), number
        assert len(str(info.value)) < 1200
