"""Counting a dataset before it is kept: how many there are, and in words what differs from the manifest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from hierbench.data.datasets import AnyDataset, Classification, MultiLabel, Retrieval
from hierbench.data.manifests import Manifest
from hierbench.data.prepared import PreparedCounts
from hierbench.data.readers._files import first_few
from hierbench.data.readers._labels import OTHER_SPLIT
from hierbench.errors import DataError


def check(manifest: Manifest, record: AnyDataset) -> tuple[PreparedCounts, list[str]]:
    """Counts of a dataset, and in words what differs from the manifest's.

    Raises DataError for what no subset of the dataset can be: no images, an id twice, a label outside the classes.
    """
    ids = record.images.ids
    where = f"dataset {manifest.name}"
    if not len(ids):
        raise DataError(f"{where}: the source holds no images of this split")
    if len(set(ids)) < len(ids):
        twice = next(image_id for image_id, count in Counter(ids).items() if count > 1)
        raise DataError(f"{where}: the image id {twice!r} stands there twice: remove one")
    captions = samples = per_class = None
    if isinstance(record, Classification):
        labels = np.asarray(record.labels)
        if len(labels) != len(ids):
            raise DataError(f"{where}: {len(labels)} labels for {len(ids)} images")
        outside = np.flatnonzero((labels < 0) | (labels >= len(record.class_ids)))
        if len(outside):
            first = int(outside[0])
            raise DataError(
                f"{where}: the label {int(labels[first])} of image {ids[first]} is outside 0 … "
                f"{len(record.class_ids) - 1}: is this another dataset?"
            )
        totals = np.bincount(labels, minlength=len(record.class_ids)).tolist()
        per_class = dict(zip(record.class_ids, totals, strict=True))
    elif isinstance(record, MultiLabel):
        per_class = dict(zip(record.class_ids, record.present.sum(0).tolist(), strict=True))
    elif isinstance(record, Retrieval):
        captions = len(record.captions)
    else:
        samples = len(record.sample_ids)
    counts = PreparedCounts(images=len(ids), captions=captions, samples=samples, per_class=per_class)
    return counts, _differences(manifest, counts)


def _differences(manifest: Manifest, counts: PreparedCounts) -> list[str]:
    expected, found = manifest.counts, []
    for what in ("images", "captions", "samples"):
        wanted, have = getattr(expected, what), getattr(counts, what)
        if wanted is not None and have is not None and wanted != have:
            found.append(f"{have:,} {what} instead of {wanted:,}")
    wanted = expected.per_class
    if isinstance(wanted, int):
        wanted = dict.fromkeys(counts.per_class or (), wanted)
    have = counts.per_class or {}
    off = [class_id for class_id in have if wanted and have[class_id] != wanted.get(class_id)]
    empty = [class_id for class_id, count in have.items() if not count]
    if off:
        told = [f"{class_id} {have[class_id]} instead of {wanted[class_id]}" for class_id in off]
        found.append(f"{_classes(off)} {'differs' if len(off) == 1 else 'differ'}: {first_few(told)}")
    elif empty and not wanted and "zero-shot" in manifest.tasks:
        found.append(f"{_classes(empty)} without images: {first_few(empty)}")
    return found


def _classes(class_ids: Sequence[str]) -> str:
    return f"{len(class_ids):,} {'class' if len(class_ids) == 1 else 'classes'}"


def variant_of(manifest: Manifest, counts: PreparedCounts, differences: Sequence[str]) -> str:
    """What sets a dataset with other counts apart from the released split, in the name of the protocol.

    Fewer images make no variant, here as for a folder in use where it lies; results then say how many there were.
    """
    fewer = manifest.counts.images is None or counts.images < manifest.counts.images
    return "" if fewer or not differences else OTHER_SPLIT
