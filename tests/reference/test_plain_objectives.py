"""The dense float32 losses of benchmarks/bench_training.py are ours: or it would compare different work."""

from pathlib import Path

import pytest
import torch
from small_training import tiny

from hierbench.reference.configuration import build

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(("family", "slots"), [("hycoclip", 1), ("hycoclip", 2), ("uncha", 1), ("uncha", 2)])
def test_a_plain_loss_is_the_objectives_own(family, slots, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks.plain_objectives import plain_objective

    torch.manual_seed(0)
    model = build(tiny(family, f"data.boxes={slots}"))
    image, text = torch.randn(2, 5 * (1 + slots), 32).unbind()
    valid = torch.ones(5, slots, dtype=torch.bool)
    valid[1:4:2, 1:] = False  # samples with one part
    kept = valid.T.flatten()
    parts, owner = (features[5:][kept] for features in (image, text)), torch.arange(5).repeat(slots)[kept]
    part_image, part_text = parts
    with torch.no_grad():
        model.encoder.curv.fill_(0.3)
        found = plain_objective(model, family)(image[:5], part_image, text[:5], part_text, owner)
        expected, _ = model.objective(image, text, valid)
    assert found.item() == pytest.approx(expected.item(), rel=1e-5)
