"""Lorentz against the arrays recorded from the released models' own functions (float32)."""

import numpy as np
import pytest
import torch

from hierbench.geometry import Lorentz, Sphere

MODELS = [("meru_tiny_7", "MERU"), ("hycoclip_tiny_7", "HyCoCLIP"), ("uncha_tiny_7", "UNCHA")]


@pytest.fixture(params=MODELS, ids=[model for _, model in MODELS])
def recorded(request, golden):
    """(geometry, array by name) of one recorded model."""
    file, model = request.param
    arrays = golden(file, arrays=True)
    geometry = Lorentz(golden(file)["models"][model]["curvature"])
    return geometry, lambda name: torch.from_numpy(arrays[f"{model}.{name}"])


def test_inner_products_and_distances(recorded):
    geometry, array = recorded
    image, text = array("image"), array("text")
    torch.testing.assert_close(geometry.similarity(image, text), array("pairwise_inner"), rtol=1e-5, atol=0)
    torch.testing.assert_close(geometry.distance(image, text), array("pairwise_dist"), rtol=1e-5, atol=0)


def test_angles_and_apertures(recorded):
    geometry, array = recorded
    angle = geometry.exterior_angle(array("text"), array("image"))
    torch.testing.assert_close(angle, array("oxy_angle"), rtol=0, atol=1e-5)
    torch.testing.assert_close(
        geometry.half_aperture(array("text")), array("half_aperture"), rtol=0, atol=1e-6
    )


def test_lifting_from_the_tangent_space(recorded):
    geometry, array = recorded
    torch.testing.assert_close(geometry.lift(array("log_map0")), array("text"), rtol=0, atol=5e-6)


def test_sphere_lifts_as_clip_normalises(golden):
    arrays = golden("meru_tiny_7", arrays=True)
    for tower in ("image", "text"):
        lifted = Sphere().lift(torch.from_numpy(arrays[f"CLIPBaseline.{tower}_unprojected"]))
        np.testing.assert_allclose(lifted, arrays[f"CLIPBaseline.{tower}"], atol=1e-6)
