"""The package clip-benchmark reads what we export and agrees with us: two codes, one model, the same images.

Its code does the reading, the preprocessing (open_clip's transforms), the tokenising, the prompts and the metrics.
Where definitions differ: its mean per-class recall runs over the classes that occur, as our protocol `corrected`
(`released` also counts classes that are predicted); its mAP breaks ties by position, counts a class without a positive
as 0 and knows no ignored entries, so the data here has neither; its recalls are ours (text to image is its
"image_retrieval", image to text "text_retrieval", found when any caption is in the top k).
"""

import numpy as np
import open_clip
import pytest
import torch
from PIL import Image

from hierbench.acquire.export import export
from hierbench.contracts import Fit
from hierbench.data.datasets import Classification, ImageFiles, MultiLabel, Retrieval
from hierbench.engine.session import Session
from hierbench.models.reference import load_model
from hierbench.tasks import multilabel, retrieval, zero_shot

builder = pytest.importorskip("clip_benchmark.datasets.builder", reason="needs clip-benchmark (extra `test`)")
from clip_benchmark.metrics import zeroshot_classification, zeroshot_retrieval  # noqa: E402

NAMES = ("cat", "dog", "sports car", "tree", "house", "boat", "bird")
TEMPLATES = ("a photo of a {}.", "art of the {}.", "a {} in a video game.")
COUNT = 60


@pytest.fixture
def model(tiny_open_clip):
    """Our adapter and open_clip's own model, transforms by fit and tokenizer; weights with a spread of features."""
    name, file = tiny_open_clip
    torch.manual_seed(1)
    state = {key: value * 4 if value.ndim > 1 else value for key, value in torch.load(file).items()}
    torch.save(state, file)
    theirs, _, crop = open_clip.create_model_and_transforms(name, pretrained=str(file))
    squeeze = open_clip.image_transform(32, is_train=False, resize_mode="squash", interpolation="bicubic")
    transforms = {Fit.CROP: crop, Fit.SQUEEZE: squeeze}
    return load_model("open_clip", f"{name}@{file}"), theirs.eval(), transforms, open_clip.get_tokenizer(name)


@pytest.fixture
def images(tmp_path):
    """Blotches of colour, wide and high, as JPEG and PNG."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "images"
    folder.mkdir()
    ids = tuple(f"{number:03d}.{'jpg' if number % 2 else 'png'}" for number in range(COUNT))
    for name in ids:
        coarse = Image.fromarray(rng.integers(0, 256, (5, 6, 3), np.uint8))
        coarse.resize(tuple(rng.integers(40, 90, 2).tolist()), Image.Resampling.BICUBIC).save(folder / name)
    return ImageFiles(folder, ids)


def theirs(dataset, folder, transform, task):
    """The dataset as clip-benchmark reads our export, and the batches that its command line makes of it."""
    assert export(dataset, "wds", folder) == COUNT
    found = builder.build_dataset("wds/ours", root=str(folder), transform=transform, split="test", task=task)
    return found, torch.utils.data.DataLoader(found.batched(16), batch_size=None, num_workers=0)


def ours(task, adapter, dataset):
    requests = task.requests(dataset)
    embeddings = Session(adapter, workers=0).embed(dataset, requests, task.spec.fit)
    return task.score(adapter.geometry, embeddings, dataset)


def test_zero_shot_accuracy(model, images, tmp_path, monkeypatch):
    monkeypatch.setattr(zeroshot_classification, "accuracy", top_k)
    adapter, clip, transforms, tokenizer = model
    task = zero_shot.ZeroShot("zero-shot/shapes", "shapes", "Shapes", protocol="corrected")
    rng = np.random.default_rng(1)
    dataset = Classification("shapes", images, rng.integers(0, 7, COUNT), NAMES, NAMES, TEMPLATES)
    predicted = ours(task, adapter, dataset).items["images"]["predicted"]
    assert len(set(predicted.tolist())) > 2  # the model tells images apart
    labels = np.where(rng.random(COUNT) < 0.6, predicted, dataset.labels)  # some are right, others not
    dataset = Classification("shapes", images, labels, NAMES, NAMES, TEMPLATES)
    scores = ours(task, adapter, dataset).metrics
    found, loader = theirs(dataset, tmp_path / "wds", transforms[Fit.CROP], "zeroshot_classification")
    assert tuple(found.classes) == NAMES
    figures = zeroshot_classification.evaluate(
        clip, loader_of(found, loader), tokenizer, found.classes, found.templates, "cpu", amp=False
    )
    assert 0.3 < figures["acc1"] < 1
    assert scores["top1"].value / 100 == pytest.approx(figures["acc1"], abs=1e-3)
    assert scores["mean_per_class"].value / 100 == pytest.approx(figures["mean_per_class_recall"], abs=1e-3)


def test_recalls(model, images, tmp_path):
    adapter, clip, transforms, tokenizer = model
    rng = np.random.default_rng(2)
    owner = np.sort(np.concatenate([np.arange(COUNT), rng.integers(0, COUNT, 70)]))
    words = ["red", "green", "blue", "small", "old", "new", "tree", "house", "day", "night", *NAMES]
    captions = tuple(" ".join(rng.choice(words, 5)) for _ in owner)
    dataset = Retrieval("pairs", images, captions, owner)
    scores = ours(retrieval.Retrieval("retrieval/pairs", "pairs", "Pairs"), adapter, dataset).metrics
    _, loader = theirs(dataset, tmp_path / "wds", transforms[Fit.SQUEEZE], "zeroshot_retrieval")
    figures = zeroshot_retrieval.evaluate(clip, loader, tokenizer, "cpu", amp=False, recall_k_list=[1, 5, 10])
    for k in (1, 5, 10):
        assert scores[f"t2i_r{k}"].value / 100 == pytest.approx(
            figures[f"image_retrieval_recall@{k}"], abs=1e-3
        )
        assert scores[f"i2t_r{k}"].value / 100 == pytest.approx(
            figures[f"text_retrieval_recall@{k}"], abs=1e-3
        )
    assert 0 < figures["image_retrieval_recall@10"] < 1


def test_mean_average_precision(model, images, tmp_path):
    adapter, clip, transforms, tokenizer = model
    present = np.random.default_rng(3).random((COUNT, 7)) < 0.3
    dataset = MultiLabel("scenes", images, present, NAMES, NAMES, TEMPLATES)
    scores = ours(multilabel.MultiLabel("multilabel/scenes", "scenes", "Scenes"), adapter, dataset).metrics
    found, loader = theirs(dataset, tmp_path / "wds", transforms[Fit.SQUEEZE], "zeroshot_classification")
    figures = zeroshot_classification.evaluate(
        clip, loader_of(found, loader), tokenizer, found.classes, found.templates, "cpu", amp=False
    )
    assert scores["map"].value / 100 == pytest.approx(figures["mean_average_precision"], abs=1e-3)


def top_k(output, target, topk):
    """As clip-benchmark's function, whose last step (a float of an array of one) numpy 2.4 and later refuse."""
    return [(output.topk(k).indices == target[:, None]).any(1).double().mean().item() for k in topk]


def loader_of(found, loader):
    """clip-benchmark asks its loader's dataset for the classes; webdataset's `batched` hides them."""
    loader.dataset.classes = found.classes
    return loader
