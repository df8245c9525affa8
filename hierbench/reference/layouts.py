"""The layouts of the lineage's files: which learned scalars each has, where they start, what geometry they make.

A layout of another space is an entry here: its geometry, and the entries of a file that hold its curvatures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from hierbench.contracts import Geometry
from hierbench.errors import UsageError
from hierbench.geometry import Lorentz, Product, Sphere

Layout = Literal["clip", "hyperbolic", "uncha", "phyclip"]

MAX_LOGIT_SCALE = 100.0
CURVATURE_RANGE = (0.1, 10.0)


@dataclass(frozen=True)
class LayoutSpec:
    """One layout. All scalars are kept as logarithms, in 0-dimensional entries of the state dict."""

    families: tuple[str, ...]  # whose files have it
    temperatures: Mapping[
        str, float
    ]  # entries of the logit scales -> the temperature 1 / scale they start at
    geometry: Callable[..., Geometry] = Sphere  # takes the curvatures κ > 0, one of each factor in order
    curvature: str | None = None  # entry of log κ; it starts at 0, and training keeps κ in CURVATURE_RANGE
    # entries of the log scales of image and text features before the lift: alphas, at most 1 in training
    alphas: tuple[str, str] | None = None
    # how many components make a factor of a product; each factor then has a curvature and alphas of its own, in
    # entries numbered curvature.0, …
    factor_width: int | None = None
    told_by: frozenset[str] = frozenset()  # entries that no simpler layout has
    unused: tuple[str, ...] = ()  # entries of released files that nothing reads

    def factors(self, embed_dim: int) -> int | None:
        """How many factors features of this width have; None where the space is no product. Raises UsageError."""
        if self.factor_width is None:
            return None
        count, rest = divmod(embed_dim, self.factor_width)
        if rest or not count:
            raise UsageError(
                f"embed_dim={embed_dim} is no multiple of the factors' width {self.factor_width}"
            )
        return count


LAYOUTS: dict[Layout, LayoutSpec] = {
    "clip": LayoutSpec(families=("clip",), temperatures={"logit_scale": 0.07}),
    "hyperbolic": LayoutSpec(
        families=("meru", "hycoclip", "argent"),
        temperatures={"logit_scale": 0.07},
        geometry=Lorentz,
        curvature="curv",
        alphas=("visual_alpha", "textual_alpha"),
        told_by=frozenset({"curv"}),
    ),
    "uncha": LayoutSpec(
        families=("uncha",),
        temperatures={
            "global_logit_scale": 0.07,
            "local_logit_scale": 0.05,
            "global_local_logit_scale": 0.06,
        },
        geometry=Lorentz,
        curvature="curv",
        alphas=("visual_alpha", "textual_alpha"),
        told_by=frozenset({"curv", "global_logit_scale"}),
        unused=("logit_scale", "textual.min_radius_head.0.weight", "textual.min_radius_head.0.bias"),
    ),
    "phyclip": LayoutSpec(
        families=("phyclip",),
        temperatures={"logit_scale": 0.07},
        geometry=lambda *curvatures: Product(tuple(map(Lorentz, curvatures))),
        curvature="curvs",
        alphas=("visual_concept_alphas", "textual_concept_alphas"),
        factor_width=8,
        told_by=frozenset({"curvs.0", "visual_concept_alphas.0"}),
        unused=("curv", "visual_alpha", "textual_alpha"),
    ),
}
"""Temperatures start at CLIP's 0.07; UNCHA's as released."""


def layout_of(entries: Mapping[str, object]) -> Layout:
    """The layout of a state dict: the one that most of its entries tell."""
    fits = (name for name, spec in LAYOUTS.items() if spec.told_by <= entries.keys())
    return max(fits, key=lambda name: len(LAYOUTS[name].told_by))
