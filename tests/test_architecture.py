"""What may know what (the arrows between the folders), held over the source tree without importing it."""

import ast
import functools
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MAPPED = ("tasks", "model_adapters", "data_manifests", "leaderboard")  # top-level folders inside the package
HEAVY = ("torch", "pandas", "pyarrow", "transformers", "open_clip", "timm", "torchvision", "sklearn", "scipy")


LONGEST_FUNCTION = 60  # lines, of options and help as of code

DRAWINGS = (
    "hierbench.miniature.shapes",
    "hierbench.miniature.backdrops",
)  # functions named after what they draw


def module_name(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts if parts[0] == "hierbench" else ("hierbench", *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def sources():
    """Every module's tree, read once and only where these tests run: each worker of pytest imports this file."""
    return {
        module_name(path): ast.parse(path.read_text(encoding="utf-8"))
        for folder in ("hierbench", *MAPPED)
        for path in sorted((ROOT / folder).rglob("*.py"))
    }


@functools.cache
def packages():
    """The modules that are packages, that is, an `__init__.py`."""
    return {
        module_name(path)
        for folder in ("hierbench", *MAPPED)
        for path in (ROOT / folder).rglob("__init__.py")
    }


def imports(name, tree):
    """Absolute names of everything a module imports anywhere, but for type checking."""
    found = set()
    pending = list(ast.iter_child_nodes(tree))
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = name if name in packages() else name.rpartition(".")[0]
                base = ".".join(
                    [*package.split(".")[: len(package.split(".")) - node.level + 1], base]
                ).rstrip(".")
            found |= {f"{base}.{alias.name}" for alias in node.names}
        pending += ast.iter_child_nodes(node)
    return found


@functools.cache
def all_imports():
    """What each module imports."""
    return {name: imports(name, tree) for name, tree in sources().items()}


def inside(name, *packages):
    return any(name == package or name.startswith(package + ".") for package in packages)


def offences(of, forbidden=(), allowed=None):
    """ "module imports what" for the modules in `of`; `allowed` is all they may import of hierbench."""
    return [
        f"{module} imports {target}"
        for module, targets in all_imports().items()
        if inside(module, *of)
        for target in sorted(targets)
        if inside(target, *forbidden)
        or (allowed is not None and inside(target, "hierbench") and not inside(target, *allowed))
    ]


def test_the_walk_sees_imports():
    assert "hierbench.errors.UsageError" in all_imports()["hierbench.registry"]
    assert (
        "hierbench.data.readers.open_dataset" in all_imports()["hierbench.acquire.verify"]
    )  # within a function
    assert "torch.Tensor" not in all_imports()["hierbench.contracts"]  # for type checking only


def test_the_engine_reaches_tasks_adapters_and_tables_only_through_the_registry():
    engine = [
        name for name in sources() if not inside(name, *(f"hierbench.{m}" for m in MAPPED), "hierbench.cli")
    ]
    mapped = [f"hierbench.{folder}" for folder in MAPPED]
    engine = [name for name in engine if name not in ("hierbench", "hierbench.__main__")]
    assert offences(engine, forbidden=[*mapped, *MAPPED, "hierbench.cli"]) == []


def test_only_the_command_line_imports_the_command_line():
    others = [
        name
        for name in sources()
        if not inside(name, "hierbench.cli", "hierbench.__main__") and name != "hierbench"
    ]
    assert offences(others, forbidden=["hierbench.cli"]) == []


@pytest.mark.parametrize("folder", ["tasks", "model_adapters", "leaderboard"])
def test_mapped_folders_do_not_import_each_other(folder):
    others = [f"hierbench.{other}" for other in MAPPED if other not in (folder, "data_manifests")]
    assert offences([f"hierbench.{folder}"], forbidden=others) == []


@pytest.mark.parametrize("package", ["geometry", "metrics"])
def test_geometry_and_metrics_are_pure_maths(package):
    allowed = ["contracts", "errors", "geometry", *(["metrics"] if package == "metrics" else [])]
    of = [f"hierbench.{package}"]
    assert offences(of, allowed=[f"hierbench.{name}" for name in allowed]) == []
    pure = {*sys.stdlib_module_names, "torch", "numpy", "scipy", "sklearn", "hierbench"}
    pure -= {"io", "os", "pathlib", "logging", "urllib", "socket", "subprocess", "tempfile", "shutil"}
    used = {
        target.split(".")[0]
        for module in sources()
        if inside(module, *of)
        for target in all_imports()[module]
    }
    assert used <= pure


def test_the_reference_models_know_no_evaluation():
    allowed = [
        "reference",
        "geometry",
        "contracts",
        "errors",
        "data",
        "miniature",
        "files",
        "json_files",
        "progress",
        "plugins",
        "pool",
        "yaml_files",
    ]
    assert offences(["hierbench.reference"], allowed=[f"hierbench.{name}" for name in allowed]) == []


@pytest.mark.parametrize(
    ("floor", "above"),
    [
        ("data", ["acquire", "models", "engine", "registry", "results", "cleaning", "analysis", "reference"]),
        ("acquire", ["models", "engine", "registry", "results", "cleaning", "analysis", "reference"]),
        ("models", ["engine", "registry", "results", "cleaning", "analysis"]),
        ("engine", ["cleaning", "analysis", "reproduce"]),
    ],
)
def test_each_floor_knows_only_those_below(floor, above):
    """data < acquire < models < engine < analysis and cleaning."""
    assert offences([f"hierbench.{floor}"], forbidden=[f"hierbench.{name}" for name in above]) == []


def test_everything_public_has_a_docstring():
    missing = [
        f"{module}.{node.name}"
        for module, tree in sources().items()
        if not inside(module, "hierbench.cli", *DRAWINGS)
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        if not node.name.startswith("_") and ast.get_docstring(node) is None
    ]
    assert missing == []


def test_functions_have_sixty_lines_at_most():
    long = [
        f"{module}.{node.name}: {node.end_lineno - node.lineno + 1}"
        for module, tree in sources().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno - node.lineno + 1 > LONGEST_FUNCTION
    ]
    assert long == []


def test_every_file_says_what_it_owns():
    assert [module for module, tree in sources().items() if not ast.get_docstring(tree)] == []


def python(code):
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout


def test_mapped_folders_refuse_their_bare_names():
    """Under a second name a module would register everything twice."""
    code = f"""
import json
said = {{}}
for name in {MAPPED}:
    try:
        __import__(name)
    except ImportError as error:
        said[name] = str(error)
print(json.dumps(said))
"""
    said = json.loads(python(code))
    assert {name: f"hierbench.{name}" in message for name, message in said.items()} == dict.fromkeys(
        MAPPED, True
    )


def test_the_command_line_starts_without_the_heavy_libraries():
    code = f"import sys, json, hierbench.cli; print(json.dumps([m for m in {HEAVY} if m in sys.modules]))"
    assert json.loads(python(code)) == []
