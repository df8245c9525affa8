"""From an image to the root: which captions are met on the way (MERU §5, "image traversals")."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hierbench.contracts import Geometry
from hierbench.errors import GeometryError, UsageError

STEPS = 50


@dataclass(frozen=True)
class Stop:
    """A caption met on the way, `None` = the root itself; `step` of the first time, 0 = at the image."""

    caption: int | None
    step: int


def traverse(
    geometry: Geometry,
    image: Tensor,
    captions: Tensor,
    *,
    root: Tensor | None = None,
    steps: int = STEPS,
    within_cones: bool = True,
) -> list[Stop]:
    """The captions retrieved at `steps` points from an image to the root, each at its first time, in order.

    `image` (D,) and `captions` (M, D) are tangent features. Where the geometry has an origin the way is the
    geodesic to it; otherwise it goes to `root`, (D,) tangent, over the normalised chord. The nearest candidate is
    met, the root being one of them. `within_cones`: where there are cones, only captions whose cone holds the
    point are candidates, as in MERU's released script.
    """
    if geometry.has_origin:
        start, end = image, torch.zeros_like(image)
    else:
        if root is None:
            raise ValueError(f"the geometry {geometry.name} has no origin: give the root's tangent feature")
        start, end = geometry.lift(image), geometry.lift(root)
    weight = torch.linspace(1, 0, steps, dtype=image.dtype)[:, None]
    way = geometry.lift(weight * start + (1 - weight) * end)
    candidates = torch.cat([geometry.lift(captions), geometry.lift(end)[None]])
    nearness = geometry.similarity(way, candidates)
    if geometry.has_cones and within_cones:
        try:
            outside = geometry.exterior_angle(candidates, way) > geometry.half_aperture(candidates)[:, None]
        except GeometryError as error:
            raise UsageError(
                f"the geometry {geometry.name!r} has no angles, by which cones are told: use --all-captions"
            ) from error
        outside[-1] = False  # the root entails everything
        nearness = nearness.masked_fill(outside.T, -torch.inf)
    met: dict[int, int] = {}
    for step, candidate in enumerate(nearness.argmax(1).tolist()):
        met.setdefault(candidate, step)
    return [Stop(None if candidate == len(captions) else candidate, step) for candidate, step in met.items()]
