"""The built-in models: one of each family, of one size; they are what their cards say, and have learned something."""

from importlib import resources
from pathlib import Path

import pytest
import yaml

import hierbench
from hierbench.models.catalog import list_models
from hierbench.reference.bundle import MAX_BYTES
from hierbench.reference.configuration import resolve

FAMILIES = ("clip", "meru", "hycoclip", "uncha", "argent", "phyclip")
WITH_PARTS = FAMILIES[2:]
FOLDER = Path(str(resources.files("hierbench"))) / "reference" / "bundled"


def card_of(family):
    return yaml.safe_load((FOLDER / f"{family}.yaml").read_text(encoding="utf-8"))


def test_there_is_one_of_each_family():
    bundled = {entry.family: entry.builtin for entry in list_models() if entry.builtin}
    assert bundled == {family: f"reference/bundled/{family}.safetensors" for family in FAMILIES}


@pytest.mark.parametrize("family", FAMILIES)
def test_the_card_tells_how_to_make_it_again(family):
    card = card_of(family)
    assert (FOLDER / f"{family}.safetensors").stat().st_size <= MAX_BYTES
    assert (card["family"], card["seed"]) == (family, 0)
    assert card["command"] == f"hierbench train miniature/{family}"
    assert resolve(card["config"]) == resolve(f"miniature/{family}")  # the packaged config is still that one


@pytest.mark.parametrize("family", FAMILIES)
def test_it_has_learned_captions_and_those_that_see_parts_kinds(family):
    """Kinds are named alone in phrases of parts only, which CLIP and MERU never see."""
    figures = card_of(family)["figures"]
    for direction in ("t2i", "i2t"):
        assert figures[f"retrieval/miniature {direction}_r1"] >= 60
    if family in WITH_PARTS:
        assert figures["zero-shot/miniature-things mean_per_class"] >= 50  # CLIP: 28, MERU: 19, a guess: 3


def test_all_were_trained_alike():
    trained = [card_of(family)["config"] for family in FAMILIES]
    assert all(config["train"] == trained[0]["train"] for config in trained)
    layout = ("layout", "pixel_mean", "pixel_std")
    sizes = [{k: v for k, v in config["model"].items() if k not in layout} for config in trained]
    assert all(size == sizes[0] for size in sizes)
    data = [{k: v for k, v in config["data"].items() if k != "boxes"} for config in trained]
    assert all(facts == data[0] for facts in data)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """The records of all six in one run: pictures are drawn and read once."""
    tasks = ["zero-shot/miniature-things", "retrieval/miniature"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HIERBENCH_CACHE", str(tmp_path_factory.mktemp("cache")))
        return hierbench.run([f"miniature-{family}" for family in FAMILIES], tasks=tasks, workers=0)


@pytest.mark.parametrize("family", FAMILIES)
def test_it_reaches_the_figures_of_its_card(measured, family):
    figures = card_of(family)["figures"]
    found = [record for record in measured if record.model == f"miniature-{family}"]
    assert len(found) == 2
    for record in found:
        for metric, estimate in record.metrics.items():  # platforms round differently: a few items may flip
            assert estimate.value == pytest.approx(figures[f"{record.task} {metric}"], abs=0.5)
