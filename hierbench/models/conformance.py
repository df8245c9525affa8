"""Does an adapter keep its promises? A check for whoever writes one; ours run it in the tests.

from hierbench.models.conformance import check_adapter
assert check_adapter(load("weights.pth")) == []
"""

from __future__ import annotations

import torch
from PIL import Image
from torch import Tensor, nn

from hierbench.contracts import Fit, Geometry, ModelAdapter, ProtocolAware
from hierbench.data.manifests import PROTOCOLS

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


def check_adapter(adapter: ModelAdapter) -> list[str]:
    """What is wrong with an adapter, in words; an empty list = it conforms.

    Encodes a few drawn images and strings: shapes and types, finite values, the order and independence of the
    rows, the same features twice, preprocessing into [0, 1], a geometry that can lift and compare them, and
    that encoding leaves the model as it was.
    """
    if not isinstance(adapter, ModelAdapter):
        return ["it lacks one of card, geometry, preprocess, encode_images, encode_texts"]
    before = _state(adapter)
    found = _check_card(adapter)
    pixels, problems = _check_preprocessing(adapter)
    found += problems
    if pixels is not None:
        images, problems = _check_encoder("encode_images", adapter.encode_images, pixels, adapter)
        texts, more = _check_encoder("encode_texts", adapter.encode_texts, list(TEXTS), adapter)
        found += problems + more
        if images is not None and texts is not None and isinstance(adapter.geometry, Geometry):
            found += _check_geometry(adapter, images, texts)
    found += _check_protocols(adapter)
    if not _equal_states(before, _state(adapter)):
        found.append("encoding changed the model's weights, buffers or training mode")
    return found


def drawn_images() -> list[Image.Image]:
    """Five RGB images of several shapes: gradients and a checkerboard, no two alike."""
    images = []
    for number, (width, height) in enumerate([(64, 64), (90, 40), (40, 90), (300, 200), (17, 13)]):
        y, x = torch.meshgrid(torch.linspace(0, 1, height), torch.linspace(0, 1, width), indexing="ij")
        board = ((x * (number + 2)).floor() + (y * 3).floor()) % 2
        rgb = torch.stack([x, y * (number + 1) / 5, board], -1)
        images.append(Image.fromarray((rgb * 255).to(torch.uint8).numpy()))
    return images


def _check_card(adapter: ModelAdapter) -> list[str]:
    card = adapter.card
    wrong = [
        f"card.{name} is empty"
        for name in ("name", "family", "source", "preprocessing")
        if not getattr(card, name)
    ]
    wrong += [
        f"card.{name} is not positive"
        for name in ("embedding_dim", "image_size", "parameters")
        if getattr(card, name) < 1
    ]
    if card.dtype not in ("float32", "bfloat16", "float16"):
        wrong.append(f"card.dtype is {card.dtype!r}")
    if not isinstance(adapter.geometry, Geometry):
        wrong.append("geometry does not follow hierbench.contracts.Geometry")
    return wrong


def _check_preprocessing(adapter: ModelAdapter) -> tuple[Tensor | None, list[str]]:
    side, wrong, squares = adapter.card.image_size, [], {}
    for fit in Fit:
        for image in drawn_images():
            bytes_before = image.tobytes()
            pixels = adapter.preprocess(image, fit)
            if image.tobytes() != bytes_before:
                wrong.append(f"preprocess({fit}) changes the image that it is given")
            if tuple(pixels.shape) != (3, side, side) or pixels.dtype != torch.float32:
                got = f"{tuple(pixels.shape)} {pixels.dtype}"
                wrong.append(f"preprocess({fit}) gives {got}, not (3, {side}, {side}) float32")
                return None, wrong
            if not 0 <= float(pixels.min()) <= float(pixels.max()) <= 1:
                wrong.append(
                    f"preprocess({fit}) leaves [0, 1]: {float(pixels.min()):.3g} to {float(pixels.max()):.3g}"
                )
            squares.setdefault(fit, []).append(pixels)
    if torch.equal(squares[Fit.CROP][1], squares[Fit.SQUEEZE][1]):
        wrong.append("preprocess makes no difference between CROP and SQUEEZE")
    return torch.stack(squares[Fit.CROP]), wrong


def _check_encoder(name: str, encode, items, adapter: ModelAdapter) -> tuple[Tensor | None, list[str]]:
    raw = encode(items)
    shape = (len(items), adapter.card.embedding_dim)
    if tuple(raw.shape) != shape or raw.dtype != torch.float32:
        return None, [f"{name} gives {tuple(raw.shape)} {raw.dtype}, not {shape} float32"]
    features = raw.detach().cpu()
    if not bool(torch.isfinite(features).all()):
        return None, [f"{name} gives values that are not finite"]
    wrong, scale = [], float(features.norm(dim=1).max())
    if raw.requires_grad:
        wrong.append(f"{name} keeps gradients")
    if bool((features == features[0]).all()):
        wrong.append(f"{name} gives the same features for everything")
    # Arithmetic in half precision depends on the batch's shape; float32 must not, beyond rounding.
    tolerance = TOLERANCE * scale if adapter.card.dtype == "float32" else 0.05 * scale
    backwards = items.flip(0) if isinstance(items, Tensor) else items[::-1]
    for what, again in {
        "a second time": encode(items),
        "in reverse order": encode(backwards).flip(0),
        "one by one": torch.cat([encode(items[row : row + 1]) for row in range(len(items))]),
    }.items():
        if float((again.detach().cpu() - features).abs().max()) > tolerance:
            wrong.append(f"{name} gives other features {what}")
    return features, wrong


def _check_geometry(adapter: ModelAdapter, images: Tensor, texts: Tensor) -> list[str]:
    geometry, wrong = adapter.geometry, []
    images, texts, root = geometry.lift(images), geometry.lift(texts[1:]), geometry.lift(texts[0])
    for name, values in {
        "similarity": geometry.similarity(images, texts),
        "distance": geometry.distance(images, texts),
        "exterior_angle": geometry.exterior_angle(texts, images, root=root).T,
        "entailment": geometry.entailment(texts, images, root=root).T,
    }.items():
        if tuple(values.shape) != (len(images), len(texts)) or not bool(torch.isfinite(values).all()):
            wrong.append(f"geometry.{name} of its features is not a finite (N, M) matrix")
    if not bool(torch.isfinite(geometry.radius(images, root=root)).all()):
        wrong.append("geometry.radius of its features is not finite")
    return wrong


def _check_protocols(adapter: ModelAdapter) -> list[str]:
    """What an adapter with `under` answers: adapters whose cards tell when their features differ."""
    if not isinstance(adapter, ProtocolAware):
        return []
    wrong, answers = [], {protocol: adapter.under(protocol) for protocol in PROTOCOLS}
    for protocol, answer in answers.items():
        if not isinstance(answer, ModelAdapter):
            return [f"under({protocol!r}) gives {type(answer).__name__}, which is no model adapter"]
        if answer.card.sha256 != adapter.card.sha256:
            wrong.append(f"under({protocol!r}) changes card.sha256, which names the weights alone")
    cards = {(answer.card.preprocessing, answer.card.tokenizing) for answer in answers.values()}
    features = [answer.encode_texts(list(TEXTS)).detach().cpu() for answer in answers.values()]
    if len(cards) == 1 and not all(torch.allclose(features[0], other, atol=1e-5) for other in features):
        wrong.append("under() changes features of texts, but neither card.tokenizing nor card.preprocessing")
    return wrong


def _state(adapter: ModelAdapter) -> list[tuple[bool, dict[str, Tensor]]]:
    """Training mode and weights of every network that the adapter holds."""
    held = getattr(adapter, "__dict__", {}).values()
    return [
        (module.training, {key: value.clone() for key, value in module.state_dict().items()})
        for module in held
        if isinstance(module, nn.Module)
    ]


def _equal_states(a, b) -> bool:
    return len(a) == len(b) and all(
        mode_a == mode_b
        and state_a.keys() == state_b.keys()
        and all(torch.equal(state_a[k], state_b[k]) for k in state_a)
        for (mode_a, state_a), (mode_b, state_b) in zip(a, b, strict=True)
    )
