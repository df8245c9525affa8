"""Where a model puts captions: in the Poincaré disc, from stored embeddings; how far from the root, from items."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hierbench.data.datasets import spread
from hierbench.leaderboard.page import numbers

if TYPE_CHECKING:
    import pandas as pd

    from hierbench.engine.store import Section
    from hierbench.results import Record

A_LEVEL = 250  # captions drawn at most, evenly spread
FITTED = 240  # of all, those that the plane is found on
BINS = 40
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def no_disc(records: Sequence[Record]) -> str:
    """Why there can be no disc of this model; empty where there can."""
    spaces = [found for record in records if isinstance(found := record.provenance.get("geometry"), Mapping)]
    if not spaces:
        return "no record tells the model's geometry: run it again"
    if any(space.get("name") == "lorentz" and _positive(space.get("curvature")) for space in spaces):
        return ""
    name = spaces[0].get("name")
    if name == "product":
        return "the model's space is a product of several: no one disc holds it (its radii are below)"
    return f"the model's geometry is {name}, no hyperbolic space: there is no disc of it"


def disc(record: Record, items: Mapping[str, pd.DataFrame]) -> Iterator[dict[str, Any]]:
    """The captions of PEP's true pairs, by level, in the plane that HoroPCA finds.

    From text embeddings in the store; where it lacks some, one line says so.
    """
    from hierbench.analysis import horopca
    from hierbench.geometry import Lorentz

    texts = _by_level(items["pairs"])
    listed = [(level, text) for level, group in texts.items() for text in group]
    features, known = _stored(record, [text for _, text in listed])
    if not known.any() or len(known) < 3:
        yield {
            "missing": "the embeddings of its captions are not in this machine's cache: run it here with --force (and "
            "without --no-cache), then make the page again"
        }
        return
    listed = [entry for entry, there in zip(listed, known, strict=True) if there]
    curvature = float(record.provenance["geometry"]["curvature"])
    points = Lorentz(curvature).lift(features[known]).double() * math.sqrt(curvature)
    try:
        plane = horopca.fit(points[spread(len(points), FITTED)])
    except ValueError as error:
        yield {"missing": f"no plane can be found: {error}"}
        return
    places = plane.project(points).numpy()
    yield {
        "kind": "disc",
        "levels": list(texts),
        "kept": round(plane.kept, 4),
        "curvature": curvature,
        "shown": len(listed),
        "lacking": int((~known).sum()),
        "points": [
            [*numbers.short(place), level, text]
            for place, (level, text) in zip(places.tolist(), listed, strict=True)
        ],
    }


def state(record: Record) -> str:
    """What the store holds of the record's model, in so far as it may change what is missing of a disc."""
    section = _section(record)
    try:
        return "" if section is None else str(section.folder.stat().st_mtime_ns)
    except OSError:
        return ""


def radii(record: Record, items: Mapping[str, pd.DataFrame]) -> Iterator[dict[str, Any]]:
    """Distances from the root by level of caption, as HierarCaps' items hold them."""
    samples = items["samples"]
    names = sorted(name for name in samples.columns if str(name).startswith("radius_l"))
    values = {int(name.removeprefix("radius_l")): samples[name].to_numpy(float) for name in names}
    together = np.concatenate(list(values.values()))
    if not len(together) or not np.isfinite(together).all():
        yield {"missing": "the radii in its items are not all finite"}
        return
    edges = numbers.edges(together, BINS)
    yield {
        "kind": "radii",
        "edges": numbers.short(edges, 5),
        "groups": [
            {
                "level": level,
                "n": len(found),
                "counts": np.histogram(found, edges)[0].tolist(),
                "quantiles": numbers.short(np.quantile(found, QUANTILES)),
            }
            for level, found in values.items()
        ],
    }


def _by_level(pairs: pd.DataFrame) -> dict[int, list[str]]:
    """Level of caption, 1 the most general -> distinct captions of true pairs, evenly spread."""
    true = pairs[pairs["label"] == 1]
    found = {}
    for relation in sorted(set(true["relation"])):
        if relation.startswith("l") and relation.endswith("_image"):
            texts = list(dict.fromkeys(true.loc[true["relation"] == relation, "general"]))
            found[int(relation[1:-6])] = [texts[row] for row in spread(len(texts), A_LEVEL)]
    return found


def _stored(record: Record, texts: Sequence[str]) -> tuple[Any, np.ndarray]:
    """(n, D) tangent features of strings and (n,) bool: which the embedding store knows for the record's model."""
    import torch

    from hierbench.engine.contents import content_id

    section = _section(record)
    if section is None:
        return torch.zeros(len(texts), 1), np.zeros(len(texts), bool)
    features, known = section.get([content_id(text) for text in texts])
    return torch.from_numpy(features), known


def _section(record: Record) -> Section | None:
    """Where the store keeps the text embeddings of a record's model; None where the record does not tell."""
    from hierbench.contracts import ModelCard
    from hierbench.engine.store import EmbeddingStore

    facts = record.provenance
    told = facts.get("card")
    dim = told.get("embedding_dim") if isinstance(told, Mapping) else None
    if not isinstance(dim, int) or facts.get("checkpoint_sha256") is None:
        return None
    card = ModelCard(
        record.model, record.family, "", dim, 0, 0, str(facts.get("preprocessing")), facts["checkpoint_sha256"],
        str(facts.get("tokenizing") or ""), str(facts.get("dtype") or "float32"),
    )  # fmt: skip
    device = str(facts.get("device") or "cpu").split()[0].split(":")[0]
    return EmbeddingStore().section(card, "text", device)


def _positive(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and value > 0
