"""Any model adapter in the three roles: similarity and entailment, turned into probabilities on labelled pairs.

A dual encoder says how near a caption is to an image, not whether it is true. So its scores are put on a scale by
logistic regression over pairs of known truth: scenes of the miniature's training split, which no cleaning is asked
about, or (for photographs, where nobody knows) a dataset's own pairs against shuffled ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations
from typing import Any

import numpy as np
import torch
from scipy.special import expit
from torch import Tensor

from hierbench.cleaning import questions
from hierbench.cleaning.roles import Cast, Pair, Question
from hierbench.cleaning.sources import Source
from hierbench.contracts import Fit, ModelAdapter
from hierbench.data.datasets import spread
from hierbench.data.images import decode
from hierbench.errors import UsageError

SCENES = 600  # of the miniature's training split, to set the scale by
REFERENCES = 256  # images and captions that a pair's score is compared with

Probability = Callable[[np.ndarray], np.ndarray]  # (n, features) -> (n,)


@dataclass(frozen=True)
class Labelled:
    """Pairs of known truth: (image, caption, true) and (specific, general, follows), by place."""

    images: tuple[bytes, ...]
    captions: tuple[str, ...]
    pairs: tuple[tuple[int, int, bool], ...]
    implications: tuple[tuple[int, int, bool], ...]

    @cached_property
    def digest(self) -> str:
        """16 hex digits over everything."""
        told = repr((self.captions, self.pairs, self.implications)).encode()
        return hashlib.sha256(told + b"".join(hashlib.sha256(i).digest() for i in self.images)).hexdigest()[
            :16
        ]


def labelled_miniature(count: int = SCENES) -> Labelled:
    """Scenes of the training split with captions and their exact truth."""
    from hierbench import png
    from hierbench.miniature.captions import entails
    from hierbench.miniature.noise import labelled_pairs
    from hierbench.miniature.scenes import render

    told = labelled_pairs(count)
    scenes = list(dict.fromkeys(scene for scene, _, _ in told))
    place = {scene.id: i for i, scene in enumerate(scenes)}
    meaning = {caption.text: caption.meaning for _, caption, _ in told}
    captions = {text: i for i, text in enumerate(meaning)}
    of_scene: dict[str, list[str]] = {}
    for scene, caption, _ in told:
        of_scene.setdefault(scene.id, []).append(caption.text)
    implications = [  # every seventh: enough, and all forms of caption are among them
        (captions[a], captions[b], entails(meaning[a], meaning[b]))
        for number, texts in enumerate(of_scene.values())
        for a, b in list(permutations(dict.fromkeys(texts), 2))[number % 7 :: 7]
    ]
    return Labelled(
        images=tuple(png.encode(render(scene).pixels) for scene in scenes),
        captions=tuple(captions),
        pairs=tuple((place[scene.id], captions[c.text], true) for scene, c, true in told),
        implications=tuple(dict.fromkeys(implications)),
    )


def labelled_by_itself(source: Source, count: int = SCENES) -> Labelled:
    """A dataset's own pairs as true, those of the sample half a dataset away as false: right for most.

    Raises UsageError where that gives no false ones.
    """
    dataset, samples = source.dataset, len(source.chains)
    rows = list(range(0, samples, max(1, samples // count)))[:count]
    chains, owner = source.chains.tolist(), dataset.owner.tolist()
    images = sorted({owner[row] for row in rows})
    place = {image: i for i, image in enumerate(images)}
    pairs, implications = [], []
    for row in rows:
        other = chains[(row + samples // 2) % samples]
        for level, caption in enumerate(chains[row]):
            pairs.append((place[owner[row]], caption, True))
            pairs.append((place[owner[row]], other[level], other[level] in chains[row]))
            for finer in chains[row][level + 1 :]:
                implications += [(finer, caption, True), (caption, finer, finer == caption)]
                implications.append((finer, other[level], other[level] in chains[row]))
    for told in (pairs, implications):
        if len(images) < 2 or all(true for _, _, true in told):
            raise UsageError(
                f"--backend adapter sets its scale by a dataset's own pairs against others': {samples} samples of "
                f"{len(source.captions)} captions give none: take more rows"
            )
    read = dataset.images.read
    return Labelled(
        tuple(read(dataset.images.ids[image]) for image in images),
        source.captions,
        tuple(dict.fromkeys(pairs)),
        tuple(dict.fromkeys(implications)),
    )


@dataclass(frozen=True)
class _Known:
    """What is known of n images or captions alone: points, and how they stand to the references."""

    points: Tensor  # (n, D)
    radius: Tensor  # (n,)
    images: Tensor  # (n, 3) mean, standard deviation and upper tenth of the similarity to images
    captions: Tensor  # (n, 3) to captions

    def __getitem__(self, rows) -> _Known:
        return _Known(self.points[rows], self.radius[rows], self.images[rows], self.captions[rows])


class AdapterRole:
    """Plays verifier, embedder and reranker with one adapter. Items are measured one by one: none depends on others."""

    def __init__(self, adapter: ModelAdapter, fit: Fit, labelled: Labelled):
        self.adapter, self.fit, self._labelled = adapter, fit, labelled
        card = adapter.card
        self.identity: dict[str, Any] = {
            "model": card.name,
            "revision": (card.sha256 or "")[:16] or None,
            "prompt_hash": None,
            "backend": "adapter",
            "dtype": card.dtype,
            "scale": f"{labelled.digest}, {fit}, 1",
        }
        self._tangents: dict[bytes | str, Tensor] = {}  # images by hash, captions
        self._known: dict[bytes | str, _Known] = {}

    def probability_of_yes(self, asked: Sequence[Question]) -> np.ndarray:
        """As `roles.Verifier`, for the questions of the cleaning."""
        answers = []
        for question in asked:
            match questions.understood(question.text):
                case questions.Describes(caption):
                    answers.append(self._fits(question.image or b"", caption))
                case questions.Entails(specific, general):
                    measured = self._measured_texts(self._of_text(specific), self._of_text(general))
                    answers.append(float(self._scale.implication(measured)[0]))
        return np.array(answers)

    def relevance(self, pairs: Sequence[Pair]) -> np.ndarray:
        """As `roles.Reranker`."""
        return np.array([self._fits(pair.image, pair.caption) for pair in pairs])

    def embed_images(self, images: Sequence[bytes]) -> np.ndarray:
        """As `roles.Embedder`: directions of the tangent features."""
        return _unit(torch.cat([self._image(image) for image in images]))

    def embed_texts(self, texts: Sequence[str]) -> np.ndarray:
        """As `roles.Embedder`: directions of the tangent features."""
        return _unit(torch.cat([self._text(text) for text in texts]))

    def _fits(self, image: bytes, caption: str) -> float:
        measured = self._measured(self._of_image(image), self._of_text(caption))
        return float(self._scale.pair(measured)[0])

    # ------------------------------------------------------------------------------------------- encoding

    def _image(self, content: bytes) -> Tensor:
        key = hashlib.sha256(content).digest()
        if key not in self._tangents:
            self._tangents[key] = self._encoded([content])
        return self._tangents[key]

    def _text(self, text: str) -> Tensor:
        if text not in self._tangents:
            with torch.inference_mode():
                self._tangents[text] = self.adapter.encode_texts([text]).float().cpu()
        return self._tangents[text]

    def _encoded(self, contents: Sequence[bytes]) -> Tensor:
        device = getattr(self.adapter, "device", "cpu")
        pixels = torch.stack(
            [self.adapter.preprocess(decode(content, "an image to clean"), self.fit) for content in contents]
        )
        with torch.inference_mode():
            return self.adapter.encode_images(pixels.to(device)).float().cpu()

    # -------------------------------------------------------------------------------------------- measuring

    def _of_image(self, content: bytes) -> _Known:
        key = hashlib.sha256(content).digest()
        if key not in self._known:
            self._known[key] = self._standing(self._image(content))
        return self._known[key]

    def _of_text(self, text: str) -> _Known:
        if text not in self._known:
            self._known[text] = self._standing(self._text(text))
        return self._known[text]

    @torch.inference_mode()
    def _standing(self, tangents: Tensor) -> _Known:
        """How (n, D) tangents stand alone."""
        geometry, (images, captions) = self.adapter.geometry, self._references
        points = geometry.lift(tangents)

        def among(others: Tensor) -> Tensor:
            near = geometry.similarity(points, others)
            return torch.stack([near.mean(1), near.std(1).clamp_min(1e-6), near.quantile(0.9, dim=1)], 1)

        return _Known(points, geometry.radius(points, root=self._root), among(images), among(captions))

    @torch.inference_mode()
    def _measured(self, image: _Known, caption: _Known) -> np.ndarray:
        """(n, features) of n pairs: how near, how near for this caption and for this image, entailment, radii."""
        geometry = self.adapter.geometry
        near = geometry.similarity(image.points, caption.points, paired=True)
        return _columns(
            near,
            *_above(near, caption.images),
            *_above(near, image.captions),
            geometry.entailment(caption.points, image.points, paired=True, root=self._root),
            caption.radius,
            image.radius,
        )

    @torch.inference_mode()
    def _measured_texts(self, specific: _Known, general: _Known) -> np.ndarray:
        """(n, features) of n pairs of captions: how near, for either, entailment both ways, radii."""
        geometry = self.adapter.geometry
        near = geometry.similarity(specific.points, general.points, paired=True)
        return _columns(
            near,
            *_above(near, general.captions),
            *_above(near, specific.captions),
            geometry.entailment(general.points, specific.points, paired=True, root=self._root),
            geometry.entailment(specific.points, general.points, paired=True, root=self._root),
            specific.radius,
            general.radius,
        )

    @cached_property
    def _root(self) -> Tensor:
        return self.adapter.geometry.lift(self._text(""))[0]

    @cached_property
    def _labelled_tangents(self) -> tuple[Tensor, Tensor]:
        labelled = self._labelled
        images = [self._encoded(labelled.images[i : i + 32]) for i in range(0, len(labelled.images), 32)]
        with torch.inference_mode():
            captions = self.adapter.encode_texts(list(labelled.captions)).float().cpu()
        return torch.cat(images), captions

    @cached_property
    def _references(self) -> tuple[Tensor, Tensor]:
        """Points of some labelled images and captions."""
        lift = self.adapter.geometry.lift
        images, captions = self._labelled_tangents
        return lift(_some(images, REFERENCES)), lift(_some(captions, REFERENCES))

    @cached_property
    def _scale(self) -> Scale:
        images, captions = map(self._standing, self._labelled_tangents)
        i, c, fits = map(list, zip(*self._labelled.pairs, strict=True))
        s, g, implies = map(list, zip(*self._labelled.implications, strict=True))
        return Scale(
            _regression(self._measured(images[i], captions[c]), fits),
            _regression(self._measured_texts(captions[s], captions[g]), implies),
        )


@dataclass(frozen=True)
class Scale:
    """Measurements -> probabilities: that a caption is true of an image, that one follows from another."""

    pair: Probability
    implication: Probability


def cast(adapter: ModelAdapter, fit: Fit, labelled: Labelled) -> Cast:
    """One adapter in all three roles."""
    role = AdapterRole(adapter, fit, labelled)
    return Cast(role, role, role)


def _regression(measured: np.ndarray, truth: Sequence[bool]) -> Probability:
    """Logistic regression on the measurements, their squares and products; both kinds weigh the same."""
    from sklearn.linear_model import LogisticRegression

    one, other = np.triu_indices(measured.shape[1])
    centre, spread = measured.mean(0), measured.std(0) + 1e-9

    def terms(rows: np.ndarray) -> np.ndarray:
        scaled = (rows - centre) / spread
        return np.concatenate([scaled, scaled[:, one] * scaled[:, other]], axis=1)

    model = LogisticRegression(class_weight="balanced", max_iter=500).fit(terms(measured), np.asarray(truth))
    weights, offset = model.coef_[0], model.intercept_[0]
    return lambda rows: expit((terms(rows) * weights).sum(1) + offset)


def _above(near: Tensor, among: Tensor) -> tuple[Tensor, Tensor]:
    """(n,) similarities in standard deviations above the mean of others, and above their best tenth."""
    mean, deviation, tenth = among.unbind(1)
    return (near - mean) / deviation, (near - tenth) / deviation


def _columns(*columns: Tensor) -> np.ndarray:
    return torch.stack([column.double() for column in columns], 1).numpy()


def _unit(tangents: Tensor) -> np.ndarray:
    return torch.nn.functional.normalize(tangents.double(), dim=1).float().numpy()


def _some(rows: Tensor, count: int) -> Tensor:
    return rows[torch.from_numpy(spread(len(rows), count))]
