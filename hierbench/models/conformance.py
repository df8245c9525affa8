"""Does an adapter keep its promises? A check for whoever writes one; ours run it in the tests.

from hierbench import check_adapter
assert check_adapter(load("weights.pth")) == []
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from PIL import Image
from torch import Tensor, nn

from hierbench.contracts import Fit, Geometry, ModelAdapter, ModelCard, ProtocolAware
from hierbench.data.manifests import PROTOCOLS
from hierbench.errors import GeometryError, explained

TEXTS = (
    "",
    "dog",
    "a photo of a dog.",
    "A Photo of a Dog.",
    "ein Hund läuft über die Straße — 犬",
    "a large orange fish above a small purple airplane at night",
    "very " * 200 + "long",
)
TOLERANCE = 1e-4
"""Of features, relative to the longest: what batching may change."""

PARTS = ("card", "geometry", "preprocess", "encode_images", "encode_texts")
GEOMETRY_PARTS = (
    "name", "has_cones", "describe", "lift", "mean", "similarity", "distance", "radius", "exterior_angle",
    "half_aperture", "entailment", "entailment_definition",
)  # fmt: skip
MAY_REFUSE = ("radius", "exterior_angle", "half_aperture", "entailment")
"""Questions that a geometry may have no answer to: it raises GeometryError, and tasks that ask do not apply."""

CARD_TYPES: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("name", "family", "source", "preprocessing", "tokenizing", "dtype"), (str,)),
    **dict.fromkeys(("embedding_dim", "image_size", "parameters"), (int,)),
    **dict.fromkeys(("sha256", "licence", "paper"), (str, type(None))),
    "notes": (Mapping,),
}


def check_adapter(adapter: object) -> list[str]:
    """What is wrong with an adapter, in words; an empty list = it conforms. Never raises for what an adapter does.

    Encodes a few drawn images and strings: shapes and types, finite values, the order and independence of the
    rows, the same features twice, preprocessing into [0, 1], a geometry that can lift and compare them, and
    that encoding leaves the model as it was.
    """
    found: list[str] = []
    with _probing(found, "reading its parts"):
        if missing := [part for part in PARTS if not hasattr(adapter, part)]:
            return [f"it lacks {', '.join(missing)}"]
    if found or not isinstance(adapter, ModelAdapter):
        return found or ["it does not follow hierbench.contracts.ModelAdapter"]
    before = _state(adapter)
    sizes_known = _check_card(adapter.card, found)
    geometry_known = _check_geometry_parts(adapter.geometry, found)
    if sizes_known:
        pixels = _check_preprocessing(adapter, found)
        images = None
        if pixels is not None:
            images = _check_encoder("encode_images", adapter.encode_images, pixels, adapter.card, found)
        texts = _check_encoder("encode_texts", adapter.encode_texts, list(TEXTS), adapter.card, found)
        if images is not None and texts is not None and geometry_known:
            _check_geometry(adapter.geometry, images, texts, found)
        _check_protocols(adapter, found)
    if not _equal_states(before, _state(adapter)):
        found.append("encoding changed the model's weights, buffers or training mode")
    return found


@contextmanager
def _probing(found: list[str], what: str) -> Iterator[None]:
    """An exception of the adapter's becomes a finding, and the probes after it go on."""
    try:
        yield
    except Exception as error:
        found.append(f"{what} fails: {explained(error)}")


def drawn_images() -> list[Image.Image]:
    """Five RGB images of several shapes: gradients and a checkerboard, no two alike."""
    images = []
    for number, (width, height) in enumerate([(64, 64), (90, 40), (40, 90), (300, 200), (17, 13)]):
        y, x = torch.meshgrid(torch.linspace(0, 1, height), torch.linspace(0, 1, width), indexing="ij")
        board = ((x * (number + 2)).floor() + (y * 3).floor()) % 2
        rgb = torch.stack([x, y * (number + 1) / 5, board], -1)
        images.append(Image.fromarray((rgb * 255).to(torch.uint8).numpy()))
    return images


def _check_card(card: Any, found: list[str]) -> bool:
    """Whether the card's numbers are such that the rest can be probed."""
    wrong = []
    value: Any
    for name, kinds in CARD_TYPES.items():
        value = getattr(card, name, ...)
        if value is ...:
            wrong.append(f"card has no {name}: make it a hierbench.contracts.ModelCard")
        elif not isinstance(value, kinds) or isinstance(value, bool):
            expected = " or ".join(kind.__name__ for kind in kinds)
            wrong.append(f"card.{name} is of type {type(value).__name__}, not {expected}")
        elif isinstance(value, int) and value < 1:
            wrong.append(f"card.{name} is not positive")
        elif name in ("name", "family", "source", "preprocessing") and not value:
            wrong.append(f"card.{name} is empty")
    found += wrong
    sizes_known = not any(size in line for line in wrong for size in ("embedding_dim", "image_size", "dtype"))
    if sizes_known and card.dtype not in ("float32", "bfloat16", "float16"):
        found.append(f"card.dtype is {card.dtype!r}")
    sha256 = getattr(card, "sha256", None)
    if isinstance(sha256, str) and not re.fullmatch(r"[0-9a-f]{64}", sha256):
        found.append(f"card.sha256 is {sha256[:80]!r}, not 64 hexadecimal digits")
    _check_recordable("card.notes", getattr(card, "notes", None), found)
    return sizes_known


def _check_recordable(what: str, value: Any, found: list[str]) -> None:
    try:
        json.dumps(dict(value) if isinstance(value, Mapping) else value, allow_nan=False)
    except (TypeError, ValueError) as error:
        found.append(f"{what} cannot be recorded as JSON: {explained(error)}")


def _check_preprocessing(adapter: ModelAdapter, found: list[str]) -> Tensor | None:
    """The drawn images as CROP makes them, (5, 3, side, side), where all came out well enough to go on."""
    side = adapter.card.image_size
    squares: dict[Fit, list[Tensor]] = {fit: [] for fit in Fit}
    images = drawn_images()
    for fit in Fit:
        for image in images:
            bytes_before, pixels, count = image.tobytes(), None, len(found)
            with _probing(found, f"preprocess({fit})"):
                pixels = adapter.preprocess(image, fit)
            if len(found) > count:
                break  # the same for the other images, most likely
            if image.tobytes() != bytes_before:
                found.append(f"preprocess({fit}) changes the image that it is given")
            if (
                not isinstance(pixels, Tensor)
                or tuple(pixels.shape) != (3, side, side)
                or pixels.dtype != torch.float32
            ):
                found.append(f"preprocess({fit}) gives {_kind(pixels)}, not (3, {side}, {side}) float32")
                break
            low, high = float(pixels.min()), float(pixels.max())
            if not 0 <= low <= high <= 1:
                found.append(f"preprocess({fit}) leaves [0, 1]: {low:.3g} to {high:.3g}")
            squares[fit].append(pixels)
    if any(len(made) < len(images) for made in squares.values()):
        return torch.stack(squares[Fit.CROP]) if len(squares[Fit.CROP]) == len(images) else None
    if torch.equal(squares[Fit.CROP][1], squares[Fit.SQUEEZE][1]):
        found.append("preprocess makes no difference between CROP and SQUEEZE")
    return torch.stack(squares[Fit.CROP])


def _kind(value: Any) -> str:
    return f"{tuple(value.shape)} {value.dtype}" if isinstance(value, Tensor) else type(value).__name__


def _check_encoder(
    name: str, encode: Callable[..., Tensor], items: Any, card: ModelCard, found: list[str]
) -> Tensor | None:
    """(len(items), D) features on the CPU, where they came out well enough to go on."""
    raw, count = None, len(found)
    with _probing(found, name):
        raw = encode(items)
    if len(found) > count:
        return None
    shape = (len(items), card.embedding_dim)
    if not isinstance(raw, Tensor) or tuple(raw.shape) != shape or raw.dtype != torch.float32:
        found.append(f"{name} gives {_kind(raw)}, not {shape} torch.float32")
        return None
    features = raw.detach().cpu().clone()
    if not bool(torch.isfinite(features).all()):
        found.append(f"{name} gives values that are not finite")
        return None
    scale = float(features.norm(dim=1).max())
    if raw.requires_grad:
        found.append(f"{name} keeps gradients")
    if bool((features == features[0]).all()):
        found.append(f"{name} gives the same features for everything")
    # Arithmetic in half precision depends on the batch's shape; float32 must not, beyond rounding.
    tolerance = TOLERANCE * scale if card.dtype.startswith("float32") else 0.05 * scale
    backwards = items.flip(0) if isinstance(items, Tensor) else items[::-1]
    again: dict[str, Callable[[], Tensor]] = {
        "a second time": lambda: encode(items),
        "in reverse order": lambda: encode(backwards).flip(0),
        "one by one": lambda: torch.cat([encode(items[row : row + 1]) for row in range(len(items))]),
    }
    for what, repeat in again.items():
        with _probing(found, f"{name} {what}"):
            other = repeat().detach().cpu()
            if other.shape != features.shape or not float((other - features).abs().max()) <= tolerance:
                found.append(f"{name} gives other features {what}")
    return features


def _check_geometry_parts(geometry: Any, found: list[str]) -> bool:
    """Whether it has what `hierbench.contracts.Geometry` asks for."""
    with _probing(found, "reading the geometry's parts"):
        if missing := [part for part in GEOMETRY_PARTS if not hasattr(geometry, part)]:
            found.append(
                f"geometry does not follow hierbench.contracts.Geometry: it lacks {', '.join(missing)}"
            )
            return False
        if not isinstance(geometry.name, str) or not geometry.name:
            found.append("geometry.name is no text")
        if not isinstance(geometry.has_cones, bool):
            found.append("geometry.has_cones is neither True nor False")
        if not isinstance(geometry.entailment_definition, str) or not geometry.entailment_definition:
            found.append("geometry.entailment_definition is no text: name what `entailment` computes")
        with _probing(found, "geometry.describe"):
            told = geometry.describe()
            if not isinstance(told, Mapping) or told.get("name") != geometry.name:
                found.append("geometry.describe() is no mapping with the geometry's name")
            _check_recordable("geometry.describe()", told, found)
        return True
    return False


def _check_geometry(geometry: Geometry, images: Tensor, texts: Tensor, found: list[str]) -> None:
    """Shapes, finite values, pairs as the matrix has them, and what every distance keeps, on these features."""
    lifted = None
    with _probing(found, "geometry.lift"):
        lifted = geometry.lift(images), geometry.lift(texts[1:]), geometry.lift(texts[0])
        if any(a.shape != b.shape for a, b in zip(lifted, (images, texts[1:], texts[0]), strict=True)):
            found.append("geometry.lift changes shapes")
            lifted = None
    if lifted is None:
        return
    points, others, root = lifted
    count, shape = min(len(points), len(others)), (len(points), len(others))
    for name in ("similarity", "distance", "exterior_angle", "entailment"):
        more = {"root": root} if name in MAY_REFUSE else {}
        with _answering(found, name):
            function = getattr(geometry, name)
            matrix = function(points, others, **more)
            if tuple(matrix.shape) != shape or not bool(torch.isfinite(matrix).all()):
                found.append(f"geometry.{name} of its features is not a finite (N, M) matrix")
                continue
            pairs = function(points[:count], others[:count], paired=True, **more)
            if tuple(pairs.shape) != (count,) or not torch.allclose(
                pairs, matrix.diagonal()[:count], rtol=1e-3, atol=1e-4
            ):
                found.append(f"geometry.{name} of pairs is not what its matrix has on the diagonal")
    with _answering(found, "similarity"):
        one, other = geometry.similarity(points, others), geometry.similarity(others, points).T
        if one.shape == other.shape and not torch.allclose(one, other, rtol=1e-3, atol=1e-4):
            found.append(
                "geometry.similarity depends on which of the two comes first: tasks give them in either order"
            )
    with _answering(found, "distance"):
        own = geometry.distance(points, points)
        bound = 1e-3 * max(float(own.abs().max()), 1.0)
        if float((own - own.T).abs().max()) > bound or float(own.diagonal().abs().max()) > 10 * bound:
            found.append("geometry.distance is not symmetric, or not 0 from a point to itself")
        if float(own.min()) < -bound:
            found.append("geometry.distance is negative")
    for name, answer, expected in (
        ("radius", lambda: geometry.radius(points, root=root), (len(points),)),
        ("half_aperture", lambda: geometry.half_aperture(points), (len(points),)),
        ("mean", lambda: geometry.mean(images[None]), (1, images.shape[1])),
    ):
        with _answering(found, name):
            value = answer()
            if tuple(value.shape) != expected or not bool(torch.isfinite(value).all()):
                found.append(f"geometry.{name} of its features is not finite, or not of the shape {expected}")
    _check_not_a_number(geometry, points, root, found)


def _check_not_a_number(geometry: Geometry, points: Tensor, root: Tensor, found: list[str]) -> None:
    """A point with a NaN in it has no figure: a clamp or a choice that makes a number of it hides a fault."""
    broken = points.clone()
    broken[0, -1] = torch.nan
    for name in ("similarity", "distance", *MAY_REFUSE):
        ends = (broken,) if name in ("radius", "half_aperture") else (broken, points[1:])
        more = {"root": root} if name in MAY_REFUSE and name != "half_aperture" else {}
        with _answering(found, name):
            if not bool(getattr(geometry, name)(*ends, **more)[0].isnan().all()):
                found.append(f"geometry.{name} makes a number of a point that holds NaN: it must give NaN")


@contextmanager
def _answering(found: list[str], name: str) -> Iterator[None]:
    """As `_probing`, for a function of a geometry, which may refuse some questions."""
    with _probing(found, f"geometry.{name}"):
        try:
            yield
        except GeometryError:
            if name not in MAY_REFUSE:
                raise


def _check_protocols(adapter: ModelAdapter, found: list[str]) -> None:
    """What an adapter with `under` answers: adapters whose cards tell when their features differ."""
    if not isinstance(adapter, ProtocolAware):
        return
    answers: list[ModelAdapter] = []
    for protocol in PROTOCOLS:
        with _probing(found, f"under({protocol!r})"):
            answer = adapter.under(protocol)
            if not isinstance(answer, ModelAdapter):
                found.append(f"under({protocol!r}) gives {type(answer).__name__}, which is no model adapter")
                return
            if answer.card.sha256 != adapter.card.sha256:
                found.append(f"under({protocol!r}) changes card.sha256, which names the weights alone")
            answers.append(answer)
    with _probing(found, "encode_texts of what under() gives"):
        cards = {(answer.card.preprocessing, answer.card.tokenizing) for answer in answers}
        features = [answer.encode_texts(list(TEXTS)).detach().cpu() for answer in answers]
        if len(cards) == 1 and not all(torch.allclose(features[0], other, atol=1e-5) for other in features):
            found.append(
                "under() changes features of texts, but neither card.tokenizing nor card.preprocessing"
            )


def _state(adapter: object) -> list[tuple[bool, dict[str, Tensor]]]:
    """Training mode and weights of every network that the adapter holds."""
    held = getattr(adapter, "__dict__", {}).values()
    return [
        (module.training, {key: value.clone() for key, value in module.state_dict().items()})
        for module in held
        if isinstance(module, nn.Module)
    ]


def _equal_states(
    a: Sequence[tuple[bool, dict[str, Tensor]]], b: Sequence[tuple[bool, dict[str, Tensor]]]
) -> bool:
    return len(a) == len(b) and all(
        mode_a == mode_b
        and state_a.keys() == state_b.keys()
        and all(torch.equal(state_a[k], state_b[k]) for k in state_a)
        for (mode_a, state_a), (mode_b, state_b) in zip(a, b, strict=True)
    )
