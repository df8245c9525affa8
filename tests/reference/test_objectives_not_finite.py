"""A point that is not a number makes the loss and its gradient NaN in every term: no clamp lets a step go by."""

import math
from dataclasses import replace

import pytest
import torch

from hierbench.geometry import Lorentz, Product, Sphere
from hierbench.reference.model import _collapsed
from hierbench.reference.objectives import Embedded, build_terms, total_loss
from hierbench.reference.objectives.compose import TERMS

GEOMETRIES = {
    "lorentz": Lorentz(0.7),
    "sphere": Sphere(),
    "l1": Product((Lorentz(0.7), Lorentz(1.5))),
    "l2": Product((Lorentz(0.7), Lorentz(1.5)), metric="l2"),
}
SIZES = {"image": 3, "text": 3, "part_image": 6, "part_text": 6}
ENTRIES = [{"term": name} for name in TERMS] + [
    {"term": "contrastive", "pairs": [["part_image", "text"], ["part_text", "part_image"]]},
    {"term": "adaptive_entailment", "weighting": "square", "weighted": "any"},
    {"term": "adaptive_entailment", "weighting": "distance"},
    {"term": "piecewise_entailment", "slope": 0, "entropy": "none"},
    {"term": "uncertainty_contrastive", "guided": False},
]


def embedded(geometry):
    draw = torch.Generator().manual_seed(0)
    one = torch.tensor(3.0, dtype=torch.float64)
    scales = ("logit_scale", "global_logit_scale", "local_logit_scale", "global_local_logit_scale")
    return Embedded(
        geometry,
        **{
            item: geometry.lift(torch.randn(count, 4, generator=draw, dtype=torch.float64))
            for item, count in SIZES.items()
        },
        scales=dict.fromkeys(scales, one),
        valid=torch.tensor([True, True, True, False, True, False]),
        owner=torch.arange(3).repeat_interleave(2),
    )


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: "-".join(map(str, entry.values())))
def test_every_term_and_item(entry, geometry):
    terms = build_terms([entry])
    if terms[0].term.needs_cones and not GEOMETRIES[geometry].has_cones:
        return
    batch = embedded(GEOMETRIES[geometry])
    assert total_loss(terms, batch)[0].isfinite()
    for item in terms[0].term.items:
        points = {name: getattr(batch, name).clone() for name in SIZES}
        points[item][2, 1] = math.nan  # a valid one
        points = {name: value.requires_grad_() for name, value in points.items()}
        total, logged = total_loss(terms, replace(batch, **points))
        assert total.isnan(), item
        assert any(value.isnan() for value in logged.values()), item
        gradients = torch.autograd.grad(total, list(points.values()), allow_unused=True)
        assert any(gradient is not None and gradient.isnan().any() for gradient in gradients), item


@pytest.mark.parametrize("geometry", ["lorentz", "l1"])
def test_share_of_collapsed_cones(geometry):
    points = embedded(GEOMETRIES[geometry]).text.clone()
    points[1] = 0
    assert _collapsed(GEOMETRIES[geometry], points) == pytest.approx(1 / 3)
    points[2, 0] = math.nan
    assert _collapsed(GEOMETRIES[geometry], points).isnan()
