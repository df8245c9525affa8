"""The engine's tests develop against fakes: a tiny adapter, dataset and task."""

import importlib.util
import os
import sys
from pathlib import Path

import pytest
from processes import forkserver


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
    from hierbench.engine import setup

    def use(**datasets):
        def open_dataset(name, locations, *, protocol, prompts):
            found = datasets[name]
            if isinstance(found, Exception):
                raise found
            return found

        monkeypatch.setattr(setup, "open_dataset", open_dataset)

    return use


@pytest.fixture(scope="session")
def process():
    """process(code, log, env={}, **names) -> a started process of its own session that runs the code.

    Processes are forked from a server that has imported the engine already: importing torch takes seconds.
    """
    context = forkserver()

    def begin(code, log, env=None, **names):
        start = "import os, sys; os.setsid(); os.environ.update(env)"
        code = f"{start}; sys.stdout = sys.stderr = open(log, 'w', buffering=1)\n{code}"
        names |= {"__name__": "tests", "log": str(log), "env": {**os.environ, **(env or {})}}
        started = context.Process(target=exec, args=(code, names))  # a builtin: nothing to import
        started.start()
        return started

    return begin
