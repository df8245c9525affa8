"""How far from the root things lie: general captions should be near, specific ones and images far (MERU §5)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hierbench.analysis.groups import Embedded
from hierbench.contracts import Geometry

QUANTILES = (0.05, 0.5, 0.95)


def radii(embedded: Embedded) -> dict[str, np.ndarray]:
    """Group -> (N,) distances from the root, in the geometry's own unit."""
    root = embedded.root_point()
    return {
        name: embedded.geometry.radius(embedded.points(name), root=root).numpy() for name in embedded.groups
    }


def unit_of(geometry: Geometry) -> tuple[str, str]:
    """What a radius is, for an axis, and in which unit: the curvature that a geodesic's length stands against."""
    if not geometry.has_origin:
        return "chord to the empty caption", ""
    curvature = geometry.describe().get("curvature")
    if isinstance(curvature, float):
        return "geodesic distance from the root", f"curvature −{curvature:.2g}"
    if curvature is not None:
        return "distance from the root", f"{len(list(curvature))} factors"
    return "distance from the root", ""


def summary(values: Mapping[str, np.ndarray]) -> list[dict[str, float | str | int]]:
    """One row a group: n, mean, standard deviation and the quantiles p5, p50, p95."""
    rows: list[dict[str, float | str | int]] = []
    for name, found in values.items():
        quantiles = np.quantile(found, QUANTILES)
        named = {f"p{round(100 * q)}": float(v) for q, v in zip(QUANTILES, quantiles, strict=True)}
        rows.append(
            {"group": name, "n": len(found), "mean": float(found.mean()), "std": float(found.std()), **named}
        )
    return rows
