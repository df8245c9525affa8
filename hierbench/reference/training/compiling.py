"""`train.compile`: which pieces of the towers are compiled, one by one: all layers of a tower share the code."""

from __future__ import annotations

from typing import Any

import torch

from hierbench.reference.dual_encoder import DualEncoder

BACKEND = "inductor"
"""What torch compiles with; tests take one that needs no C++ compiler."""

TEXT_PIECES = ("opening", "closing")
"""Of a text layer: all but its attention, which is one fused call a group of texts and is left as it is."""


def compile_towers(encoder: DualEncoder) -> None:
    """Compile the layers of the image tower and the pieces of those of the text tower.

    Layer by layer and not whole: the code of one is that of all, so it is made once, and between the layers of a
    model that is cut over processes weights are gathered. A text layer's pieces are compiled for any number of tokens
    at once (a symbolic size): packs come in another length each step, and in groups of other shapes.
    """
    visual: Any = encoder.visual
    for block in visual.blocks:
        block.compile(backend=BACKEND)
    for layer in encoder.textual.resblocks:
        for name in TEXT_PIECES:
            compiled = torch.compile(getattr(layer, name), backend=BACKEND, dynamic=True)
            vars(layer)[name] = compiled
