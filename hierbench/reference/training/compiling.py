"""`train.compile`: which pieces of the towers are compiled, one by one: all layers of a tower share the code."""

from __future__ import annotations

from typing import Any

from hierbench.reference.dual_encoder import DualEncoder

BACKEND = "inductor"
"""What torch compiles with; tests take one that needs no C++ compiler."""


def compile_towers(encoder: DualEncoder) -> None:
    """Compile the layers of the image tower.

    Layer by layer and not whole: the code of one is that of all, so it is made once, and between the layers of a
    model that is cut over processes weights are gathered.
    """
    visual: Any = encoder.visual
    for block in visual.blocks:
        block.compile(backend=BACKEND)
