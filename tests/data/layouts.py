"""Builds small sources of every dataset in its true layout: real file names, real annotation formats, a dozen images.

`build(name, folder)` writes one and returns what a reader must find in it. A few generic layouts (ImageFolder, Hugging
Face parquet, WebDataset, TFDS) are written from any list of `Sample`s by the functions `write_*`.
"""

from __future__ import annotations

import io
import json
import pickle
import struct
import tarfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
from PIL import Image


@dataclass(frozen=True)
class Sample:
    """One image of the split: its id as the reader gives it, its bytes, and its class ids or captions."""

    id: str
    content: bytes | None  # None where the reader makes a PNG of a raw array
    label: str = ""
    labels: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    captions: tuple[str, ...] = ()
    pixels: np.ndarray | None = None  # (H, W, 3) uint8 of a raw array


@dataclass(frozen=True)
class Source:
    """What was written: the folder to give to the reader, and the split in the reader's order."""

    dataset: str  # name of the manifest
    folder: Path
    samples: tuple[Sample, ...]
    variant: str = ""
    extra: dict[str, object] = field(default_factory=dict)

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(sample.id for sample in self.samples)

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(sample.label for sample in self.samples)


@cache
def jpeg(seed: int, size: tuple[int, int] = (24, 16)) -> bytes:
    """A small JPEG of its own colours."""
    return _encoded(seed, size, "JPEG")


@cache
def png(seed: int, size: tuple[int, int] = (24, 16)) -> bytes:
    """A small PNG of its own colours."""
    return _encoded(seed, size, "PNG")


def pixels(seed: int, side: int) -> np.ndarray:
    """(side, side, 3) uint8, not symmetric in any way."""
    return np.random.default_rng(seed).integers(0, 256, (side, side, 3), dtype=np.uint8)


def _encoded(seed: int, size: tuple[int, int], kind: str) -> bytes:
    buffer = io.BytesIO()
    small = np.random.default_rng(seed).integers(0, 256, (2, 3, 3), dtype=np.uint8)
    Image.fromarray(small).resize(size).save(buffer, kind)
    return buffer.getvalue()


def put(path: Path, content: bytes | str) -> Path:
    """Write a file and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def lines(items: Sequence[str]) -> str:
    return "".join(f"{item}\n" for item in items)


# ------------------------------------------------------------------------------------------------ raw arrays

CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
STL10 = ("airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship", "truck")


def _raw(batch: str, class_ids: Sequence[str], side: int) -> tuple[Sample, ...]:
    return tuple(
        Sample(f"{batch}/{row:05d}", None, class_id, pixels=pixels(row, side))
        for row, class_id in enumerate(class_ids)
    )


def _planes(samples: Sequence[Sample]) -> np.ndarray:
    """(n, 3 * side * side): the red plane row by row, then green, then blue."""
    return np.stack([sample.pixels.transpose(2, 0, 1).ravel() for sample in samples])


def cifar10(folder: Path, names: Sequence[str] = CIFAR10) -> Source:
    """`cifar-10-batches-py/`, written as Python 2 wrote it: protocol 2, byte strings as keys."""
    samples = _raw("test_batch", [CIFAR10[k] for k in (3, 8, 8, 0, 6, 6, 1, 6, 3, 1, 0, 9)], 32)
    batch = {
        b"batch_label": b"testing batch 1 of 1",
        b"labels": [list(names).index(s.label) for s in samples],
        b"data": _planes(samples),
        b"filenames": [b"x_s_%06d.png" % i for i in range(len(samples))],
    }
    root = folder / "cifar-10-batches-py"
    put(root / "test_batch", pickle.dumps(batch, protocol=2))
    meta = {b"num_cases_per_batch": 10000, b"label_names": [n.encode() for n in names], b"num_vis": 3072}
    put(root / "batches.meta", pickle.dumps(meta, protocol=2))
    return Source("cifar10", folder, samples)


def cifar10_binary(folder: Path, names: Sequence[str] = CIFAR10) -> Source:
    """`cifar-10-batches-bin/`: one byte of label and 3,072 of pixels an image."""
    samples = _raw("test_batch", [CIFAR10[k] for k in (3, 8, 8, 0, 6, 6, 1, 6, 3, 1, 0, 9)], 32)
    root = folder / "cifar-10-batches-bin"
    rows = [
        bytes([list(names).index(s.label)]) + row.tobytes()
        for s, row in zip(samples, _planes(samples), strict=True)
    ]
    put(root / "test_batch.bin", b"".join(rows))
    put(root / "batches.meta.txt", lines([*names, ""]))
    return Source("cifar10", folder, samples)


CIFAR100_SOME = ("mountain", "forest", "seal", "mushroom", "maple_tree", "pickup_truck", "apple", "worm")


def _cifar100(folder: Path, class_ids: Sequence[str]) -> tuple[tuple[Sample, ...], list[int], list[int]]:
    samples = _raw("test", CIFAR100_SOME, 32)
    fine = [list(class_ids).index(s.label) for s in samples]
    return samples, fine, [label % 20 for label in fine]


def cifar100(folder: Path, class_ids: Sequence[str]) -> Source:
    """`cifar-100-python/`; `class_ids` are the 100 fine names in the order of the meta file."""
    samples, fine, coarse = _cifar100(folder, class_ids)
    root = folder / "cifar-100-python"
    batch = {
        b"fine_labels": fine,
        b"coarse_labels": coarse,
        b"data": _planes(samples),
        b"batch_label": b"test",
    }
    put(root / "test", pickle.dumps(batch, protocol=2))
    meta = {
        b"fine_label_names": [n.encode() for n in class_ids],
        b"coarse_label_names": [b"group%d" % i for i in range(20)],
    }
    put(root / "meta", pickle.dumps(meta, protocol=2))
    return Source("cifar100", folder, samples)


def cifar100_binary(folder: Path, class_ids: Sequence[str]) -> Source:
    """`cifar-100-binary/`: coarse label, fine label, pixels."""
    samples, fine, coarse = _cifar100(folder, class_ids)
    root = folder / "cifar-100-binary"
    rows = [bytes([c, f]) + row.tobytes() for c, f, row in zip(coarse, fine, _planes(samples), strict=True)]
    put(root / "test.bin", b"".join(rows))
    put(root / "fine_label_names.txt", lines(class_ids))
    put(root / "coarse_label_names.txt", lines([f"group{i}" for i in range(20)]))
    return Source("cifar100", folder, samples)


def stl10(folder: Path, names: Sequence[str] = STL10) -> Source:
    """`stl10_binary/`: planes stored column by column, labels from 1."""
    samples = _raw("test_X", [STL10[k] for k in (6, 7, 1, 1, 4, 0, 9, 2)], 96)
    root = folder / "stl10_binary"
    put(root / "test_X.bin", np.stack([s.pixels.transpose(2, 1, 0) for s in samples]).tobytes())
    put(root / "test_y.bin", bytes(list(names).index(s.label) + 1 for s in samples))
    put(root / "class_names.txt", lines(names))
    return Source("stl10", folder, samples)


# ------------------------------------------------------------------------------------------------ image files


def _files(root: Path, ids: Sequence[str], label: Callable[[str], str], seed: int = 0) -> tuple[Sample, ...]:
    samples = tuple(Sample(i, jpeg(seed + k), label(i)) for k, i in enumerate(ids))
    for sample in samples:
        put(root / sample.id, sample.content)
    return samples


def _above(image_id: str) -> str:
    return image_id.rpartition("/")[0]


def imagenet(folder: Path) -> Source:
    """`val/` with a folder a class."""
    ids = [
        "n01440764/ILSVRC2012_val_00000293.JPEG",
        "n01440764/ILSVRC2012_val_00002138.JPEG",
        "n02085620/ILSVRC2012_val_00000636.JPEG",
        "n04008634/ILSVRC2012_val_00000071.JPEG",
    ]
    return Source("imagenet", folder, _files(folder / "val", ids, _above))


IMAGENET_FLAT = {1: "n04008634", 2: "n01440764", 5: "n02085620"}  # number of the image -> its class


def _imagenet_flat(root: Path) -> tuple[Sample, ...]:
    ids = {f"ILSVRC2012_val_{number:08d}.JPEG": wnid for number, wnid in IMAGENET_FLAT.items()}
    return _files(root, tuple(ids), ids.__getitem__)


def imagenet_kit(folder: Path) -> Source:
    """What `ILSVRC2012_img_val.tar` and `ILSVRC2012_devkit_t12.tar.gz` unpack to; inner nodes come last."""
    from scipy.io import savemat

    samples = _imagenet_flat(folder)
    numbers = {"n02085620": 1, "n04008634": 2, "n01440764": 3, "n00001740": 1001}
    synsets = np.empty((len(numbers), 1), [("ILSVRC2012_ID", object), ("WNID", object), ("words", object)])
    for row, (wnid, number) in enumerate(numbers.items()):
        synsets[row, 0] = (number, wnid, f"words of {wnid}")
    root = folder / "ILSVRC2012_devkit_t12" / "data"
    truth = [numbers[IMAGENET_FLAT.get(k, "n02085620")] for k in range(1, 7)]
    put(root / "ILSVRC2012_validation_ground_truth.txt", lines(map(str, truth)))
    savemat(root / "meta.mat", {"synsets": synsets})
    return Source("imagenet", folder, samples)


def imagenet_kaggle(folder: Path) -> Source:
    """Kaggle's folder: the images deep below, the table of boxes at the top."""
    samples = _imagenet_flat(folder / "ILSVRC" / "Data" / "CLS-LOC" / "val")
    _files(folder / "ILSVRC" / "Data" / "CLS-LOC" / "train", ["n02085620/n02085620_1.JPEG"], _above, 50)
    rows = [
        f"{s.id.removesuffix('.JPEG')},{s.label} 85 1 499 272 {s.label} 2 3 4 5 " for s in reversed(samples)
    ]
    put(folder / "LOC_val_solution.csv", lines(["ImageId,PredictionString", *rows]))
    return Source("imagenet", folder, samples)


def food101(folder: Path) -> Source:
    """`food-101/`: the test list leaves out the extension; the confused pair of classes is there."""
    root = folder / "food-101"
    ids = ["apple_pie/1011328.jpg", "apple_pie/101251.jpg", "cheese_plate/1030289.jpg", "cheesecake/1001436.jpg",
           "waffles/1043252.jpg"]  # fmt: skip
    samples = _files(root / "images", ids, _above)
    _files(
        root / "images", ["apple_pie/1005649.jpg", "waffles/1006104.jpg"], _above, 50
    )  # of the training split
    put(root / "meta" / "test.txt", "\n".join(i.removesuffix(".jpg") for i in ids))
    put(root / "meta" / "train.txt", "apple_pie/1005649\nwaffles/1006104\n")
    put(root / "meta" / "classes.txt", lines(["apple_pie", "cheesecake", "cheese_plate", "waffles"]))
    return Source("food101", folder, samples)


def cub2011(folder: Path, order: Sequence[int] = (1, 2, 3)) -> Source:
    """`CUB_200_2011/`; `order` are the numbers that the source gives to its three classes."""
    root = folder / "CUB_200_2011"
    names = ("001.Black_footed_Albatross", "002.Laysan_Albatross", "003.Sooty_Albatross")
    number = dict(zip(names, order, strict=True))
    listed = [
        ("001.Black_footed_Albatross/Black_Footed_Albatross_0046_18.jpg", 0),
        ("001.Black_footed_Albatross/Black_Footed_Albatross_0009_34.jpg", 1),
        ("002.Laysan_Albatross/Laysan_Albatross_0002_1027.jpg", 0),
        ("002.Laysan_Albatross/Laysan_Albatross_0001_545.jpg", 1),
        ("003.Sooty_Albatross/Sooty_Albatross_0048_1130.jpg", 0),
        ("003.Sooty_Albatross/Sooty_Albatross_0040_796375.jpg", 0),
    ]
    everything = _files(root / "images", [i for i, _ in listed], _above)
    put(root / "images.txt", lines([f"{k} {i}" for k, (i, _) in enumerate(listed, 1)]))
    put(root / "train_test_split.txt", lines([f"{k} {train}" for k, (_, train) in enumerate(listed, 1)]))
    put(
        root / "image_class_labels.txt",
        lines([f"{k} {number[_above(i)]}" for k, (i, _) in enumerate(listed, 1)]),
    )
    put(
        root / "classes.txt", lines([f"{k} {n}" for n, k in sorted(number.items(), key=lambda item: item[1])])
    )
    return Source(
        "cub2011", folder, tuple(s for s, (_, train) in zip(everything, listed, strict=True) if not train)
    )


CARS_SOME = (
    "AM General Hummer SUV 2000",
    "Acura RL Sedan 2012",
    "Audi TTS Coupe 2012",
    "Volvo XC90 SUV 2007",
)


def cars(folder: Path, names: Sequence[str]) -> Source:
    """`cars_test/`, `devkit/cars_meta.mat`, `cars_test_annos_withlabels.mat`; `names` in the order of the meta file."""
    from scipy.io import savemat

    files = ("00001.jpg", "00002.jpg", "00003.jpg", "00004.jpg", "00005.jpg")
    truth = dict(zip(files, (CARS_SOME[k] for k in (3, 0, 1, 2, 0)), strict=True))
    samples = _files(folder / "cars_test", files, truth.__getitem__)
    kinds = [(name, object) for name in ("bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2", "class", "fname")]
    annotations = np.empty((1, len(files)), dtype=kinds)
    for column, name in enumerate(files):
        annotations[0, column] = (30, 52, 246, 147, list(names).index(truth[name]) + 1, name)
    savemat(folder / "cars_test_annos_withlabels.mat", {"annotations": annotations})
    cells = np.empty((1, len(names)), dtype=object)
    cells[0, :] = names
    (folder / "devkit").mkdir()
    savemat(folder / "devkit" / "cars_meta.mat", {"class_names": cells})
    return Source("cars", folder, samples)


def aircraft(folder: Path) -> Source:
    """`fgvc-aircraft-2013b/data/`: variants with slashes and spaces in their names."""
    root = folder / "fgvc-aircraft-2013b" / "data"
    truth = {
        "1514522.jpg": "707-320",
        "0747566.jpg": "707-320",
        "2032000.jpg": "F-16A/B",
        "1850254.jpg": "Eurofighter Typhoon",
        "0481847.jpg": "Yak-42",
    }
    samples = _files(root / "images", tuple(truth), truth.__getitem__)
    _files(root / "images", ["1025794.jpg"], lambda i: "707-320", 50)
    put(root / "images_variant_test.txt", lines([f"{i.removesuffix('.jpg')} {v}" for i, v in truth.items()]))
    put(root / "images_variant_train.txt", "1025794 707-320\n")
    put(root / "variants.txt", lines(sorted(set(truth.values()))))
    return Source("aircraft", folder, samples)


def pets(folder: Path, order: Sequence[int] = (1, 2, 37)) -> Source:
    """`annotations/test.txt` and `images/`; `order` are the numbers that the source gives to its three breeds."""
    number = dict(zip(("Abyssinian", "american_bulldog", "yorkshire_terrier"), order, strict=True))
    ids = ("Abyssinian_201.jpg", "Abyssinian_202.jpg", "american_bulldog_203.jpg", "yorkshire_terrier_99.jpg",
           "yorkshire_terrier_100.jpg")  # fmt: skip

    def breed(image_id: str) -> str:
        return image_id.rpartition("_")[0]

    samples = _files(folder / "images", ids, breed)
    _files(folder / "images", ["Abyssinian_100.jpg"], breed, 50)
    rows = [f"{i.removesuffix('.jpg')} {number[breed(i)]} {1 if i[0].isupper() else 2} 1" for i in ids]
    put(folder / "annotations" / "test.txt", lines(rows))
    put(folder / "annotations" / "trainval.txt", "Abyssinian_100 1 1 1\n")
    return Source("pets", folder, samples)


def flowers102(folder: Path) -> Source:
    """`imagelabels.mat` with a label for every image, `setid.mat`, `jpg/`."""
    from scipy.io import savemat

    labels = np.array([[77, 77, 1, 102, 5, 5, 1, 33]], np.uint8)
    ids = tuple(f"image_{k:05d}.jpg" for k in range(1, 9))
    everything = _files(folder / "jpg", ids, lambda i: str(labels[0, int(i[6:11]) - 1]))
    savemat(folder / "imagelabels.mat", {"labels": labels})
    test = [1, 3, 4, 6, 8]
    savemat(
        folder / "setid.mat",
        {"trnid": np.array([[2]]), "valid": np.array([[5, 7]]), "tstid": np.array([test], np.uint16)},
    )
    return Source("flowers102", folder, tuple(everything[k - 1] for k in test))


def dtd(folder: Path) -> Source:
    """`dtd/labels/test1.txt` and `dtd/images/`."""
    root = folder / "dtd"
    ids = (
        "banded/banded_0002.jpg",
        "banded/banded_0006.jpg",
        "blotchy/blotchy_0003.jpg",
        "zigzagged/zigzagged_0001.jpg",
    )
    samples = _files(root / "images", ids, _above)
    _files(root / "images", ["banded/banded_0004.jpg"], _above, 50)
    put(root / "labels" / "test1.txt", lines(ids))
    put(root / "labels" / "train1.txt", "banded/banded_0004.jpg\n")
    put(root / "imdb" / "imdb.mat", b"")
    return Source("dtd", folder, samples)


def caltech101(folder: Path) -> Source:
    """`101_ObjectCategories/`: per class the first images, without those drawn for training."""
    root = folder / "101_ObjectCategories"
    classes = ("BACKGROUND_Google", "Faces", "Faces_easy", "accordion", "yin_yang")
    ids = [f"{name}/image_{k:04d}.jpg" for name in classes for k in range(1, 13)]
    everything = _files(root, ids, _above)
    put(root / "BACKGROUND_Google" / "tmp", b"not an image")
    test = set(ids) - set(CALTECH_TRAINING)
    return Source("caltech101", folder, tuple(s for s in everything if s.id in test), "sorted-split")


CALTECH_TRAINING = (
    "BACKGROUND_Google/image_0008.jpg", "Faces/image_0005.jpg", "accordion/image_0003.jpg",
    "accordion/image_0005.jpg", "accordion/image_0006.jpg", "accordion/image_0008.jpg", "accordion/image_0009.jpg",
    "accordion/image_0010.jpg", "accordion/image_0011.jpg", "yin_yang/image_0004.jpg", "yin_yang/image_0005.jpg",
    "yin_yang/image_0006.jpg", "yin_yang/image_0007.jpg", "yin_yang/image_0010.jpg", "yin_yang/image_0011.jpg",
    "yin_yang/image_0012.jpg",
)  # fmt: skip
"""Those of `caltech101`'s images that numpy draws for training where TFDS' rule meets sorted folders."""


def eurosat(folder: Path) -> Source:
    """`2750/`, as EuroSAT.zip unpacks. Test and training images of `train[10000:15000]` by TFDS' own hashing module."""
    test = ("AnnualCrop/AnnualCrop_4.jpg", "AnnualCrop/AnnualCrop_9.jpg", "Forest/Forest_4.jpg",
            "HerbaceousVegetation/HerbaceousVegetation_3.jpg", "Industrial/Industrial_1.jpg", "Pasture/Pasture_6.jpg",
            "SeaLake/SeaLake_11.jpg")  # fmt: skip
    other = ("AnnualCrop/AnnualCrop_1.jpg", "AnnualCrop/AnnualCrop_10.jpg", "Forest/Forest_1.jpg",
             "Industrial/Industrial_2.jpg", "SeaLake/SeaLake_1.jpg")  # fmt: skip
    samples = _files(folder / "2750", test, _above)
    _files(folder / "2750", other, _above, 50)
    return Source("eurosat", folder, samples)


def resisc45(folder: Path) -> Source:
    """`NWPU-RESISC45/`. Images of `train[20%:]` and outside it, by TFDS' own hashing module."""
    test = ("airplane/airplane_001.jpg", "airplane/airplane_002.jpg", "airport/airport_001.jpg",
            "baseball_diamond/baseball_diamond_002.jpg", "ship/ship_343.jpg", "snowberg/snowberg_162.jpg",
            "thermal_power_station/thermal_power_station_188.jpg")  # fmt: skip
    other = ("airplane/airplane_009.jpg", "airport/airport_005.jpg", "baseball_diamond/baseball_diamond_001.jpg",
             "dense_residential/dense_residential_068.jpg", "palace/palace_207.jpg")  # fmt: skip
    samples = _files(folder / "NWPU-RESISC45", test, _above)
    _files(folder / "NWPU-RESISC45", other, _above, 50)
    return Source("resisc45", folder, samples)


SUN397_LISTED = ("a/abbey/sun_aalltzgxbismofdm.jpg", "a/abbey/sun_abmdkcsiorqshcqg.jpg",
                 "j/jail/indoor/sun_aaddtwdtklktubgk.jpg", "j/jail_cell/sun_aamzeyxmgqoycimg.jpg")  # fmt: skip
SUN397_OTHER = ("a/abbey/sun_aaaulhwrhqgejnyt.jpg", "a/abbey/sun_aacphuqehdodwawg.jpg",
                "j/jail/indoor/sun_aaizavcszbpmkeii.jpg", "j/jail_cell/sun_ahbotezscwgvybkn.jpg")  # fmt: skip
"""Images that TFDS' list of 21,750 has, and such as it has not."""


def sun397(folder: Path) -> Source:
    """`SUN397/` and `Partitions/Testing_01.txt`, whose lines begin with a slash."""
    ids = (*SUN397_LISTED[:3], SUN397_OTHER[0], SUN397_OTHER[3])
    everything = _files(folder / "SUN397", (*SUN397_LISTED, *SUN397_OTHER), _above)
    by_id = {sample.id: sample for sample in everything}
    put(folder / "SUN397" / "ClassName.txt", lines(["/a/abbey", "/j/jail/indoor", "/j/jail_cell"]))
    put(folder / "Partitions" / "Testing_01.txt", lines([f"/{i}" for i in ids]))
    put(folder / "Partitions" / "Testing_02.txt", lines([f"/{SUN397_OTHER[1]}"]))
    return Source("sun397", folder, tuple(by_id[i] for i in ids), "original-pixels")


def sun397_tfds(folder: Path) -> Source:
    """The same images without the partitions: TFDS' list decides."""
    samples = _files(folder / "SUN397", SUN397_LISTED, _above)
    _files(folder / "SUN397", SUN397_OTHER, _above, 50)
    return Source("sun397-tfds", folder, samples, "original-pixels")


def country211(folder: Path) -> Source:
    """`country211/test/` by ISO code, beside `train/`."""
    ids = ("AD/1234.jpg", "AD/2040.jpg", "DE/3.jpg", "ZW/991.jpg")
    samples = _files(folder / "country211" / "test", ids, _above)
    _files(folder / "country211" / "train", ["AD/5.jpg"], _above, 50)
    return Source("country211", folder, samples)


# ------------------------------------------------------------------------------------ captions and many labels


def _captioned(root: Path, captions: dict[str, tuple[str, ...]]) -> tuple[Sample, ...]:
    samples = tuple(Sample(i, jpeg(k), captions=c) for k, (i, c) in enumerate(captions.items()))
    for sample in samples:
        put(root / sample.id, sample.content)
    return samples


def coco(folder: Path) -> Source:
    """`annotations/captions_val2017.json` and `val2017/`."""
    samples = _captioned(folder / "val2017", {
        "000000000139.jpg": ("A woman stands in the dining area.", "A room with chairs, a table."),
        "000000000285.jpg": ("A big burly grizzly bear is shown.",),
        "000000000632.jpg": ("Bedroom scene with a bookcase.", "a bedroom with a window "),
    })  # fmt: skip
    images = [{"id": int(s.id[:12]), "file_name": s.id} for s in samples]
    captions = [(int(s.id[:12]), c) for s in samples for c in s.captions]
    annotations = [{"id": k, "image_id": i, "caption": c} for k, (i, c) in enumerate(captions)]
    put(
        folder / "annotations" / "captions_val2017.json",
        json.dumps({"images": images, "annotations": annotations}),
    )
    return Source("coco", folder, samples)


def _karpathy(folder: Path, dataset: str, table: str, samples: Sequence[Sample], other: Sample) -> Source:
    entries, sentence = [], 0
    for sample, split in [*((s, "test") for s in samples), (other, "train")]:
        sentences = [
            {"raw": c, "tokens": c.lower().split(), "sentid": sentence + k}
            for k, c in enumerate(sample.captions)
        ]
        sentence += len(sentences)
        entry = {"filename": sample.id, "split": split, "imgid": len(entries), "sentences": sentences,
                 "sentids": [s["sentid"] for s in sentences]}  # fmt: skip
        entries.append(entry | ({"filepath": "val2014"} if dataset == "coco-karpathy" else {}))
    put(folder / table, json.dumps({"images": entries, "dataset": dataset}))
    return Source(dataset, folder, tuple(samples))


def flickr30k(folder: Path) -> Source:
    """`dataset_flickr30k.json` and `flickr30k_images/`; one image is of the training split."""
    everything = _captioned(folder / "flickr30k_images", {
        "1007129816.jpg": ("The man with pierced ears is wearing glasses.", "A man with glasses."),
        "1009434119.jpg": ("A black and white dog is running in a grassy garden.", "A Boston terrier."),
        "1000092795.jpg": ("Two young guys with shaggy hair look at their hands.",),
    })  # fmt: skip
    return _karpathy(folder, "flickr30k", "dataset_flickr30k.json", everything[:2], everything[2])


def coco_karpathy(folder: Path) -> Source:
    """`dataset_coco.json` and `val2014/`."""
    everything = _captioned(folder / "val2014", {
        "COCO_val2014_000000391895.jpg": ("A man with a red helmet on a small moped.", "Man riding a motor bike."),
        "COCO_val2014_000000060623.jpg": ("A young girl inhales with the intent of blowing out a candle.",),
        "COCO_val2014_000000522418.jpg": ("A woman wearing a net on her head cutting a cake. ",),
    })  # fmt: skip
    return _karpathy(folder, "coco-karpathy", "dataset_coco.json", everything[:2], everything[2])


VOC_OBJECTS = {  # image -> (name, difficult) of its objects
    "000001": (("dog", 0), ("person", 0)),
    "000002": (("train", 0),),
    "000003": (("sofa", 0), ("chair", 1)),
    "000004": (("car", 0), ("car", 1), ("bus", 1), ("bus", 1)),
}


def voc2007(folder: Path) -> Source:
    """`VOCdevkit/VOC2007/`: a list, an XML file an image; an object has parts with names of their own."""
    root = folder / "VOCdevkit" / "VOC2007"
    samples = []
    for k, (image, objects) in enumerate(VOC_OBJECTS.items()):
        tree = ElementTree.Element("annotation")
        ElementTree.SubElement(tree, "filename").text = f"{image}.jpg"
        for name, difficult in objects:
            thing = ElementTree.SubElement(tree, "object")
            ElementTree.SubElement(thing, "name").text = name
            ElementTree.SubElement(thing, "difficult").text = str(difficult)
            ElementTree.SubElement(ElementTree.SubElement(thing, "part"), "name").text = "head"
        put(root / "Annotations" / f"{image}.xml", ElementTree.tostring(tree))
        easy = {name for name, difficult in objects if not difficult}
        hard = {name for name, _ in objects} - easy
        samples.append(
            Sample(f"{image}.jpg", jpeg(k), labels=tuple(sorted(easy)), ignored=tuple(sorted(hard)))
        )
        put(root / "JPEGImages" / f"{image}.jpg", samples[-1].content)
    put(root / "JPEGImages" / "000005.jpg", jpeg(50))
    put(root / "ImageSets" / "Main" / "test.txt", lines(VOC_OBJECTS))
    put(root / "ImageSets" / "Main" / "trainval.txt", "000005\n")
    return Source("voc2007", folder, tuple(samples))


def coco_objects(folder: Path) -> Source:
    """`annotations/instances_val2017.json` and `val2017/`; one image has no object."""
    truth = {
        "000000000139.jpg": ("1", "62"),
        "000000000285.jpg": ("23",),
        "000000000632.jpg": (),
        "000000000724.jpg": ("13", "90"),
    }
    names = {"1": "person", "13": "stop sign", "23": "bear", "62": "chair", "90": "toothbrush"}
    samples = tuple(Sample(i, jpeg(k), labels=c) for k, (i, c) in enumerate(truth.items()))
    for sample in samples:
        put(folder / "val2017" / sample.id, sample.content)
    objects = [(int(i[:12]), int(c)) for i, classes in truth.items() for c in (*classes, *classes[:1])]
    content = {
        "images": [{"id": int(i[:12]), "file_name": i} for i in truth],
        "annotations": [
            {"id": k, "image_id": i, "category_id": c, "iscrowd": 0} for k, (i, c) in enumerate(objects)
        ],
        "categories": [{"id": int(i), "name": n, "supercategory": "thing"} for i, n in names.items()],
    }
    put(folder / "annotations" / "instances_val2017.json", json.dumps(content))
    return Source("coco-objects", folder, samples)


def labelled(folder: Path, dataset: str = "simco") -> Source:
    """`labels.csv` (image, labels joined by semicolons) beside the folder of images as the hub has it."""
    truth = {
        "SimCo/cube_red_ball.png": ("cube", "red_ball"),
        "SimCo/cone_cone.png": ("cone",),
        "SimCo/cone_cube.png": ("cone", "cube"),
    }
    samples = tuple(Sample(i, png(k), labels=c) for k, (i, c) in enumerate(truth.items()))
    for sample in samples:
        put(folder / sample.id, sample.content)
    put(folder / "labels.csv", lines(["image,labels", *(f"{i},{';'.join(c)}" for i, c in truth.items())]))
    return Source(dataset, folder, samples)


# --------------------------------------------------------------------------------------------- generic layouts


def some(*class_ids: str, each: int = 2, suffix: str = ".jpg") -> tuple[Sample, ...]:
    """A few samples of the given classes, in turn."""
    return tuple(
        Sample(f"{class_id}/{turn}{suffix}", jpeg(turn * len(class_ids) + k), class_id)
        for turn in range(each)
        for k, class_id in enumerate(class_ids)
    )


def write_imagefolder(folder: Path, samples: Sequence[Sample], name: Callable[[str], str] = str) -> Path:
    """A folder a class; `name` turns class ids into folder names."""
    for sample in samples:
        put(folder / name(sample.label) / sample.id.rpartition("/")[2], sample.content)
    return folder


def write_hf_parquet(
    folder: Path, samples: Sequence[Sample], names: Sequence[str] = (), shards: int = 2, split: str = "test"
) -> Path:
    """`data/SPLIT-0000k-of-0000n.parquet`: image structs with a ClassLabel, or with lists of captions."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    features: dict[str, object] = {"image": {"_type": "Image"}}
    if names:
        features["label"] = {"names": list(names), "_type": "ClassLabel"}
    else:
        features["caption"] = {"feature": {"dtype": "string", "_type": "Value"}, "_type": "Sequence"}
    metadata = {b"huggingface": json.dumps({"info": {"features": features}}).encode()}
    image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    per_shard = -(-len(samples) // shards)
    for shard in range(shards):
        part = samples[shard * per_shard : (shard + 1) * per_shard]
        columns = {
            "image": pa.array([{"bytes": s.content, "path": f"{k}.jpg"} for k, s in enumerate(part)], image)
        }
        if names:
            columns["label"] = pa.array([list(names).index(s.label) for s in part], pa.int64())
        else:
            columns["caption"] = pa.array([list(s.captions) for s in part], pa.list_(pa.string()))
        table = pa.table(columns).replace_schema_metadata(metadata)
        path = folder / "data" / f"{split}-{shard:05d}-of-{shards:05d}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path, row_group_size=2)
    return folder


def write_wds(folder: Path, samples: Sequence[Sample], names: Sequence[str] = (), shards: int = 2) -> Path:
    """`test/K.tar` with `KEY.jpg` and `KEY.cls` or `KEY.txt`, and `classnames.txt`, as clip-benchmark writes them."""
    per_shard = -(-len(samples) // shards)
    (folder / "test").mkdir(parents=True, exist_ok=True)
    for shard in range(shards):
        with tarfile.open(folder / "test" / f"{shard}.tar", "w") as tar:
            for k, sample in enumerate(
                samples[shard * per_shard : (shard + 1) * per_shard], shard * per_shard
            ):
                text = str(list(names).index(sample.label)) if names else "\n".join(sample.captions)
                suffix = "png" if sample.content.startswith(b"\x89PNG") else "jpg"
                for kind, content in ((suffix, sample.content), ("cls" if names else "txt", text.encode())):
                    member = tarfile.TarInfo(f"s{k:07d}.{kind}")
                    member.size = len(content)
                    tar.addfile(member, io.BytesIO(content))
    put(folder / "test" / "nshards.txt", str(shards))
    if names:
        put(folder / "classnames.txt", "\n".join(names))
    else:
        put(folder / "dataset_type.txt", "retrieval")
    return folder


def write_tfds(
    folder: Path,
    name: str,
    samples: Sequence[Sample],
    names: Sequence[str],
    split: str = "test",
    shards: int = 2,
    file_name: str = "file_name",
) -> Path:
    """A folder as TFDS' `download_and_prepare` leaves it: TFRecord shards and their description."""
    folder.mkdir(parents=True, exist_ok=True)
    bounds = [round(len(samples) * k / shards) for k in range(shards + 1)]
    for shard in range(shards):
        records = [
            _example({
                "image": [s.content],
                "label": list(names).index(s.label),
                file_name: [s.id.rpartition("/")[2].encode()],
            })
            for s in samples[bounds[shard] : bounds[shard + 1]]
        ]  # fmt: skip
        put(folder / f"{name}-{split}.tfrecord-{shard:05d}-of-{shards:05d}", b"".join(map(tfrecord, records)))
    put(folder / "label.labels.txt", lines(names))
    lengths = [str(b - a) for a, b in pairwise(bounds)]
    info = {"name": name, "fileFormat": "tfrecord", "splits": [{"name": split, "shardLengths": lengths}]}
    put(folder / "dataset_info.json", json.dumps(info))
    put(folder / "features.json", json.dumps({"featuresDict": {"features": {"image": {}, "label": {}}}}))
    return folder


def tfrecord(record: bytes) -> bytes:
    """One framed record: length, its masked CRC-32C, content, its masked CRC-32C."""
    length = struct.pack("<Q", len(record))
    return length + _masked(length) + record + _masked(record)


def _masked(content: bytes) -> bytes:
    crc = 0xFFFFFFFF
    for byte in content:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def _varint(number: int) -> bytes:
    out = b""
    while number > 0x7F:
        out, number = out + bytes([number & 0x7F | 0x80]), number >> 7
    return out + bytes([number])


def _message(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _example(values: dict[str, list[bytes] | int]) -> bytes:
    """A tf.train.Example in protobuf's wire format; integers packed, as TensorFlow writes them."""
    entries = b""
    for key, value in sorted(values.items()):
        if isinstance(value, int):
            feature = _message(3, _message(1, _varint(value)))
        else:
            feature = _message(1, b"".join(_message(1, item) for item in value))
        entries += _message(1, _message(1, key.encode()) + _message(2, feature))
    return _message(1, entries)


# ------------------------------------------------------------------------------------------------ all of them


def build(name: str, folder: Path) -> Source:
    """The source `name` of `BUILDERS` under `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    return BUILDERS[name](folder)


def _with_all_classes(
    builder: Callable[[Path, Sequence[str]], Source], dataset: str
) -> Callable[[Path], Source]:
    def write(folder: Path) -> Source:
        from hierbench.data.manifests import load_manifest

        return builder(folder, load_manifest(dataset).class_ids)

    return write


BUILDERS: dict[str, Callable[[Path], Source]] = {
    "imagenet": imagenet,
    "imagenet-kit": imagenet_kit,
    "imagenet-kaggle": imagenet_kaggle,
    "cifar10": cifar10,
    "cifar10-binary": cifar10_binary,
    "cifar100": _with_all_classes(cifar100, "cifar100"),
    "cifar100-binary": _with_all_classes(cifar100_binary, "cifar100"),
    "stl10": stl10,
    "food101": food101,
    "cub2011": cub2011,
    "cars": _with_all_classes(cars, "cars"),
    "aircraft": aircraft,
    "pets": pets,
    "flowers102": flowers102,
    "dtd": dtd,
    "caltech101": caltech101,
    "eurosat": eurosat,
    "resisc45": resisc45,
    "sun397": sun397,
    "sun397-tfds": sun397_tfds,
    "country211": country211,
    "coco": coco,
    "flickr30k": flickr30k,
    "coco-karpathy": coco_karpathy,
    "voc2007": voc2007,
    "coco-objects": coco_objects,
    "simco": labelled,
    "comco": lambda folder: labelled(folder, "comco"),
}
"""Every official layout: name -> writer into an empty folder."""
