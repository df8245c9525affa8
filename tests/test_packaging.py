"""The wheel: one top-level package, and every file of the checkout that the program reads."""

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MAPPED = ("tasks", "model_adapters", "data_manifests", "leaderboard")
DATA = {".yaml", ".tsv", ".json", ".j2", ".safetensors", ".typed"}
LICENCES = {"LICENSE", "WORDNET-LICENSE"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Names of the files in a wheel that is built from a copy of the checkout, without the network."""
    setuptools = pytest.importorskip("setuptools", reason="building a wheel offline needs setuptools here")
    if int(setuptools.__version__.split(".")[0]) < 77:
        pytest.skip(f"setuptools {setuptools.__version__} is older than pyproject.toml asks for (77)")
    copy, out = tmp_path_factory.mktemp("checkout") / "hierbench", tmp_path_factory.mktemp("wheel")
    ignore = shutil.ignore_patterns(
        ".git", "build", "*.egg-info", "__pycache__", "tests", "runs", ".*cache", ".venv*"
    )
    shutil.copytree(ROOT, copy, ignore=ignore)
    if not (copy / "README.md").exists():
        (copy / "README.md").write_text("hierbench\n")
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index"]
    built = subprocess.run([*command, "-w", out, copy], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr[-2000:]
    (file,) = out.glob("*.whl")
    return zipfile.ZipFile(file).namelist()


def test_there_is_one_top_level_package(wheel):
    tops = {name.split("/")[0] for name in wheel}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"hierbench"}


def test_every_module_and_data_file_is_inside(wheel):
    inside = set(wheel)
    wanted = {
        str(path.relative_to(ROOT) if folder == "hierbench" else Path("hierbench") / path.relative_to(ROOT))
        for folder in ("hierbench", *MAPPED)
        for path in (ROOT / folder).rglob("*")
        if path.suffix in DATA | {".py"} or path.name in LICENCES
        if "__pycache__" not in path.parts and not path.name.startswith(".")
        if not any(
            path.is_relative_to(ROOT / "leaderboard" / figures) for figures in ("results", "reproductions")
        )
    }
    assert len(wanted) > 50
    assert sorted(wanted - inside) == []


def test_submitted_results_are_not_inside(wheel):
    figures = ("hierbench/leaderboard/results", "hierbench/leaderboard/reproductions")
    assert [name for name in wheel if name.startswith(figures)] == []


def test_licences_and_the_command_are_inside(wheel):
    info = next(name for name in wheel if name.endswith("/entry_points.txt"))
    assert any(name.endswith("/LICENSE") for name in wheel)
    assert info


def test_tests_are_not_inside(wheel):
    assert [
        name
        for name in wheel
        if re.search(r"(^|/)(tests?/|(test_|conftest)[^/]*\.py$|[^/]*_test\.py$)", name)
    ] == []
