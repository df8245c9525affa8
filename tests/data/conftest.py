"""Small sources in the datasets' true layouts, for all tests of this folder."""

import importlib.util
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def layouts():
    """The module layouts.py beside this file: `layouts.build("cub2011", folder)`, `layouts.write_wds(…)`, …"""
    name = "data_layouts"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name("layouts.py"))
        sys.modules[name] = importlib.util.module_from_spec(spec)  # dataclasses look themselves up
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]
