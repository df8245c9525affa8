"""Session.embed: every content once, in any way of preparing it, checked, kept as far as it came."""

import hashlib
import os
import shutil
import signal
import time
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest
import torch

from hierbench.contracts import EmbeddingRequests, Fit
from hierbench.data.datasets import ImageFiles
from hierbench.engine import encoding
from hierbench.engine.contents import content_id, content_ids
from hierbench.engine.encoding import Job
from hierbench.engine.session import Session
from hierbench.engine.store import EmbeddingStore, MemoryStore
from hierbench.errors import DataError, EncodingError

TEXTS = ("a boat", "", "tea", "a tea", "boats at sea")


def embed(adapter, dataset, requests, fit, **settings):
    return Session(adapter, **settings).embed(dataset, requests, fit)


@pytest.fixture
def things(fakes, images):
    return fakes.dataset(images)


def direct(fakes, things, ids, fit=Fit.CROP):
    """Features image by image, without the engine."""
    from hierbench.data.images import decode

    adapter = fakes.Adapter()
    pixels = [adapter.preprocess(decode(things.images.read(i), i), fit) for i in ids]
    return torch.cat([adapter.encode_images(p[None]) for p in pixels])


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("batch_size", [1, 3, 64])
@pytest.mark.parametrize("fit", list(Fit))
def test_features_are_the_adapters(fakes, things, workers, batch_size, fit):
    ids = things.images.ids[:7]
    adapter = fakes.Adapter()
    requests = EmbeddingRequests(ids, TEXTS)
    got = embed(adapter, things, requests, fit, workers=workers, batch_size=batch_size)
    assert torch.allclose(got.images(ids), direct(fakes, things, ids, fit), atol=1e-6)
    assert torch.equal(got.texts(TEXTS), fakes.Adapter().encode_texts(list(TEXTS)))
    assert adapter.batches == [min(batch_size, 7 - start) for start in range(0, 7, batch_size)]
    assert got.image_features.dtype == torch.float32
    (got.image_features + 1).requires_grad_()  # an ordinary tensor, outside inference mode too


def test_texts_arrive_sorted_in_chunks(fakes, things, monkeypatch):
    monkeypatch.setattr(encoding, "TEXTS_AT_ONCE", 3)
    adapter = fakes.Adapter()
    embed(adapter, things, EmbeddingRequests((), TEXTS), Fit.CROP)
    assert adapter.texts == sorted(TEXTS)


def test_each_content_is_encoded_once(fakes, tmp_path):
    for name, color in (("a", "red"), ("b", "blue"), ("c", "red")):
        (tmp_path / name).write_bytes(fakes.png(color))
    images = ImageFiles(tmp_path, ("a", "b", "c"))
    adapter = fakes.Adapter()
    got = embed(adapter, fakes.dataset(images), EmbeddingRequests(("a", "b", "c", "a"), ("x", "x")), Fit.CROP)
    assert adapter.images == 2
    assert adapter.texts == ["x"]
    assert torch.equal(got.image_features[0], got.image_features[2])
    assert torch.equal(got.image_features[0], got.image_features[3])
    assert not torch.equal(got.image_features[0], got.image_features[1])


@pytest.mark.parametrize("make", [lambda: EmbeddingStore(), MemoryStore])
def test_what_is_stored_is_not_encoded_again(fakes, things, make):
    store, ids = make(), things.images.ids
    first = embed(fakes.Adapter(), things, EmbeddingRequests(ids[:12], TEXTS[:2]), Fit.CROP, store=store)
    adapter = fakes.Adapter()
    second = embed(adapter, things, EmbeddingRequests(ids, TEXTS), Fit.CROP, store=store)
    assert (adapter.images, sorted(adapter.texts)) == (8, sorted(TEXTS[2:]))
    assert torch.equal(second.images(ids[:12]), first.image_features)
    third = fakes.Adapter()
    assert torch.equal(
        embed(third, things, EmbeddingRequests(ids, TEXTS), Fit.CROP, store=store).image_features,
        second.image_features,
    )
    assert (third.images, third.texts) == (0, [])
    squeezed = fakes.Adapter()
    embed(squeezed, things, EmbeddingRequests(ids, TEXTS), Fit.SQUEEZE, store=store)
    assert (squeezed.images, squeezed.texts) == (20, [])  # strings have no fit


def test_without_a_hash_nothing_goes_to_disk(fakes, things, tmp_path):
    store = EmbeddingStore(tmp_path / "embeddings")
    embed(fakes.Adapter(sha256=None), things, EmbeddingRequests(things.images.ids, ()), Fit.CROP, store=store)
    assert not store.folder.exists()


@pytest.mark.parametrize("workers", [0, 2])
def test_a_corrupt_image_is_named_and_the_rest_kept(fakes, things, workers):
    (things.images.folder / "0010.png").write_bytes(b"no image at all")
    store, adapter = EmbeddingStore(), fakes.Adapter()
    requests = EmbeddingRequests(things.images.ids, ())
    with pytest.raises(DataError, match=r"0010\.png of things is not a readable") as caught:
        embed(adapter, things, requests, Fit.CROP, store=store, batch_size=4, workers=workers)
    assert "\n" not in str(caught.value)
    fakes.write_images(things.images.folder, 20)  # mended
    again = fakes.Adapter()
    embed(again, things, requests, Fit.CROP, store=store, batch_size=4, workers=workers)
    assert again.images == 20 - 8


def test_an_empty_file_is_named(fakes, things):
    (things.images.folder / "0003.png").write_bytes(b"")
    with pytest.raises(DataError, match=r"0003\.png is empty"):
        embed(fakes.Adapter(), things, EmbeddingRequests(things.images.ids, ()), Fit.CROP)


@pytest.mark.parametrize("workers", [0, 2])
def test_an_adapter_that_cannot_preprocess_is_named(fakes, things, workers):
    adapter = fakes.Adapter()
    adapter.preprocess = lambda image, fit: [][0]
    with pytest.raises(
        EncodingError, match=r"fake: image 0000\.png cannot be preprocessed: IndexError"
    ) as caught:
        embed(
            adapter, things, EmbeddingRequests(things.images.ids, ()), Fit.CROP, batch_size=8, workers=workers
        )
    assert "Traceback" in caught.value.__notes__[0]


def test_an_encoder_that_fails_is_named(fakes, things):
    adapter = fakes.Adapter()
    adapter.encode_images = adapter.encode_texts = lambda batch: 1 / 0
    for requests, what in (((things.images.ids, ()), "images"), (((), TEXTS), "texts")):
        said = f"{adapter.card.name}: encode_{what} failed: ZeroDivisionError: division by zero"
        with pytest.raises(EncodingError, match=said):
            embed(adapter, things, EmbeddingRequests(*requests), Fit.CROP)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_embeddings_that_are_not_finite_are_named(fakes, things, value):
    def poisoned(encode, where):
        def encoded(batch):
            features = encode(batch)
            features[where, 2] = value
            return features

        return encoded

    adapter = fakes.Adapter()
    adapter.encode_images = poisoned(adapter.encode_images, 1)
    with pytest.raises(EncodingError, match=r"the embedding of image '0001\.png' holds NaN or infinite"):
        embed(adapter, things, EmbeddingRequests(things.images.ids, ()), Fit.CROP)
    adapter = fakes.Adapter()
    adapter.encode_texts = poisoned(adapter.encode_texts, slice(1, None))
    with pytest.raises(EncodingError, match="the embedding of text 'a boat' holds"):
        embed(adapter, things, EmbeddingRequests((), TEXTS), Fit.CROP)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda n: torch.zeros(n, 5), r"returned \(20, 5\) for 20 images, the card promises \(20, 6\)"),
        (lambda n: torch.zeros(n - 1, 6), r"returned \(19, 6\) for 20 images"),
        (lambda n: torch.zeros(6), r"returned \(6,\)"),
        (lambda n: [0.0] * n, "returned list for 20 images"),
        (lambda n: None, "returned NoneType"),
        (lambda n: np.zeros((n, 6)), "returned ndarray"),
    ],
)
def test_features_of_another_shape_are_refused(fakes, things, wrong, said):
    adapter = fakes.Adapter()
    adapter.encode_images = lambda pixels: wrong(len(pixels))
    with pytest.raises(EncodingError, match=said):
        embed(adapter, things, EmbeddingRequests(things.images.ids, ()), Fit.CROP, batch_size=20)


def test_half_precision_features_come_back_as_float32(fakes, things):
    adapter = fakes.Adapter()
    adapter.encode_texts = lambda texts: torch.full((len(texts), 6), 1.5, dtype=torch.bfloat16)
    got = embed(adapter, things, EmbeddingRequests((), TEXTS), Fit.CROP)
    assert got.text_features.dtype == torch.float32


def test_the_first_of_two_errors_is_told(fakes, things):
    """The batch before a corrupt image is checked, although the model is one batch ahead."""
    (things.images.folder / "0008.png").write_bytes(b"no image")
    adapter = fakes.Adapter()
    adapter.encode_images = lambda pixels: torch.full((len(pixels), 6), torch.nan)
    with pytest.raises(EncodingError, match=r"image '0000\.png'"):
        embed(adapter, things, EmbeddingRequests(things.images.ids, ()), Fit.CROP, batch_size=8)


def test_running_out_of_memory_says_what_to_do(fakes, things):
    adapter = fakes.Adapter()

    def encode(pixels):
        raise torch.OutOfMemoryError("CUDA out of memory")

    adapter.encode_images = encode
    with pytest.raises(EncodingError, match="out of memory at 12 images a batch: use --batch-size 6"):
        embed(adapter, things, EmbeddingRequests(things.images.ids, ()), Fit.CROP, batch_size=12)


def test_a_store_that_cannot_be_written_does_not_stop_the_work(fakes, things, tmp_path, caplog):
    (tmp_path / "file").write_text("in the way")
    adapter, store = fakes.Adapter(), EmbeddingStore(tmp_path / "file")
    got = embed(adapter, things, EmbeddingRequests(things.images.ids, TEXTS), Fit.CROP, store=store)
    assert len(got.image_features) == 20
    assert "embeddings are not kept" in caplog.text


def test_the_global_generator_is_left_alone(fakes, things):
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    requests = EmbeddingRequests(things.images.ids, TEXTS)
    embed(fakes.Adapter(), things, requests, Fit.CROP, batch_size=4, workers=2)
    assert torch.equal(torch.rand(2), expected)


def test_little_shared_memory_means_fewer_workers(fakes, monkeypatch, caplog):
    usage = namedtuple("usage", "total used free")
    batch = 4 * 3 * fakes.SIZE**2 * 4
    job = Job(Fit.CROP, tuple(tuple((str(i), b"") for i in range(4)) for _ in range(9)), ())
    for free, expected in ((100 * batch, 5), (9 * batch, 2), (0, 0)):
        monkeypatch.setattr(shutil, "disk_usage", lambda _, free=free: usage(0, 0, free))
        assert encoding._workers(fakes.Adapter().card, job, "cpu", 5) == expected
    assert "--shm-size" in caplog.text
    assert encoding._workers(fakes.Adapter().card, Job(Fit.CROP, job.images[:1], ()), "cpu", 5) == 0


def test_content_ids_are_sha256_and_read_once(fakes, things):
    known = {}
    ids = content_ids(things, ["0003.png", "0001.png", "0003.png"], known)
    digest = hashlib.sha256((things.images.folder / "0003.png").read_bytes()).digest()
    assert ids == [digest, content_id((things.images.folder / "0001.png").read_bytes()), digest]
    (things.images.folder / "0003.png").unlink()
    assert content_ids(things, ["0003.png"], known) == [digest]
    with pytest.raises(DataError, match="0003"):
        content_ids(things, ["0003.png"], {})


def test_jobs_are_shared_out_by_whole_batches():
    job = Job(Fit.CROP, tuple(((str(i), b""),) for i in range(5)), (("x",), ("y",)))
    parts = [job.part(number, 3) for number in range(3)]
    assert [[batch[0][0] for batch in part.images] for part in parts] == [["0", "3"], ["1", "4"], ["2"]]
    assert [part.texts for part in parts] == [(("x",),), (("y",),), ()]


STUCK = """
sys.path.insert(0, here)
import time
from pathlib import Path
import fakes
from hierbench.engine import encoding
from hierbench.contracts import EmbeddingRequests, Fit
from hierbench.data.datasets import ImageFiles
from hierbench.engine.session import Session
from hierbench.engine.store import EmbeddingStore
class Stuck(fakes.Adapter):
    def encode_images(self, pixels):
        if self.images == 8:
            time.sleep(600)
        return super().encode_images(pixels)
encoding.FLUSH_SECONDS = 0
images = ImageFiles(Path(folder), tuple(sorted(p.name for p in Path(folder).glob("*.png"))))
session = Session(Stuck(), EmbeddingStore(store), batch_size=2, workers=workers)
session.embed(fakes.dataset(images), EmbeddingRequests(images.ids, ()), Fit.CROP)
"""


@pytest.mark.parametrize(("ending", "workers"), [(signal.SIGKILL, 2), (signal.SIGINT, 0)])
def test_a_killed_run_loses_only_the_shard_in_progress(fakes, images, tmp_path, process, ending, workers):
    store = EmbeddingStore(tmp_path / "embeddings")
    here, log = str(Path(fakes.__file__).parent), tmp_path / "log"
    running = process(
        STUCK, log, here=here, folder=str(images.folder), store=str(store.folder), workers=workers
    )
    while len(list(store.folder.glob("*/*.arrow"))) < 3:
        assert running.is_alive(), log.read_text()
        time.sleep(0.02)
    os.killpg(running.pid, ending)
    running.join(60)
    assert running.exitcode not in (0, None)
    [stats] = store.stats()
    assert 6 <= stats.rows < 20
    adapter = fakes.Adapter()
    requests = EmbeddingRequests(images.ids, ())
    got = embed(adapter, fakes.dataset(images), requests, Fit.CROP, store=store, batch_size=2)
    assert adapter.images == 20 - stats.rows
    assert torch.allclose(got.image_features, direct(fakes, fakes.dataset(images), images.ids), atol=1e-6)


def test_progress_counts_everything(fakes, things):
    class Counting:
        def __init__(self):
            self.seen = {}

        def bar(self, title, total):
            from contextlib import contextmanager

            @contextmanager
            def bar():
                done = []
                yield done.append
                self.seen[title] = (total, sum(done))

            return bar()

    progress = Counting()
    requests = EmbeddingRequests(things.images.ids, TEXTS)
    embed(fakes.Adapter(), things, requests, Fit.CROP, progress=progress, batch_size=7)
    assert progress.seen == {
        "things: reading images": (20, 20),
        "fake: images": (20, 20),
        "fake: texts": (5, 5),
    }


@pytest.mark.gpu
def test_pixels_arrive_on_the_gpu(fakes, things):
    adapter, cpu = fakes.Adapter(), fakes.Adapter()
    adapter.device = torch.device("cuda:0")
    places = set()
    encode = adapter.encode_images
    adapter.encode_images = lambda pixels: (places.add(pixels.device), encode(pixels))[1]
    requests = EmbeddingRequests(things.images.ids, TEXTS)
    got = embed(adapter, things, requests, Fit.CROP, batch_size=4, workers=2)
    assert places == {adapter.device}
    expected = embed(cpu, things, requests, Fit.CROP)
    assert torch.allclose(got.image_features, expected.image_features, atol=1e-6)
    assert got.image_features.device.type == "cpu"
