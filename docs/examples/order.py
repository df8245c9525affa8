"""Order embeddings, a geometry of one's own, and a small model that lives there: a file to copy and to change.

    hierbench run --adapter docs/examples/order.py --family order --suite miniature

Vendrov, Kiros, Fidler and Urtasun, "Order-Embeddings of Images and Language" (ICLR 2016): points with no negative
coordinate; x is a case of y where x ≥ y in every coordinate; E(x, y) = ‖max(0, y − x)‖² is by how much it is not.
"""

import re
from dataclasses import dataclass
from typing import ClassVar

import torch

from hierbench.contracts import ModelCard
from hierbench.data.images import to_square
from hierbench.errors import GeometryError
from hierbench.miniature.vocabulary import COLOURS

ROWS = 16  # how many points are held against all others at a time: bounds the memory


@dataclass(frozen=True)
class Order:
    """Points with coordinates ≥ 0, ordered coordinate by coordinate; 0 is more general than everything."""

    name: ClassVar[str] = "order"
    has_origin: ClassVar[bool] = True  # lengths from it count
    has_cones: ClassVar[bool] = True  # what a point entails, all that is ≥ it, takes no root to tell
    entailment_definition: ClassVar[str] = "order"  # a column of its own, beside that of hyperbolic cones

    def describe(self):
        return {"name": self.name}

    def lift(self, tangent):
        return tangent.abs()  # as in the paper, §3.2

    def mean(self, tangents):
        return self.lift(tangents).mean(-2)

    def distance(self, a, b, *, paired=False):
        return _each(lambda x, y: torch.linalg.vector_norm(x - y, dim=-1), a, b, paired)

    def similarity(self, a, b, *, paired=False):
        # Not the paper's −E: tasks give the two in either order, and have the same answer both ways.
        return -self.distance(a, b, paired=paired)

    def radius(self, points, *, root=None):
        return torch.linalg.vector_norm(points, dim=-1)

    def entailment(self, general, specific, *, paired=False, root=None):
        # In (0, 1], falling with E. exp(−E) would be 0 for all E above 104, and so tie what is wrong to any extent.
        return 1 / (1 + _each(violation, general, specific, paired))

    def exterior_angle(self, general, specific, *, paired=False, root=None):
        raise GeometryError("order embeddings have no exterior angles")

    def half_aperture(self, points):
        raise GeometryError("what an order embedding entails is an orthant, which has no half-angle")


def violation(general, specific):
    """E, (…, D) and (…, D) -> (…,): 0 where `specific` is a case of `general`."""
    return (general - specific).relu().square().sum(-1)  # clamp(min=0) would lose a NaN on the way back


def _each(formula, a, b, paired):
    """`formula` of (N, D) and (M, D) -> (N, M), or row by row -> (N,)."""
    if a.shape[-1] != b.shape[-1] or (a.shape != b.shape if paired else (a.ndim, b.ndim) != (2, 2)):
        raise GeometryError(f"points of shapes {tuple(a.shape)} and {tuple(b.shape)} make no pairs")
    if paired:
        return formula(a, b)
    return torch.cat([formula(part[:, None], b) for part in a.split(ROWS)])


NEAR = 0.15  # of a colour, in RGB of 0 … 1
SIDE = 64  # pixels
SHOWN = 0.02  # of the pixels have a colour that an image shows
WORDS = 0.02  # what a word adds to a caption's first coordinate


class Colours:
    """A coordinate a colour: 1 where a caption names it, or an image shows it. The first grows with what is said."""

    geometry = Order()

    def __init__(self, name):
        self.card = ModelCard(
            name=name,
            family="order",
            source="docs/examples/order.py",
            embedding_dim=1 + len(COLOURS),
            image_size=SIDE,
            parameters=1,
            preprocessing=f"bicubic {SIDE}",
        )

    def preprocess(self, image, fit):
        return to_square(image, SIDE, fit)

    def encode_images(self, pixels):
        palette = torch.tensor(list(COLOURS.values())) / 255
        off = torch.linalg.vector_norm(pixels[:, None] - palette[:, :, None, None], dim=2)
        share = (off < NEAR).float().mean((2, 3))
        return torch.cat([torch.ones(len(pixels), 1), (share / SHOWN).clamp(max=1)], 1)

    def encode_texts(self, texts):
        words = [re.findall(r"\w+", text.lower()) for text in texts]
        rows = [[min(1, WORDS * len(said)), *(float(colour in said) for colour in COLOURS)] for said in words]
        return torch.tensor(rows).reshape(len(texts), 1 + len(COLOURS))


def load(checkpoint=None, *, name=None, device="cpu", dtype="float32"):
    return Colours(name or "order")
