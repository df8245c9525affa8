"""What per-item outcomes tell of a model: scores and their curves, accuracy over a class tree, best and worst items."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hierbench.analysis.confusion import over_tree
from hierbench.analysis.entailment import thinned
from hierbench.data.datasets import spread
from hierbench.errors import HierbenchError
from hierbench.leaderboard.page import numbers
from hierbench.metrics.entailment import curves, ties
from hierbench.taxonomy import edge_hash

if TYPE_CHECKING:
    import pandas as pd

    from hierbench.data.manifests import Manifest
    from hierbench.results import Record

Items = Mapping[str, "pd.DataFrame"]
Panel = dict[str, Any]

BINS = 50
CURVE = 200  # points of a curve at most
LISTED = 6  # items of a list


# ---------------------------------------------------------------------------------------------------------- scores


def scores(record: Record, items: Items) -> Iterator[Panel]:
    """PEP's pairs: how true and false ones score, and how well a threshold tells them apart."""
    pairs = items["pairs"]
    score, true = pairs["score"].to_numpy(float), pairs["label"].to_numpy() == 1
    edges = numbers.edges(score, BINS)
    found = thinned(curves(score, true), CURVE)
    figures = {name: figure.value for name, figure in (record.metrics or {}).items() if name in ("auc", "ap")}
    yield {
        "kind": "scores",
        "definition": record.definition,
        "edges": numbers.short(edges),
        "true": {"n": int(true.sum()), "counts": np.histogram(score[true], edges)[0].tolist()},
        "false": {"n": int((~true).sum()), "counts": np.histogram(score[~true], edges)[0].tolist()},
        "zero": round(ties(score)["zero_fraction"], 4),
        "figures": figures,
        "unit": record.specs.get("auc", {}).get("unit", "percent"),
        "fpr": numbers.short(found.false_positive_rate),
        "recall": numbers.short(found.recall),
        "precision": numbers.short(found.precision),
    }


# ------------------------------------------------------------------------------------------------------------ tree


def tree(record: Record, items: Items) -> Iterator[Panel]:
    """Every node of the class tree with images: [name, parent's position, images, right, within the node]."""
    manifest = _manifest(record)
    if manifest is None:
        yield {"missing": f"the dataset {record.dataset} is not known here: add its manifest with --manifest"}
        return
    taxonomy = manifest.tree()
    if edge_hash(taxonomy.edges) != record.provenance.get("taxonomy_hash"):
        yield {"missing": "the class tree here is not the one that it was measured on: run it again"}
        return
    images = items["images"]
    nodes = over_tree(images["predicted"].to_numpy(), images["label"].to_numpy(), taxonomy)
    place = {node.node: number for number, node in enumerate(nodes)}
    called = dict(zip(taxonomy.leaves, _class_names(record), strict=True))
    yield {
        "kind": "tree",
        "nodes": [
            [called.get(n.node, n.name), place.get(n.parent, -1), n.images, n.correct, n.within]
            for n in nodes
        ],
    }


# ------------------------------------------------------------------------------------------- best and worst items


def items(record: Record, tables: Items) -> Iterator[Panel]:
    """Lists of a few items that the model did best and worst at; `image` is an id in the dataset."""
    kind = record.task.partition("/")[0]
    make = {
        "hierarchy": _mistakes, "zero-shot": _classes, "retrieval": _found, "hierarcaps": _chains,
        "multilabel": _labels,
    }.get(kind, _pairs)  # fmt: skip
    lists = [entry for entry in make(record, tables) if entry["items"]]
    yield {"kind": "items", "lists": lists}


def _pairs(record: Record, tables: Items) -> Iterator[Panel]:
    pairs = tables["pairs"]
    by = "margin" if "margin" in pairs else "score"  # the margin orders pairs whose scores are all 0
    true, false = (pairs[pairs["label"] == label].sort_values(by, kind="stable") for label in (1, 0))

    def first(rows: pd.DataFrame) -> pd.DataFrame:
        return rows.drop_duplicates("specific").head(LISTED)

    def told(row: pd.Series) -> Panel:
        unclamped = f", unclamped {row['margin']:.3f}" if "margin" in row else ""
        return _item(row["specific"], row["general"], f"score {row['score']:.3f}{unclamped}")

    yield _list("Best: captions of the image that score highest", first(true.iloc[::-1]), told)
    yield _list("Worst: captions of the image that score lowest", first(true), told)
    yield _list("Worst: captions of other images that score highest", first(false.iloc[::-1]), told)


def _mistakes(record: Record, tables: Items) -> Iterator[Panel]:
    images, names = tables["images"], _class_names(record)
    wrong = images[images["predicted"] != images["label"]].sort_values("tie", kind="stable")

    def told(row: pd.Series) -> Panel:
        return _item(row["image_id"], _taken(names, row), f"{row['tie']} edges apart")

    far = wrong.iloc[::-1].head(LISTED)
    yield _list("Best: the mildest mistakes", wrong.head(min(LISTED, len(wrong) - len(far))), told)
    yield _list("Worst: mistakes farthest off in the tree", far, told)


def _classes(record: Record, tables: Items) -> Iterator[Panel]:
    images, names = tables["images"], _class_names(record)
    label, right = images["label"].to_numpy(), images["label"].to_numpy() == images["predicted"].to_numpy()
    sizes = np.bincount(label)
    share = np.divide(np.bincount(label, right), sizes, out=np.full(len(sizes), np.nan), where=sizes > 0)
    order = [int(k) for k in np.argsort(-share, kind="stable") if sizes[k]]
    told = [
        {"text": _name(names, k), "says": f"{100 * share[k]:.1f} % of {sizes[k]:,} images right"}
        for k in order
    ]
    few = min(LISTED, len(order) // 2)
    yield {"title": "Best classes", "items": told[:few]}
    yield {"title": "Worst classes", "items": told[::-1][:few]}
    wrong = images[~right]
    yield _list(
        f"Of the {len(wrong):,} images that it names wrongly",
        _spread(wrong),
        lambda row: _item(row["image_id"], _taken(names, row), ""),
    )


def _found(record: Record, tables: Items) -> Iterator[Panel]:
    captions = tables["captions"].sort_values("rank", kind="stable")
    first = captions[captions["rank"] == 1]
    worst = captions.iloc[::-1].drop_duplicates("image_id").head(LISTED)

    def told(row: pd.Series) -> Panel:
        return _item(row["image_id"], row["caption"], f"its image comes at rank {row['rank']:,}")

    yield _list(f"Best: of the {len(first):,} captions whose image comes first", _spread(first), told)
    yield _list("Worst: captions whose image comes last", worst[worst["rank"] > 1], told)


def _chains(record: Record, tables: Items) -> Iterator[Panel]:
    images = tables["images"].sort_values("precision", kind="stable")
    images = images.iloc[np.argsort((images["precision"] * images["recall"]).to_numpy(), kind="stable")]

    def told(row: pd.Series) -> Panel:
        found = f"precision {100 * row['precision']:.0f} %, recall {100 * row['recall']:.0f} %"
        return _item(row["image_id"], f"image {row['image_id']}", found)

    few = min(LISTED, len(images) // 2)
    yield _list("Best: images whose captions are found best", images.iloc[::-1].head(few), told)
    yield _list("Worst: images whose captions are found worst", images.head(few), told)


def _labels(record: Record, tables: Items) -> Iterator[Panel]:
    classes = tables["classes"].dropna(subset=["average_precision"])
    classes = classes.sort_values("average_precision", kind="stable")

    def told(row: pd.Series) -> Panel:
        found = f"average precision {100 * row['average_precision']:.1f} %, {row['images']:,} images"
        return {"text": str(row["name"]), "says": found}

    few = min(LISTED, len(classes) // 2)
    yield _list("Best classes", classes.iloc[::-1].head(few), told)
    yield _list("Worst classes", classes.head(few), told)


def _list(title: str, rows: pd.DataFrame, told: Callable[[pd.Series], Panel]) -> Panel:
    return {"title": title, "items": [told(row) for _, row in rows.iterrows()]}


def _spread(rows: pd.DataFrame) -> pd.DataFrame:
    """A few rows, evenly spread."""
    return rows.iloc[spread(len(rows), LISTED)] if len(rows) else rows


def _item(image: Any, text: Any, says: str) -> Panel:
    return {"image": str(image), "text": str(text), "says": says}


def _taken(names: Sequence[str], row: pd.Series) -> str:
    return f"{_name(names, int(row['label']))}, taken for {_name(names, int(row['predicted']))}"


def _name(names: Sequence[str], label: int) -> str:
    return names[label] if label < len(names) else f"class {label}"


def _class_names(record: Record) -> list[str]:
    """In label order, as prompts have them; empty for a dataset that is not known here."""
    manifest = _manifest(record)
    if manifest is None:
        return []
    named = zip(manifest.class_ids, manifest.class_names(record.protocol), strict=True)
    out = set(manifest.outside) if record.task.startswith("hierarchy") else set()
    return [name for class_id, name in named if class_id not in out]


def _manifest(record: Record) -> Manifest | None:
    from hierbench.data.manifests import load_manifest

    try:
        return load_manifest(record.dataset)
    except HierbenchError:
        return None
