"""Datasets, trees, captions, tasks of a user's own: what a manifest or a file in a temporary folder gives."""

import csv
import json

import pytest
from PIL import Image

import hierbench
from hierbench import registry, taxonomy
from hierbench.data.manifests import register_manifest
from hierbench.errors import DataError, UsageError

MANIFEST = """
title: My animals
reader: imagefolder
tasks: [zero-shot, hierarchy]
fit: squeeze
taxonomy: trees/mine.tsv
templates: ["a photo of a {}."]
classes: {poodle: poodle, beagle: beagle, cat: cat}
"""
TREE = "animal\tdog\nanimal\tcat\ndog\tpoodle\ndog\tbeagle\n"


@pytest.fixture
def mine(tmp_path):
    """A folder with mine.yaml, its tree and two images of each class."""
    (tmp_path / "mine.yaml").write_text(MANIFEST)
    (tmp_path / "trees").mkdir()
    (tmp_path / "trees" / "mine.tsv").write_text(TREE)
    for place, name in enumerate(("poodle", "beagle", "cat")):
        (tmp_path / "images" / name).mkdir(parents=True)
        for shade in (60, 220):
            colour = tuple(shade if channel == place else 0 for channel in range(3))
            Image.new("RGB", (8, 8), colour).save(tmp_path / "images" / name / f"{shade}.png")
    return tmp_path


def test_one_manifest_with_a_class_tree_gives_tasks_that_run_to_a_table(mine, capfd, monkeypatch):
    from hierbench.cli import main

    monkeypatch.chdir(mine)
    words = [
        "run",
        "random",
        "--manifest",
        "mine.yaml",
        "--data",
        "mine=images",
        "--workers",
        "0",
        "--out",
        "out",
    ]
    with pytest.raises(SystemExit) as stop:
        main([*words, "--task", "zero-shot/mine", "--task", "hierarchy/mine"])
    assert stop.value.code == 0
    assert "random" in capfd.readouterr().out
    zero_shot, hierarchy = (
        json.loads((mine / f"out/results/random/{task}__mine.json").read_text())
        for task in ("zero-shot", "hierarchy")
    )
    assert zero_shot["n"] == hierarchy["n"] == 6
    assert zero_shot["notes"] == []
    # the longest way between two of these classes is poodle - dog - animal - cat
    assert 0 <= hierarchy["metrics"]["tie"]["value"] <= 3


FORMS = {
    "tree.tsv": "animal\tdog\tdog\nanimal\tcats\tfeline\ncats\tcat\ndog\tpoodle\ndog\tbeagle\n",
    "tree.yaml": "animal: {dog: [poodle, beagle], feline: cat}\n",
    "tree.csv": "class,kind\npoodle,dog\nbeagle,dog\ncat,feline\n",
    "{animal: {dog: [poodle, beagle], feline: [cat]}}": None,
}


@pytest.mark.parametrize("tree", FORMS)
def test_a_tree_in_each_form_is_asked_at_its_levels(mine, monkeypatch, tree):
    """The four forms say the same, so they give the same figures; a record says which tree it was."""
    monkeypatch.chdir(mine)
    if FORMS[tree]:
        (mine / tree).write_text("# source: my garden\n# licence: CC0\n" + FORMS[tree])
    text = MANIFEST.replace("trees/mine.tsv", tree).replace("[zero-shot, hierarchy]", "[zero-shot, levels]")
    (mine / "mine.yaml").write_text(text)
    records = hierbench.run(
        "random", ["zero-shot/mine", "levels/mine"], manifest=mine / "mine.yaml", data={"mine": mine / "images"},
        out=mine / "out", workers=0, cache=False,
    )  # fmt: skip
    top1, levels = (record.metrics for record in records)
    assert levels["leaf"].value == top1["top1"].value
    level = "kind" if tree.endswith(".csv") else "1"
    assert set(levels) == {
        f"accuracy_{level}", f"gain_{level}", "leaf", "hca", "por", "strict_por", "tor", "consistency", "gain", "mta",
    }  # fmt: skip
    assert levels["gain"].value == levels[f"gain_{level}"].value
    if FORMS[tree]:
        assert records[1].provenance["taxonomy_source"] == "my garden; CC0"


@pytest.mark.parametrize("asked", ["zero-shot/stl10", "zero-shot/imagenet", "zero-shot/nonesuch"])
def test_a_task_cannot_have_the_name_of_another(mine, asked):
    """Nor is any other task found meanwhile: one of the two would stand for both."""
    (mine / "mine.yaml").write_text(MANIFEST + "task_name: stl10\n")
    registry.register(manifests=[mine / "mine.yaml"])
    with pytest.raises(UsageError, match=r"two tasks are called '(zero-shot|hierarchy|levels)/stl10'"):
        registry.task(asked)


def test_titles_come_from_the_manifest(mine):
    register_manifest(mine / "mine.yaml")
    assert registry.task("zero-shot/mine").spec.title == "My animals zero-shot"
    assert registry.task("hierarchy/mine").spec.title == "My animals hierarchy"
    assert "zero-shot/mine" not in registry.suite("all")["tasks"]


def test_a_suite_takes_what_has_its_tag(mine):
    (mine / "mine.yaml").write_text(MANIFEST + "tags: [real]\n")
    before = registry.suite("all")["tasks"]
    register_manifest(mine / "mine.yaml")
    assert set(registry.suite("all")["tasks"]) - set(before) == {"zero-shot/mine", "hierarchy/mine"}


def test_a_tree_beside_its_manifest(mine, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path.parent)
    manifest = register_manifest(mine / "mine.yaml")
    tree = taxonomy.load(manifest.taxonomy, manifest.class_ids)
    assert tree.root == "animal"
    assert tree.distance.tolist() == [[0, 2, 3], [2, 0, 3], [3, 3, 0]]  # counted on paper


@pytest.mark.parametrize(
    ("tree", "reason"),
    [
        ("a\tb\nb\ta\na\tpoodle\na\tbeagle\na\tcat\n", "is its own ancestor"),
        (TREE + "plant\ttree\n", r"2 roots \(animal, plant\) make no tree"),
        (TREE.replace("dog\tbeagle\n", ""), "class beagle is not a node"),
        (TREE + "animal\tpoodle\n", "poodle has more than one parent"),
        (TREE + "animal poodle\n", "line 5: it must hold parent and child"),
        (TREE + "\tpoodle\n", "line 5: it must hold parent and child"),
        ("", "it holds no edges"),
        (b"\xff\xfe", "not UTF-8"),
        (None, "No such file"),
    ],
)
def test_bad_trees_give_one_line(mine, tree, reason):
    file = mine / "trees" / "mine.tsv"
    file.unlink()
    if tree is not None:
        file.write_bytes(tree if isinstance(tree, bytes) else tree.encode())
    with pytest.raises(DataError, match=reason) as caught:
        register_manifest(mine / "mine.yaml")
    assert "\n" not in str(caught.value)
    assert "mine.tsv" in str(caught.value)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("taxonomy: trees/mine.tsv\n", ""), "hierarchy needs a tree"),
        (("[zero-shot, hierarchy]", "[retrieval]"), "retrieval does not apply to the reader imagefolder"),
        (("[zero-shot, hierarchy]", "[zero-shot]\ntask_name: a/b"), "task_name: String should match"),
    ],
)
def test_what_a_manifest_cannot_ask_for(mine, change, reason):
    (mine / "mine.yaml").write_text(MANIFEST.replace(*change))
    with pytest.raises(DataError, match=reason):
        register_manifest(mine / "mine.yaml")


def test_caption_chains_under_a_name_of_ones_own(tmp_path):
    """They run as `pep-v2/mine` and `hierarcaps/mine`, and nobody misses images of another split."""
    (tmp_path / "images").mkdir()
    with (tmp_path / "split.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["id", "captions", "image_url"])
        for number in range(6):
            Image.new("RGB", (8, 8), (40 * number, 200, 10)).save(tmp_path / "images" / f"{number}.jpg")
            chain = " => ".join(f"thing {number} at level {level}" for level in range(4))
            table.writerow([str(number), chain, f"http://x.org/{number}.jpg"])
    (tmp_path / "pool.csv").write_text("caption\na spoon\na tram\n")
    (tmp_path / "mine.yaml").write_text(
        "title: My chains\nreader: hierarcaps\ntasks: [pep-v2, hierarcaps]\nfit: squeeze\n"
        "layout: {images: [images], table: [split.csv], pool: pool.csv}\n"
    )
    register_manifest(tmp_path / "mine.yaml")
    found = hierbench.run(
        "random", ["pep-v2/mine", "hierarcaps/mine"], data={"mine": tmp_path}, workers=0, progress=False
    )
    assert [record.task for record in found if record.metrics] == ["pep-v2/mine", "hierarcaps/mine"]
    assert not any("of the split's" in note for record in found for note in record.notes)
    assert registry.task("pep-v2/mine").spec.title == "My chains PEP"


# --------------------------------------------------------------------------------------------------- task files

TASK = """
from hierbench.contracts import *
from hierbench.metrics.bootstrap import Statistics, means

class Brightness:
    spec = TaskSpec(
        "mine/ones", "Ones", 1, "miniature-things", (MetricSpec("one", "One", unit="raw"),), "one", Fit.SQUEEZE
    )
    def inapplicable(self, geometry): return None
    def requests(self, dataset): return EmbeddingRequests.of(dataset.images.ids, [])
    def statistics(self, items):
        images = items["images"]
        return Statistics(means({"one": images["one"]}), tuple(images["image_id"]))
    def score(self, geometry, embeddings, dataset):
        items = {"images": {"image_id": list(dataset.images.ids), "one": [1.0] * len(dataset.images.ids)}}
        return Scores(self.statistics(items).estimates(), len(dataset.images.ids), items)

TASKS = {"mine/ones": Brightness}
"""


def test_a_task_file(tmp_path):
    (tmp_path / "ones.py").write_text(TASK)
    assert (
        registry.add_task_file(tmp_path / "ones.py")
        == registry.add_task_file(tmp_path / "ones.py")
        == ["mine/ones"]
    )
    (record,) = hierbench.run("random", ["mine/ones"], limit=5, workers=0, progress=False)
    assert (record.metrics["one"].value, record.n) == (1.0, 5)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "there is no such file"),
        ("import nothing_of_this_name", "does not import: ModuleNotFoundError"),
        ("TASK = {}", "needs a mapping TASKS"),
        ("TASKS = {}", "needs a mapping TASKS"),
        ("TASKS = {'mine': 3}", "'mine' is no task: TypeError"),
        ("TASKS = {'mine': dict}", "has not all of spec"),
        (TASK.replace('{"mine/ones"', '{"mine/twos"'), "its spec names it 'mine/ones'"),
        (TASK.replace('{"mine/ones"', '{"zero-shot/imagenet"'), "'zero-shot/imagenet' exists already"),
    ],
)
def test_bad_task_files_give_one_line(tmp_path, text, reason):
    path = tmp_path / "tasks.py"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UsageError, match=reason) as caught:
        registry.add_task_file(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


# ------------------------------------------------------------------------------------------------------- suites


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("title: T\nlayout: all\n", "needs title, layout"),
        ("title: T\nlayout: all\ntasks: pep-v2\n", "needs title, layout"),
        ("title: T\nlayout: all\ntasks: [pep-v2]\ntagged: real\n", "needs title, layout"),
        ("title: T\nlayout: all\ntasks: [pep-v2, pep-v9]\n", "no task 'pep-v9'"),
        ("title: T\nlayout: all\ntasks: [pep-v2, pep-v2]\n", "one twice"),
        ("title: T\nlayout: all\ntagged: nothing\n", "it has no task"),
        ("title: [", "line 2"),
    ],
)
def test_bad_suites_are_named(tmp_path, monkeypatch, text, reason):
    (tmp_path / "odd.yaml").write_text(text)
    files = registry.package_files
    monkeypatch.setattr(
        registry,
        "package_files",
        lambda package, suffix: (
            [tmp_path / "odd.yaml"] if package.endswith("suites") else files(package, suffix)
        ),
    )
    with pytest.raises(UsageError, match=reason) as caught:
        registry.suites()
    assert "odd.yaml" in str(caught.value)
