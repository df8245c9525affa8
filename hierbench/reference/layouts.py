"""The layouts of the lineage's files: which learned scalars each has, where they start, what geometry they make.

A layout of another space is an entry here: its geometry, and the entries of a file that hold its curvatures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from hierbench.contracts import Geometry
from hierbench.geometry import Lorentz, Sphere

Layout = Literal["clip", "hyperbolic", "uncha"]

MAX_LOGIT_SCALE = 100.0
CURVATURE_RANGE = (0.1, 10.0)


@dataclass(frozen=True)
class LayoutSpec:
    """One layout. All scalars are kept as logarithms, in 0-dimensional entries of the state dict."""

    families: tuple[str, ...]  # whose files have it
    temperatures: Mapping[
        str, float
    ]  # entries of the logit scales -> the temperature 1 / scale they start at
    geometry: Callable[..., Geometry] = Sphere  # takes the curvatures κ > 0 in the order of their entries
    curvatures: tuple[
        str, ...
    ] = ()  # entries of log κ; they start at 0, and training keeps κ in CURVATURE_RANGE
    alphas: bool = False  # whether features are scaled before the lift, by visual_alpha and textual_alpha
    told_by: frozenset[str] = frozenset()  # entries that no simpler layout has
    unused: tuple[str, ...] = ()  # entries of released files that nothing reads


LAYOUTS: dict[Layout, LayoutSpec] = {
    "clip": LayoutSpec(families=("clip",), temperatures={"logit_scale": 0.07}),
    "hyperbolic": LayoutSpec(
        families=("meru", "hycoclip", "argent"),
        temperatures={"logit_scale": 0.07},
        geometry=Lorentz,
        curvatures=("curv",),
        alphas=True,
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
        curvatures=("curv",),
        alphas=True,
        told_by=frozenset({"curv", "global_logit_scale"}),
        unused=("logit_scale", "textual.min_radius_head.0.weight", "textual.min_radius_head.0.bias"),
    ),
}
"""Temperatures start at CLIP's 0.07; UNCHA's as released."""


def layout_of(entries: Mapping[str, object]) -> Layout:
    """The layout of a state dict: the one that most of its entries tell."""
    fits = (name for name, spec in LAYOUTS.items() if spec.told_by <= entries.keys())
    return max(fits, key=lambda name: len(LAYOUTS[name].told_by))
