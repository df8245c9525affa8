"""The engine's tests develop against fakes: a tiny adapter, dataset and task."""

import importlib.util
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def fakes():
    """The module fakes.py beside this file."""
    spec = importlib.util.spec_from_file_location("engine_fakes", Path(__file__).with_name("fakes.py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def images(fakes, tmp_path):
    """20 small images as files."""
    return fakes.write_images(tmp_path / "images", 20)


@pytest.fixture
def opens(monkeypatch):
    """opens(things=dataset) -> the runner finds these datasets; an exception instead of one is raised."""
    from hierbench import run_setup

    def use(**datasets):
        def open_dataset(name, locations, *, protocol, prompts):
            found = datasets[name]
            if isinstance(found, Exception):
                raise found
            return found

        monkeypatch.setattr(run_setup, "open_dataset", open_dataset)

    return use
