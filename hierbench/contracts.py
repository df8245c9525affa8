"""What the parts of hierbench agree on: adapters, geometries, tasks, and the records they exchange.

An adapter turns pixels and strings into *tangent features* (vectors in the tangent space at the origin, after
the model's own learned scale) and names its geometry. A task asks for embeddings of image ids and strings, and
scores them. Nothing else in the project asks what kind of model it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:  # torch and PIL take seconds to import; listing names must not pay for them
    import numpy as np
    from PIL import Image
    from torch import Tensor

    from hierbench.metrics.bootstrap import Statistics


class Fit(StrEnum):
    """How an image is brought to the square that a model reads."""

    CROP = "crop"  # resize the shorter side, centre crop
    SQUEEZE = "squeeze"  # resize both sides, aspect ratio lost


@runtime_checkable
class Geometry(Protocol):
    """A space that embeddings live in. Frozen and stateless; points are (…, D) tensors.

    Two-argument functions are pairwise, (N, D) and (M, D) -> (N, M), or with `paired=True` row by row, -> (N,).
    `root` is the point that counts as the most general one, (D,); a geometry with an origin of its own ignores it,
    a geometry without one (the sphere) needs it for `radius`, `exterior_angle` and `entailment`.

    The two questions are separate: a flat space has an origin and perhaps no cones. `similarity` and `distance` are the
    same both ways round. A geometry that cannot answer (no angles, no cones, a root is missing) raises GeometryError.
    """

    @property
    def name(self) -> str: ...
    @property
    def has_origin(
        self,
    ) -> bool: ...  # the lifted zero tangent is the most general point; lengths from it count
    @property
    def has_cones(
        self,
    ) -> bool: ...  # what a point entails is told without a root: cones, an order's orthants

    # What `entailment` computes, in a word: cone-angle, radial, product-mean, order, … Scores of different definitions
    # never stand in one column.
    @property
    def entailment_definition(self) -> str: ...

    def describe(self) -> dict[str, Any]: ...
    def lift(self, tangent: Tensor) -> Tensor: ...
    def mean(self, tangents: Tensor) -> Tensor: ...  # (…, P, D) tangents -> (…, D) point
    def similarity(self, a: Tensor, b: Tensor, *, paired: bool = False) -> Tensor: ...
    def distance(self, a: Tensor, b: Tensor, *, paired: bool = False) -> Tensor: ...
    def radius(self, points: Tensor, *, root: Tensor | None = None) -> Tensor: ...
    def exterior_angle(
        self, general: Tensor, specific: Tensor, *, paired: bool = False, root: Tensor | None = None
    ) -> Tensor: ...
    def half_aperture(self, points: Tensor) -> Tensor: ...
    def entailment(
        self, general: Tensor, specific: Tensor, *, paired: bool = False, root: Tensor | None = None
    ) -> Tensor: ...


@runtime_checkable
class Factored(Protocol):
    """What a geometry has besides, whose points are made of points of several spaces: some losses look at each."""

    @property
    def factors(self) -> tuple[Geometry, ...]: ...

    def split(self, points: Tensor) -> tuple[Tensor, ...]:
        """(…, D) -> a point of each factor, (…, D of the factor)."""
        ...


@dataclass(frozen=True)
class ModelCard:
    """Who a model is and where it came from; part of every result's provenance."""

    name: str  # the row's name in tables
    family: str  # name of the adapter file
    source: str  # path, URL or hub id of the weights
    embedding_dim: int
    image_size: int  # side of the square that encode_images reads, pixels
    parameters: int
    preprocessing: str  # of images, in words: resizing, mean and std; a part of the embedding store's key
    sha256: str | None = None  # of the weights; None = embeddings are not kept between runs
    tokenizing: str = (
        ""  # of texts, in words, where that varies; a part of the embedding store's key of texts
    )
    dtype: str = "float32"  # the arithmetic of the encoders
    licence: str | None = None
    paper: str | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)  # curvature, alphas, temperatures, …


@runtime_checkable
class ModelAdapter(Protocol):
    """The one thing a new model has to bring."""

    @property
    def card(self) -> ModelCard: ...
    @property
    def geometry(self) -> Geometry: ...

    def preprocess(self, image: Image.Image, fit: Fit) -> Tensor:
        """An RGB image -> (3, H, W) float32 in [0, 1]. Called in worker processes."""
        ...

    def encode_images(self, pixels: Tensor) -> Tensor:
        """(B, 3, H, W) in [0, 1] -> (B, D) tangent features, after the learned scale."""
        ...

    def encode_texts(self, texts: Sequence[str]) -> Tensor:
        """Any number of strings (the empty one too) -> (len(texts), D) tangent features, in order.

        How they are batched is the adapter's business; the engine hands over up to a few thousand, without
        duplicates and sorted, so that strings with a common beginning are neighbours.
        """
        ...


@runtime_checkable
class ProtocolAware(Protocol):
    """What an adapter has besides, where its family's released evaluator errs in *encoding*, or in how it ranks.

    A run asks such an adapter once, after loading it, for the model as its protocol has it; adapters without the
    method are the same under every protocol. The answer is an adapter of its own and leaves this one as it is. Where
    features differ, its card tells so in words (`tokenizing`, `preprocessing`), so that the embedding store keeps the
    two apart and records say which it was; where only the ranking does, its geometry's `describe` tells. Mistakes in
    scoring or in names are the tasks' and the manifests' business.
    """

    def under(self, protocol: str) -> ModelAdapter:
        """`protocol` is one of `hierbench.data.manifests.PROTOCOLS`."""
        ...


class ImageSource(Protocol):
    """A set of encoded images by id; `read` gives the bytes as published (JPEG, PNG, …)."""

    @property
    def ids(self) -> Sequence[str]: ...

    def read(self, image_id: str) -> bytes: ...


class Dataset(Protocol):
    """What all datasets have in common; the kinds are in `hierbench.data.datasets`."""

    @property
    def name(self) -> str: ...
    @property
    def images(self) -> ImageSource: ...

    def facts(self) -> bytes:
        """Labels, names, captions as canonical bytes: what the fingerprint covers besides the images."""
        ...


@dataclass(frozen=True)
class EmbeddingRequests:
    """What a task wants embedded: distinct image ids of its dataset and distinct strings."""

    images: tuple[str, ...]
    texts: tuple[str, ...]

    @classmethod
    def of(cls, images: Iterable[str], texts: Iterable[str]) -> EmbeddingRequests:
        """Requests without duplicates, in the order of first mention."""
        return cls(tuple(dict.fromkeys(images)), tuple(dict.fromkeys(texts)))


@dataclass(frozen=True)
class Embeddings:
    """Tangent features for a request: row i of a tensor belongs to entry i of the request; float32, CPU."""

    requests: EmbeddingRequests
    image_features: Tensor  # (len(requests.images), D)
    text_features: Tensor  # (len(requests.texts), D)

    @cached_property
    def _image_row(self) -> dict[str, int]:
        return {image_id: row for row, image_id in enumerate(self.requests.images)}

    @cached_property
    def _text_row(self) -> dict[str, int]:
        return {text: row for row, text in enumerate(self.requests.texts)}

    def images(self, ids: Iterable[str]) -> Tensor:
        """(n,) ids -> (n, D) tangents."""
        return self.image_features[[self._image_row[i] for i in ids]]

    def texts(self, strings: Iterable[str]) -> Tensor:
        """(n,) strings -> (n, D) tangents."""
        return self.text_features[[self._text_row[s] for s in strings]]


@dataclass(frozen=True)
class MetricSpec:
    """One figure of a task: how it is called, which way is better, how it is printed."""

    name: str
    title: str  # column heading
    higher_is_better: bool | None = True  # None: a diagnosis, in which nobody is best
    unit: str = (
        "percent"  # percent: recorded 0–100; fraction: recorded 0–1, printed as percent; raw: as it is
    )
    minimum: float | None = None  # of the recorded figure; None: by unit, see `limits`
    maximum: float | None = None

    @property
    def limits(self) -> tuple[float | None, float | None]:
        """Between which bounds a recorded figure lies: percent 0–100, fraction 0–1, unless given; None = no bound."""
        low, high = {"percent": (0.0, 100.0), "fraction": (0.0, 1.0)}.get(self.unit, (None, None))
        return (
            low if self.minimum is None else self.minimum,
            high if self.maximum is None else self.maximum,
        )


@dataclass(frozen=True)
class TaskSpec:
    """What a task measures. `version` rises whenever a change can move a figure."""

    name: str
    title: str
    version: int
    dataset: str
    metrics: tuple[MetricSpec, ...]
    headline: str  # name of the metric that stands for the task
    fit: Fit
    protocol: str = "released"
    source: str = ""  # paper and section or equation


@dataclass(frozen=True)
class Estimate:
    """A figure with its 95 % bootstrap interval; bounds are None where resampling makes no sense."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Scores:
    """What scoring gives: metrics by name, the number of items, per-item outcomes by table and column."""

    metrics: Mapping[str, Estimate]
    n: int
    items: Mapping[str, Mapping[str, np.ndarray | Sequence[Any]]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    degenerate: Mapping[str, str] = field(default_factory=dict)  # metric -> why its figure says little
    definition: str = ""  # of entailment, where the figures rest on it: see `Geometry.entailment_definition`


@runtime_checkable
class Task(Protocol):
    """One row of the registry: asks for embeddings, then scores them."""

    @property
    def spec(self) -> TaskSpec: ...

    def inapplicable(self, geometry: Geometry) -> str | None:
        """Why this task says nothing about models of this geometry; None = it applies."""
        ...

    def requests(self, dataset: Any) -> EmbeddingRequests: ...

    def statistics(self, items: Mapping[str, Any]) -> Statistics:
        """Every metric as a function of how often each unit counts, from per-item outcomes as `score` keeps them.

        `items`: table -> column -> values, arrays or what parquet gives back. `score` and whoever compares models on
        the same items use it; its `n` is that of `score`. Raises OutputError where a column is not there.
        """
        ...

    def score(self, geometry: Geometry, embeddings: Embeddings, dataset: Any) -> Scores: ...
