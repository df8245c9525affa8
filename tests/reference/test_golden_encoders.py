"""Embeddings of the recorded models: the towers, tokenizer and checkpoint reader against the released code's figures."""

import pytest
import torch

from hierbench.geometry import Lorentz, Sphere
from hierbench.reference.checkpoint import dual_encoder_from, load_dual_encoder
from hierbench.reference.tokenizer import tokenize

KINDS = {"clip": ("meru_tiny_7", "CLIPBaseline"), "meru": ("meru_tiny_7", "MERU"), "hycoclip": ("hycoclip_tiny_7", "HyCoCLIP"), "uncha": ("uncha_tiny_7", "UNCHA")}


@pytest.mark.parametrize("kind", KINDS)
def test_embeddings_are_those_of_the_released_code(kind, golden, recipe, tiny_checkpoint):
    file, model_name = KINDS[kind]
    figures, arrays = golden(file), golden(file, arrays=True)
    model = load_dual_encoder(tiny_checkpoint(kind))
    pixels = torch.from_numpy(recipe.images(8, 7))
    with torch.inference_mode():
        image = model.encode_image(pixels)
        text = model.encode_text(tokenize(figures["captions"]))
        print((image-torch.from_numpy(arrays[model_name + ".image_unprojected"])).abs().max(), (text-torch.from_numpy(arrays[model_name + ".text_unprojected"])).abs().max())
        geometry = Lorentz(float(model.curvature())) if model.is_hyperbolic else Sphere()
        a=geometry.lift(model.image_tangents(pixels))
        print((a-torch.from_numpy(arrays[model_name + ".image"])).abs().max())
