"""Names to things: every way to say what model is meant, other people's adapters, collisions, typing errors."""

import hashlib
import sys
from importlib import resources

import pytest

from hierbench import registry
from hierbench.errors import CheckpointError, UnknownNameError, UsageError
from hierbench.geometry import Lorentz, Sphere
from hierbench.models import checkpoints
from hierbench.models.catalog import read_catalog
from hierbench.models.families import add_adapter_file, families
from hierbench.models.reference import ModelReference, load_model

ADAPTER = '''"""One line about it."""
from hierbench.model_adapters.random import load as load_random


def load(checkpoint, *, name=None, device="cpu", dtype="float32"):
    return load_random("sphere", name=name or f"mine-{checkpoint}", device=device, dtype=dtype)
'''


@pytest.fixture
def adapter_file(tmp_path):
    """adapter_file(text, stem) -> path of an adapter file."""
    loaded = set(sys.modules)

    def write(text=ADAPTER, stem="mine"):
        path = tmp_path / f"{stem}.py"
        path.write_text(text)
        return path

    yield write
    for name in set(sys.modules) - loaded:
        del sys.modules[name]


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """plugin(entry points, modules) -> an installed distribution, as importlib.metadata sees one."""

    def install(points, **modules):
        folder = tmp_path / "site"
        info = folder / "some_plugin-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: some-plugin\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(points)
        for name, text in modules.items():
            (folder / f"{name}.py").write_text(text)
        monkeypatch.syspath_prepend(str(folder))
        registry.coded_tasks.cache_clear()

    yield install
    registry.coded_tasks.cache_clear()


# ------------------------------------------------------------------------------------------- what a model is called


def test_a_family_alone_with_a_checkpoint_and_in_one_string():
    assert load_model("random").geometry == Lorentz(1.0)
    assert load_model("random", "sphere").geometry == load_model("random:sphere").geometry == Sphere()
    assert load_model("random:sphere:4", name="row").card.name == "row"


def test_a_checkpoint_file_tells_its_family(tiny_checkpoint):
    for kind in ("clip", "uncha"):
        adapter = load_model(str(tiny_checkpoint(kind)))
        assert adapter.card.family == kind
        assert adapter.card.name == f"{kind}_tiny_7"
    with pytest.raises(CheckpointError, match="--family"):
        load_model(str(tiny_checkpoint("meru")))
    adapter = load_model("hycoclip", tiny_checkpoint("hycoclip"))
    assert (adapter.card.family, adapter.card.name) == ("hycoclip", "hycoclip_tiny_7")
    assert load_model(f"meru:{tiny_checkpoint('meru')}").card.family == "meru"


def test_a_catalog_name_is_fetched_and_names_the_row(tiny_checkpoint, monkeypatch):
    asked = []

    def checkpoint(entry, offline=False):
        asked.append((entry.name, offline))
        return tiny_checkpoint("hycoclip")

    monkeypatch.setattr(checkpoints, "checkpoint", checkpoint)
    assert load_model("hycoclip-vit-b").card.name == "hycoclip-vit-b"
    assert load_model("hycoclip-vit-b", offline=True, name="ours").card.name == "ours"
    assert asked == [("hycoclip-vit-b", False), ("hycoclip-vit-b", True)]


def test_runs_that_all_write_model_safetensors_are_called_after_their_folders(tmp_path, monkeypatch):
    for folder in ("argent", "meru"):
        (tmp_path / "runs" / folder).mkdir(parents=True)
        (tmp_path / "runs" / folder / "model.safetensors").touch()
    (tmp_path / "weights of mine.pth").touch()
    called = [
        ModelReference.of(("argent", tmp_path / "runs" / "argent" / "model.safetensors")),
        ModelReference.of(f"meru:{tmp_path}/runs/meru/model.safetensors"),
        ModelReference.of(tmp_path / "weights of mine.pth"),
        ModelReference.of(("hf_clip", tmp_path / "runs")),  # a transformers folder
        ModelReference.of((None, tmp_path / "runs" / "meru" / "model.safetensors", "chosen")),
    ]
    assert [model.name for model in called] == ["argent", "meru", "weights of mine", "runs", "chosen"]
    assert [model.family for model in called] == ["argent", "meru", None, "hf_clip", None]
    assert [model.chosen for model in called] == [False] * 4 + [True]
    monkeypatch.chdir(tmp_path / "runs" / "argent")
    assert ModelReference.of("model.safetensors").name == "argent"


def test_a_reference_knows_the_hash_of_one_file_without_loading_it(tmp_path):
    (tmp_path / "abc.pth").write_bytes(b"abc")
    known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # FIPS 180-2, appendix B.1
    assert ModelReference.of(("meru", tmp_path / "abc.pth")).sha256() == known
    assert ModelReference.of(("hf_clip", tmp_path)).sha256() is None
    assert ModelReference.of("random:sphere").sha256() is None
    bundled = resources.files("hierbench.reference") / "bundled" / "clip.safetensors"
    assert ModelReference.of("miniature-clip").sha256() == hashlib.sha256(bundled.read_bytes()).hexdigest()


@pytest.mark.parametrize("thing", [3, (), ("a", "b", "c", "d"), ("meru", 3), (None,), (None, None, "x")])
def test_what_is_no_model(thing):
    with pytest.raises(UsageError, match="is no model: give a name, a path"):
        ModelReference.of(thing)


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("hycoclip-vit-bb", UnknownNameError, "did you mean hycoclip-vit-b"),
        ("hycolip:tiny.pth", UnknownNameError, "did you mean hycoclip"),
        ("zzzzzz", UnknownNameError, "no model 'zzzzzz': known: "),
        ("not-there.pth", CheckpointError, r"no checkpoint file not-there\.pth"),
        ("tests", UnknownNameError, "is a folder: say what is in it, as FAMILY:tests"),
        ("", UnknownNameError, "no model ''"),
    ],
)
def test_names_that_mean_nothing(name, error, message, monkeypatch, pytestconfig):
    monkeypatch.chdir(pytestconfig.rootpath)
    with pytest.raises(error, match=message) as caught:
        load_model(name)
    assert "\n" not in str(caught.value)


def test_unknown_families_tasks_and_suites_offer_the_nearest():
    with pytest.raises(UnknownNameError, match=r"model family 'randon'.*did you mean random"):
        load_model("randon", "sphere")
    with pytest.raises(UnknownNameError, match=r"no task 'retrieval/cocoo': did you mean retrieval/coco"):
        registry.task("retrieval/cocoo")
    with pytest.raises(UnknownNameError, match=r"no suite 'argnt': did you mean argent"):
        registry.suite("argnt")


# ------------------------------------------------------------------------------------------------ users' own adapters


def test_a_users_file_becomes_a_family(adapter_file):
    path = adapter_file()
    assert add_adapter_file(path) == "mine"
    assert add_adapter_file(str(path)) == "mine"  # the same file again is no collision
    assert families()["mine"].summary == "One line about it."
    assert load_model("mine", "weights.pth").card.name == "mine-weights.pth"
    assert load_model("mine:weights.pth", name="row").card.name == "row"


@pytest.mark.parametrize("stem", ["random", "hycoclip-vit-b"], ids=["family", "catalog"])
def test_a_users_file_cannot_take_a_name_that_exists(adapter_file, stem):
    with pytest.raises(UsageError, match=f"two adapters claim the name '{stem}'.*rename one"):
        add_adapter_file(adapter_file(stem=stem))
    assert "hycoclip-vit-b" not in families()


@pytest.mark.parametrize(
    ("text", "stem", "message"),
    [
        ("def load(:", "mine", r"cannot be read as Python.*mine\.py, line 1"),
        ("import sys\nsys.exit(3)", "mine", "does not import: SystemExit: 3"),
        ("def load(checkpoint): pass", "mine", r"load\(\) failed: TypeError"),
        ("def load(checkpoint, **options): 1 / 0", "mine", r"load\(\) failed: ZeroDivisionError.*--debug"),
        (
            "def load(checkpoint, **options): pass",
            "mine",
            "returned NoneType, which is no model adapter.*card",
        ),
        (ADAPTER, "two words", "is no name for a model family"),
        ("import nothing_of_this_name", "mine", "does not import: ModuleNotFoundError"),
        ("1 / 0", "mine", "does not import: ZeroDivisionError"),
        ("x = 1", "mine", "has no function load"),
    ],
)
def test_a_users_file_that_is_no_adapter(adapter_file, text, stem, message):
    with pytest.raises(UsageError, match=message) as caught:
        load_model(add_adapter_file(adapter_file(text, stem)))
    assert "\n" not in str(caught.value)


def test_a_users_file_that_is_not_there(tmp_path):
    with pytest.raises(UsageError, match="no adapter file"):
        add_adapter_file(tmp_path / "none.py")


def test_entry_points_add_families_and_tasks(plugin):
    plugin(
        "[hierbench.model_adapters]\nplugged = plug_module\nfunction = plug_module:load\n"
        "[hierbench.tasks]\nplugged/task = plug_module:make\n",
        plug_module=ADAPTER + "\n\ndef make():\n    return 'a task'\n",
    )
    assert load_model("plugged:x").card.name == load_model("function:x").card.name == "mine-x"
    assert families()["function"].summary == "from plug_module:load"
    assert registry.task("plugged/task") == "a task"


def test_entry_points_cannot_take_names_that_exist(plugin):
    plugin(
        "[hierbench.model_adapters]\nrandom = plug_module\n[hierbench.tasks]\nretrieval/coco = plug_module:make\n",
        plug_module=ADAPTER + "\n\ndef make():\n    pass\n",
    )
    with pytest.raises(UsageError, match="two adapters claim the name 'random'"):
        families()
    with pytest.raises(UsageError, match="two tasks are called 'retrieval/coco'"):
        registry.task_factories()
    with pytest.raises(UsageError, match="two tasks are called 'retrieval/coco'"):
        registry.task("retrieval/flickr30k")


def test_a_broken_entry_point_is_one_line_and_only_when_used(plugin):
    plugin("[hierbench.model_adapters]\nbroken = nothing_of_this_name\n")
    assert "broken" in families()
    assert load_model("random")
    with pytest.raises(UsageError, match=r"adapter broken \(nothing_of_this_name\) does not import"):
        load_model("broken:x")


# ------------------------------------------------------------------------------------------------------- the catalog


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("{family: clip, url: 'http://x/y', colour: red}", r"model m: colour: .*[Uu]nexpected"),
        ("{url: 'http://x/y'}", "model m: family: "),
        ("{family: clip, url: 'http://x/y', size: large}", "model m: size: "),
        ("{family: clip}", "model m needs one of url, repo, reference and builtin"),
        ("{family: clip, url: 'http://x/y', repo: a/b}", "model m needs one of"),
    ],
)
def test_a_wrong_catalog_entry_is_one_line(fields, message):
    with pytest.raises(UsageError, match=message) as caught:
        read_catalog(f"m: {fields}")
    assert "\n" not in str(caught.value)
