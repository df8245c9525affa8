"""Fixtures shared by all tests: golden figures, tiny checkpoints in the released layout, the shared folder."""

import importlib.util
import itertools
import os
import signal
import sys
from pathlib import Path

import golden_models
import pytest
import torch

from hierbench import registry
from hierbench.data import manifests
from hierbench.models import families

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"

# The models of tests are tiny: handing their work to threads costs more than it saves. CI tries two as well.
torch.set_num_threads(int(os.environ.get("HIERBENCH_TEST_THREADS", "1")))

# Where tests run in the background of a script, Ctrl-C is ignored, and so it would be in all that they start.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items):
    reasons = {
        "gpu": None if torch.cuda.is_available() else "needs a CUDA device",
        "shared": None if (SHARED / "data").is_dir() else "needs the project's ../shared folder",
    }
    for item in items:
        for marker, reason in reasons.items():
            if reason and item.get_closest_marker(marker):
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session", autouse=True)
def caches(tmp_path_factory):
    """The folder of all tests' caches and their numbers: mktemp would read the whole temporary folder a test.

    What starts before a test has its own, fixtures of a module and the server that processes are forked off, has one.
    """
    folder = tmp_path_factory.mktemp("caches")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HIERBENCH_CACHE", str(folder / "shared"))
        yield folder, itertools.count()


@pytest.fixture(autouse=True)
def own_cache(caches, monkeypatch):
    """No test reads or writes the user's cache."""
    folder, numbers = caches
    cache = folder / str(next(numbers))
    cache.mkdir()
    monkeypatch.setenv("HIERBENCH_CACHE", str(cache))


@pytest.fixture(autouse=True)
def nothing_registered(monkeypatch):
    """What a test makes known, datasets, tasks and adapters of its own, is not known to the next."""
    for module, name in ((manifests, "_registered"), (registry, "_added"), (families, "_user_adapters")):
        monkeypatch.setattr(module, name, dict(getattr(module, name)))


@pytest.fixture(scope="session")
def layouts():
    """The module data/layouts.py, small sources in the datasets' true layouts: `layouts.build("cub2011", folder)`, …"""
    name = "data_layouts"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, ROOT / "tests" / "data" / "layouts.py")
        sys.modules[name] = importlib.util.module_from_spec(spec)  # dataclasses look themselves up
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


@pytest.fixture(scope="session")
def recipe():
    """The module that makes golden inputs (weights, images, features) from a seed."""
    return golden_models.recipe()


@pytest.fixture(scope="session")
def golden():
    """golden("eval_7") -> the recorded JSON; golden("meru_tiny_7", arrays=True) -> its arrays."""
    return golden_models.figures


@pytest.fixture(scope="session")
def tiny_state():
    """tiny_state("hycoclip", seed=7) -> a state dict in the released layout with the recipe's weights."""
    return golden_models.tiny_state


@pytest.fixture(scope="session")
def tiny_checkpoint(tiny_state, tmp_path_factory):
    """tiny_checkpoint("hycoclip") -> path of a .pth file in the released layout; made once per session."""
    made = {}

    def path(kind, seed=7):
        if (kind, seed) not in made:
            file = tmp_path_factory.mktemp("checkpoints") / f"{kind}_tiny_{seed}.pth"
            torch.save({"model": tiny_state(kind, seed), "iteration": 1}, file)
            made[kind, seed] = file
        return made[kind, seed]

    return path


@pytest.fixture(scope="session")
def shared_data():
    """The folder of real photographs and captions; tests that use it carry the marker `shared`."""
    return SHARED / "data"
