"""Part slots without a part are not encoded: the step is the one that encodes and masks them."""

import pytest
import torch
from small_training import tiny

from hierbench.reference.packing import pack
from hierbench.reference.tokenizer import tokenize
from hierbench.reference.training.batches import TrainingBatch, places_of, runs
from hierbench.reference.training.trainer import Trainer

FILLED = torch.tensor([[1, 1], [1, 0], [0, 1], [0, 0], [1, 1], [1, 0], [1, 1], [0, 0]], dtype=torch.bool)


def test_where_features_of_empty_slots_come_from():
    assert places_of(torch.tensor([[True, False], [True, True], [False, False]])).tolist() == [
        *(0, 1, 2),
        *(3, 4, 2),
        *(0, 5, 2),
    ]
    assert places_of(torch.ones(3, 2, dtype=torch.bool)) is None
    assert places_of(torch.ones(3, 0, dtype=torch.bool)) is None


def test_runs_are_those_that_torch_cuts():
    for count, pieces in ((19, 3), (24, 3), (5, 5)):
        cut = torch.arange(count).tensor_split(pieces)
        assert [list(range(count))[run] for run in runs(count, pieces)] == [piece.tolist() for piece in cut]


@pytest.mark.parametrize("pieces", [1, 3])
@pytest.mark.parametrize("family", ["hycoclip", "uncha", "argent", "phyclip"])
def test_a_step_is_that_of_masked_slots(family, pieces):
    config = tiny(family, "data.boxes=2", "train.precision=float32", "train.learning_rate=1e-9")
    size = config.model.image_size
    pixels = torch.randint(256, (24, 3, size, size), generator=torch.Generator().manual_seed(0))
    texts = [f"a thing of kind {row % 7}" for row in range(24)]
    full = torch.cat([torch.ones(8, dtype=torch.bool), FILLED.T.flatten()]).nonzero().flatten()
    found = []
    for rows, places in ((torch.arange(24), None), (full, places_of(FILLED))):
        tokens = tokenize([texts[row] for row in rows.tolist()])
        packs = tuple(pack(tokens[run]) for run in runs(len(tokens), pieces))
        trainer = Trainer(config, torch.device("cpu"))
        figures = trainer.step(TrainingBatch(pixels[rows], packs, FILLED, places), 0)
        gradients = {name: p.grad for name, p in trainer.model.named_parameters() if p.grad is not None}
        found.append((figures, gradients))
    (masked, expected), (figures, gradients) = found
    assert figures.keys() == masked.keys()
    for name, value in figures.items():
        assert torch.allclose(value, masked[name], rtol=1e-5, atol=1e-7), name
    assert gradients.keys() == expected.keys()
    whole = torch.stack([gradient.norm() for gradient in expected.values()]).norm()
    for name, gradient in gradients.items():
        assert (gradient - expected[name]).norm() <= 1e-5 * whole, name
