import numpy as np
import pytest

from hierbench import metrics, registry
from hierbench.contracts import Fit
from hierbench.geometry import Lorentz, Sphere

OWNER = [0, 2, 1, 1, 3, 0, 2, 3, 3, 4]


@pytest.mark.parametrize("geometry", [Sphere(), Lorentz(0.7)], ids=lambda g: g.name)
def test_figures_are_the_metric_of_its_embeddings(retrieval, embed, geometry):
    dataset = retrieval(OWNER)
    task = registry.task("retrieval/coco")
    assert task.spec.fit is Fit.SQUEEZE
    requests = task.requests(dataset)
    assert requests == type(requests)(dataset.images.ids, dataset.captions)
    embeddings = embed(requests)
    scores = task.score(geometry, embeddings, dataset)
    expected = metrics.retrieval(geometry, embeddings.image_features, embeddings.text_features, OWNER)
    assert {name: estimate.value for name, estimate in scores.metrics.items()} == pytest.approx(expected)
    assert scores.n == 5
    captions, images = scores.items["captions"], scores.items["images"]
    assert np.mean(captions["rank"] <= 1) * 100 == pytest.approx(expected["t2i_r1"])
    assert np.mean(images["rank"] <= 5) * 100 == pytest.approx(expected["i2t_r5"])
    assert captions["image_id"][:3] == ["000.jpg", "002.jpg", "001.jpg"]
    assert images["captions"].tolist() == [2, 2, 2, 3, 1]


def test_captions_that_read_alike_are_embedded_once(retrieval, embed):
    dataset = retrieval(OWNER)
    dataset = type(dataset)(dataset.name, dataset.images, ("same",) * len(OWNER), dataset.owner)
    task = registry.task("retrieval/coco")
    requests = task.requests(dataset)
    assert requests.texts == ("same",)
    scores = task.score(Sphere(), embed(requests), dataset)
    assert scores.metrics["i2t_r10"].value == 100
    assert set(scores.degenerate) == set(scores.metrics)
    assert scores.degenerate["i2t_r1"] == "every caption has the same embedding: the order of ties decides"


def test_images_at_one_point_are_degenerate(retrieval, embed):
    dataset = retrieval(OWNER)
    task = registry.task("retrieval/coco")
    embeddings = embed(task.requests(dataset))
    assert task.score(Sphere(), embeddings, dataset).degenerate == {}
    embeddings.image_features[:] = embeddings.image_features[0]
    assert "every image" in task.score(Sphere(), embeddings, dataset).degenerate["t2i_r5"]
