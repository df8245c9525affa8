"""A training step never makes the host wait for the device: it reads no value, and copies from pinned memory alone.

The steps run on torch's `meta` device, whose tensors have no values: whatever would look at one raises, and the code is
that of a GPU, as only the CPU is told apart. `benchmarks/gpu_check.py` asks a GPU itself.
"""

import pytest
import torch
from small_training import batch_of, tiny
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from hierbench.geometry import Lorentz
from hierbench.reference.encoders import pack_step
from hierbench.reference.training.trainer import Trainer

META = torch.device("meta")
FAMILIES = ("clip", "meru", "hycoclip", "uncha", "argent", "phyclip")
CHANGES = {
    "plain": [],
    "average and clipping": ["train.ema=0.9", "train.clip_norm=1"],
    "pieces": ["train.micro_batch=3"],
    "tiles and recomputation": ["train.loss_tile_mib=1", "train.checkpoint_activations=true"],
}


class Watched(TorchDispatchMode):
    """Which operations copied from the host, and which read a value or had a result whose size depends on one."""

    READING = {  # noqa: RUF012
        "_local_scalar_dense", "nonzero", "is_nonzero", "equal", "item", "masked_select", "unique_dim", "_unique2",
        "allclose",
    }  # fmt: skip

    def __init__(self):
        super().__init__()
        self.copied, self.waited, self.read = [], [], []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name, kwargs = function.overloadpacket.__name__, kwargs or {}
        if name in self.READING:
            self.read.append(name)
        if name == "index" and any(i is not None and i.dtype == torch.bool for i in args[1]):
            self.read.append("index by a mask")
        if name in ("_to_copy", "copy_"):
            source = args[0] if name == "_to_copy" else args[1]
            if source.device.type == "cpu":
                place = kwargs.get("non_blocking", len(args) > 2 and args[2])
                (self.copied if place else self.waited).append(tuple(source.shape))
        return function(*args, **kwargs)


def step(config):
    """One step on `meta`, watched, and the batch of it."""
    trainer, batch = Trainer(config, META), batch_of(config)
    assert Trainer(config, torch.device("cpu")).optimiser.defaults[
        "fused"
    ]  # looks at no value; meta has none such
    trainer.optimiser.step = lambda: None
    with Watched() as watched:
        trainer.step(batch, 0)
    return watched, batch


@pytest.mark.parametrize("family", FAMILIES)
def test_a_step_reads_no_value_and_waits_for_no_copy(family):
    watched, batch = step(tiny(family))
    assert watched.read == []
    assert watched.waited == []
    assert watched.copied  # or it has watched nothing
    assert sorted(watched.copied) == sorted(tuple(tensor.shape) for tensor in tensors_of(batch))


@pytest.mark.parametrize("change", [name for name in CHANGES if name != "plain"])
def test_nor_with_what_a_run_may_ask_for(change):
    watched, _ = step(tiny("hycoclip", *CHANGES[change]))
    assert (watched.read, watched.waited) == ([], [])


def test_the_watch_sees_what_waits():
    points = torch.randn(3, 2, dtype=torch.float64)
    with Watched() as watched:
        assert points[0, 0].item() < 9
        points[points[:, 0] > 0]
        points.to(META)
        points.to(META, non_blocking=True)
        Lorentz(1.0).distance(points, points)
    assert watched.read == ["_local_scalar_dense", "index by a mask", "nonzero"]
    assert (watched.waited, watched.copied) == ([(3, 2)], [(3, 2)])
    with pytest.raises((RuntimeError, NotImplementedError)):
        torch.ones((), device=META).item()


def tensors_of(batch):
    """All tensors of a batch that a device gets."""
    packs = [tensor for pack in batch.texts for tensor in (pack, *pack.groups)]
    found = [value for record in packs for value in vars(record).values() if isinstance(value, Tensor)]
    return [batch.pixels, *found, *(one for one in (batch.part_valid, batch.places) if one is not None)]


def test_a_pinned_batch_is_pinned_whole(monkeypatch):
    pinned = []

    def pin(tensor):
        pinned.append(tensor.data_ptr())
        return tensor

    monkeypatch.setattr(Tensor, "pin_memory", pin)
    batch = batch_of(tiny("uncha", "train.micro_batch=3"))
    again = batch.pin_memory()
    assert sorted(pinned) == sorted(tensor.data_ptr() for tensor in tensors_of(batch))
    assert again.texts[0].longest == batch.texts[0].longest


def test_texts_for_a_gpu_come_in_few_groups():
    few, many = (batch_of(tiny("hycoclip"), pack_step=pad).texts[0] for pad in (pack_step(META), 1))
    assert len(few.groups) < len(many.groups)
    assert {group.length % 8 for group in few.groups} == {0}
    assert few.longest == many.longest
