"""The conformance check finds each broken promise, in words."""

import re
from dataclasses import dataclass, replace

import pytest
import torch
from torch import nn

from hierbench.contracts import Fit
from hierbench.errors import GeometryError
from hierbench.geometry import Lorentz
from hierbench.models.conformance import TEXTS, check_adapter
from hierbench.models.reference import load_model

GOOD = load_model("random")


@dataclass
class Wrapped:
    """The random adapter with parts replaced."""

    card: object = GOOD.card
    geometry: object = GOOD.geometry
    preprocess: object = GOOD.preprocess
    encode_images: object = GOOD.encode_images
    encode_texts: object = GOOD.encode_texts
    model: object = None


def once_more(features, state=[0.0]):  # noqa: B006 - remembered between calls on purpose
    state[0] += 1
    return features + state[0]


def spoil_image(image, fit):
    image.putpixel((0, 0), (1, 2, 3))
    return GOOD.preprocess(image, fit)


class Layer(nn.Module):
    """Counts its calls in a buffer, as batch norm does when it is left in training mode."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, texts):
        self.calls += 1
        return GOOD.encode_texts(texts)


LAYER = Layer()


def test_the_unspoilt_one_conforms():
    assert check_adapter(Wrapped()) == []


@pytest.mark.parametrize(
    ("parts", "finding"),
    [
        ({"card": replace(GOOD.card, embedding_dim=3)}, r"encode_images gives \(5, 64\) torch.float32, not \(5, 3\)"),
        ({"card": replace(GOOD.card, name="")}, r"card\.name is empty"),
        ({"card": replace(GOOD.card, dtype="int8")}, r"card\.dtype is 'int8'"),
        ({"geometry": object()}, "geometry does not follow"),
        ({"preprocess": lambda image, fit: GOOD.preprocess(image, fit) * 255}, r"leaves \[0, 1\]: 0 to 255"),
        ({"preprocess": lambda image, fit: GOOD.preprocess(image, fit)[:1]}, r"gives \(1, 64, 64\)"),
        ({"preprocess": lambda image, fit: GOOD.preprocess(image, Fit.CROP)}, "no difference between CROP and SQUEEZE"),
        ({"preprocess": spoil_image}, "changes the image that it is given"),
        ({"encode_texts": lambda t: GOOD.encode_texts(t).double()}, "float64"),
        ({"encode_texts": lambda t: GOOD.encode_texts(t) / 0}, "not finite"),
        ({"encode_texts": lambda t: GOOD.encode_texts(sorted(t))}, "other features in reverse order"),
        ({"encode_texts": lambda t: GOOD.encode_texts(t) * len(t)}, "other features one by one"),
        ({"encode_texts": lambda t: once_more(GOOD.encode_texts(t))}, "other features a second time"),
        ({"encode_texts": lambda t: torch.ones(len(t), 64)}, "the same features for everything"),
        ({"encode_texts": lambda t: GOOD.encode_texts(t).requires_grad_()}, "keeps gradients"),
        ({"encode_texts": LAYER, "model": LAYER}, "encoding changed the model"),
        ({"encode_images": lambda p: GOOD.encode_images(p - p.mean(0))}, "encode_images .* one by one"),
    ],
)  # fmt: skip
def test_each_broken_promise_is_found(parts, finding):
    findings = check_adapter(Wrapped(**parts))
    assert any(re.search(finding, found) for found in findings), findings


@dataclass
class Protocol(Wrapped):
    """Answers `under` with what it was given."""

    answers: object = None

    def under(self, protocol):
        return self.answers[protocol]


def test_what_protocols_make_of_an_adapter_is_checked():
    cut = {"encode_texts": lambda texts: GOOD.encode_texts([text[:20] for text in texts])}
    told = {"card": replace(GOOD.card, tokenizing="20 letters")}
    good = Wrapped()
    assert check_adapter(Protocol(answers={"released": Wrapped(**cut, **told), "corrected": good})) == []
    for released, finding in (
        (Wrapped(**cut), "changes features of texts, but neither card.tokenizing nor card.preprocessing"),
        (object(), "under('released') gives object, which is no model adapter"),
        (Wrapped(card=replace(GOOD.card, sha256="0" * 64)), "changes card.sha256"),
    ):
        findings = check_adapter(Protocol(answers={"released": released, "corrected": good}))
        assert any(finding in found for found in findings), findings


def fails(*args, **options):
    raise RuntimeError("no such layer")


class Odd(Lorentz):
    """A geometry with one function replaced."""

    def __init__(self, **parts):
        super().__init__(1.0)
        for name, part in parts.items():
            object.__setattr__(self, name, part)


def one_sided(a, b, *, paired=False):
    b = b.roll(1, -1)
    return (a * b).sum(-1) if paired else a @ b.T


@pytest.mark.parametrize(
    ("parts", "finding"),
    [
        ({"preprocess": fails}, r"preprocess\(crop\) fails: RuntimeError: no such layer"),
        ({"encode_images": fails}, "encode_images fails: RuntimeError: no such layer"),
        ({"encode_texts": lambda t: GOOD.encode_texts(t) if len(t) > 1 else fails()}, "encode_texts one by one fails"),
        ({"encode_texts": lambda t: None}, "encode_texts gives NoneType, not"),
        ({"encode_texts": lambda t: GOOD.encode_texts(t).numpy()}, "encode_texts gives ndarray, not"),
        ({"preprocess": lambda image, fit: image}, r"preprocess\(crop\) gives Image, not \(3, 64, 64\)"),
        ({"card": None}, "card has no name: make it a hierbench"),
        ({"card": replace(GOOD.card, image_size="64")}, r"card\.image_size is of type str, not int"),
        ({"card": replace(GOOD.card, embedding_dim=True)}, r"card\.embedding_dim is of type bool, not int"),
        ({"card": replace(GOOD.card, parameters=0)}, r"card\.parameters is not positive"),
        ({"card": replace(GOOD.card, sha256="abc")}, "card.sha256 is 'abc', not 64 hexadecimal digits"),
        ({"card": replace(GOOD.card, notes={"curvature": torch.ones(1)})}, r"card\.notes cannot be recorded as JSON"),
        ({"card": replace(GOOD.card, notes=None)}, r"card\.notes is of type NoneType, not Mapping"),
        ({"geometry": Odd(lift=fails)}, r"geometry\.lift fails"),
        ({"geometry": Odd(distance=fails)}, r"geometry\.distance fails: RuntimeError"),
        ({"geometry": Odd(distance=lambda a, b, paired=False: -torch.ones(5, 6))}, "distance of pairs is not what"),
        ({"geometry": Odd(similarity=one_sided)}, "similarity depends on which of the two comes first"),
        ({"geometry": Odd(exterior_angle=fails)}, r"geometry\.exterior_angle fails: RuntimeError"),
        ({"geometry": Odd(half_aperture=lambda points: torch.ones(len(points)))}, "a number of a point that holds NaN"),
        ({"geometry": Odd(radius=lambda points, root: points)}, r"geometry\.radius .* not of the shape \(5,\)"),
        ({"geometry": Odd(mean=lambda tangents: tangents)}, r"geometry\.mean .* not of the shape \(1, 64\)"),
        ({"geometry": Odd(describe=lambda: {"name": "else"})}, "is no mapping with the geometry's name"),
    ],
)  # fmt: skip
def test_a_faulty_adapter_is_listed_and_not_raised(parts, finding):
    findings = check_adapter(Wrapped(**parts))
    assert any(re.search(finding, found) for found in findings), findings
    assert all("\n" not in found for found in findings)


def test_everything_wrong_is_listed_at_once():
    findings = check_adapter(
        Wrapped(encode_images=fails, encode_texts=fails, card=replace(GOOD.card, name=3), geometry=object())
    )
    for part in (
        "encode_images fails",
        "encode_texts fails",
        "card.name is of type int",
        "it lacks name, has_cones",
    ):
        assert any(part in found for found in findings), findings


def test_a_geometry_may_refuse_a_question():
    def refuses(*args, **options):
        raise GeometryError("no angles here")

    assert check_adapter(Wrapped(geometry=Odd(exterior_angle=refuses, half_aperture=refuses))) == []
    assert (
        check_adapter(Wrapped(geometry=Odd(distance=refuses)))
        == ["geometry.distance fails: no angles here"] * 3
    )


def test_an_adapter_that_fails_under_a_protocol_is_listed():
    findings = check_adapter(Protocol(answers={"corrected": Wrapped()}))
    assert any("under('released') fails: KeyError" in found for found in findings), findings


def test_something_else_is_no_adapter():
    assert check_adapter(object()) == ["it lacks card, geometry, preprocess, encode_images, encode_texts"]


def test_the_texts_tried_hold_the_hard_cases():
    assert "" in TEXTS
    assert max(len(text.split()) for text in TEXTS) > 77  # longer than CLIP's context
    assert any(not text.isascii() for text in TEXTS)
