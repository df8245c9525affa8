"""run() and plan(): failures stay where they are, what is done is kept, figures say where they come from."""

import gc
import hashlib
import json
import logging
import math
import weakref
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from hierbench.contracts import ModelAdapter, Task
from hierbench.data.datasets import ImageFiles
from hierbench.engine import planning, setup
from hierbench.engine.planning import plan
from hierbench.engine.runner import run
from hierbench.engine.store import EmbeddingStore
from hierbench.errors import (
    CheckpointError,
    DataError,
    HierbenchError,
    MissingDataError,
    OutputError,
    UnknownNameError,
    UsageError,
)
from hierbench.models import reference
from hierbench.models.families import families
from hierbench.results import read_items, read_results, record_path


@pytest.fixture
def things(fakes, images, opens):
    """The dataset "things", which the runner finds."""
    data = fakes.dataset(images)
    opens(things=data)
    return data


@pytest.fixture
def loads(monkeypatch, fakes):
    """loads["tiny.pth"] = adapter or exception -> what the family "fake" loads; counts loads."""
    table, count = {}, []

    def load(checkpoint, *, name, device, dtype):
        count.append(checkpoint)
        found = table[Path(checkpoint).name]
        if isinstance(found, Exception):
            raise found
        found.card = replace(found.card, name=name)
        return found

    known = families() | dict.fromkeys(("fake", "other"))
    monkeypatch.setattr(reference, "families", lambda: known)
    monkeypatch.setattr(reference, "family_loader", lambda name: load)
    table["count"] = count
    return table


def test_the_fakes_keep_the_contracts(fakes):
    assert isinstance(fakes.Adapter(), ModelAdapter)
    assert isinstance(fakes.Task(), Task)


def test_a_run_measures(fakes, things, tmp_path, caplog):
    caplog.set_level(logging.INFO, "hierbench")
    adapter, out = fakes.Adapter(), tmp_path / "out"
    found = run([adapter], [fakes.Task()], out=out)
    [record] = found
    assert (record.model, record.family, record.task, record.dataset) == (
        "fake",
        "fake",
        "mean/things",
        "things",
    )
    assert (record.task_version, record.protocol, record.n, record.limit) == (1, "released", 20, None)
    assert record.notes == ("a note",)
    pixels = torch.stack([adapter.preprocess(image, None) for image in decoded(things)])
    expected = adapter.encode_images(pixels).mean(1)
    assert record.metrics["mean"].value == pytest.approx(expected.mean().item(), abs=1e-6)
    assert list(read_results(out)) == list(found)
    assert read_items(out, record)["images"].image_id.tolist() == list(things.images.ids)
    assert found.items["fake", "mean/things"]["images"]["label"].tolist() == things.labels.tolist()
    told = json.loads((out / "run.json").read_text())
    assert (told["models"], told["tasks"], told["suite"], told["layout"]) == (
        ["fake"],
        ["mean/things"],
        None,
        None,
    )
    assert "fake: mean/things: mean" in caplog.text
    assert "n = 20" in caplog.text


def decoded(data):
    from hierbench.data.images import decode

    return [decode(data.images.read(i), i) for i in data.images.ids]


def test_provenance_says_where_a_figure_comes_from(fakes, things):
    record = run(fakes.Adapter(), [fakes.Task()])[0]
    told = record.provenance
    contents = b"".join(hashlib.sha256(things.images.read(i)).digest() for i in things.images.ids)
    assert told["dataset_fingerprint"] == hashlib.sha256(things.facts() + contents).hexdigest()
    assert told["names_hash"] == hashlib.sha256(b"tea\nboat").hexdigest()[:16]
    assert told["prompts_hash"] == hashlib.sha256(b"a {}.\nthe {}.").hexdigest()[:16]
    assert told["checkpoint_sha256"] == "ab" * 32
    assert told["geometry"] == {"name": "lorentz", "curvature": 1.0}
    assert told["preprocessing"] == "to 8"
    assert (told["dtype"], told["device"], told["fit"]) == ("float32", "cpu", "crop")
    assert told["encoded"] == {"images": 20, "texts": 4}
    assert set(told["seconds"]) == {"encode", "score"}
    assert told["versions"]["torch"] == torch.__version__.partition("+")[0]
    assert told["images"] == 20
    json.dumps(told, allow_nan=False)


def test_without_out_nothing_is_written(fakes, things, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run([fakes.Adapter(sha256=None)], [fakes.Task()])
    assert [p.name for p in tmp_path.iterdir()] == ["images"]


def test_failures_stay_where_they_are(fakes, images, opens, tmp_path):
    opens(
        things=fakes.dataset(images),
        absent=MissingDataError("absent is not here: fetch it"),
        broken=DataError("captions.json is damaged"),
        crash=IndexError("reader bug"),
    )
    tasks = [
        fakes.Task("fails", fails=True),
        fakes.Task("absent", "absent"),
        fakes.Task("broken", "broken"),
        fakes.Task("crash", "crash"),
        fakes.Task("cones", cones=True),
        fakes.Task("good"),
    ]
    found = run([fakes.Adapter(geometry=fakes.Sphere())], tasks, out=tmp_path / "out")
    assert [(r.task, r.status, r.error or r.skipped) for r in found] == [
        ("fails", "failed", "ZeroDivisionError: no luck second line"),
        ("absent", "skipped", "absent is not here: fetch it"),
        ("broken", "failed", "captions.json is damaged"),
        ("crash", "failed", "IndexError: reader bug"),
        ("cones", "skipped", "it needs cones"),
        ("good", "measured", None),
    ]
    assert "in score" in found[0].provenance["traceback"]
    assert list(read_results(tmp_path / "out")) == list(found)


def test_a_corrupt_image_fails_its_task_alone(fakes, images, opens, tmp_path):
    other = fakes.write_images(tmp_path / "other", 5, seed=1)
    (images.folder / images.ids[7]).write_bytes(b"nothing")
    opens(things=fakes.dataset(images), others=fakes.dataset(other, "others"))
    found = run(fakes.Adapter(), [fakes.Task(), fakes.Task("b", "others")])
    assert "0007.png of things is not a readable" in found[0].error
    assert found[1].n == 5


def test_embeddings_that_are_not_finite_fail_the_task(fakes, things):
    adapter = fakes.Adapter()
    adapter.encode_images = lambda pixels: torch.full((len(pixels), 6), torch.nan)
    [record] = run(adapter, [fakes.Task()])
    assert record.error == "fake: the embedding of image '0000.png' holds NaN or infinite values"


def test_figures_that_are_nan_are_recorded(fakes, things, tmp_path, monkeypatch):
    score = fakes.Task.score

    def odd(self, geometry, embeddings, data):
        scores = score(self, geometry, embeddings, data)
        return replace(scores, metrics={"mean": replace(scores.metrics["mean"], value=math.nan)})

    monkeypatch.setattr(fakes.Task, "score", odd)
    run(fakes.Adapter(), [fakes.Task()], out=tmp_path / "out")
    assert math.isnan(read_results(tmp_path / "out")[0].metrics["mean"].value)


@pytest.mark.parametrize("cache", [True, False])
def test_tasks_share_embeddings(fakes, things, cache):
    adapter = fakes.Adapter()
    run(adapter, [fakes.Task(), fakes.Task("again")], cache=cache)
    assert (adapter.images, len(adapter.texts)) == (20, 4)
    assert EmbeddingStore().folder.exists() == cache


def test_a_warm_run_encodes_nothing(fakes, things):
    first = run(fakes.Adapter(), [fakes.Task()])
    adapter = fakes.Adapter()
    second = run(adapter, [fakes.Task()])
    assert (adapter.images, adapter.texts) == (0, [])
    assert second[0].metrics == first[0].metrics
    assert second[0].provenance["encoded"] == {"images": 0, "texts": 0}


def test_no_cache_means_none(fakes, things):
    run(fakes.Adapter(), [fakes.Task()])
    adapter = fakes.Adapter()
    run(adapter, [fakes.Task()], cache=False)
    assert adapter.images == 20


def test_limit(fakes, things):
    [record] = run(fakes.Adapter(), [fakes.Task()], limit=6)
    assert (record.n, record.limit) == (6, 6)
    whole = run(fakes.Adapter(), [fakes.Task()])[0]
    assert whole.provenance["dataset_fingerprint"] != record.provenance["dataset_fingerprint"]


# ------------------------------------------------------------------------------------------------- keeping


def test_what_is_measured_is_kept(fakes, things, tmp_path, caplog):
    caplog.set_level(logging.INFO, "hierbench")
    task = fakes.Task()
    first = run(fakes.Adapter(), [task], out=tmp_path)
    path = record_path(tmp_path, "fake", task.name)
    before = path.stat().st_mtime_ns
    caplog.clear()
    second = run(fakes.Adapter(), [task], out=tmp_path)
    assert list(second) == list(first)
    assert task.scored == [20]
    assert path.stat().st_mtime_ns == before
    assert "kept" in caplog.text
    run(fakes.Adapter(), [task], out=tmp_path, force=True)
    assert task.scored == [20, 20]


@pytest.mark.parametrize(
    "change",
    [
        {"limit": 6},
        {"prompts": "photo"},
        {"protocol": "corrected"},
        {"dtype": "bfloat16"},
        {"version": 2},
        {"image": True},
        {"label": True},
        {"name": True},
    ],
    ids=str,
)
def test_a_change_is_measured_again(fakes, things, opens, tmp_path, change):
    task = fakes.Task()
    out = tmp_path / "out"
    run(fakes.Adapter(), [task], out=out)
    change, data = dict(change), things
    if change.pop("image", False):
        (things.images.folder / "0003.png").write_bytes(fakes.png("red"))
    if change.pop("label", False):
        data = replace(things, labels=1 - things.labels)
    if change.pop("name", False):
        data = replace(things, class_names=("tea", "ship"))
    opens(things=data)
    version = change.pop("version", 1)
    run(fakes.Adapter(), [replace(task, version=version)], out=out, **change)
    assert len(task.scored) == 2


def test_failed_and_absent_are_tried_again_but_inapplicable_is_not(fakes, images, opens, loads, tmp_path):
    out, path = tmp_path / "out", tmp_path / "tiny.pth"
    path.write_bytes(b"weights")
    sha256 = hashlib.sha256(b"weights").hexdigest()
    opens(things=fakes.dataset(images), more=MissingDataError("absent"))
    tasks = [fakes.Task("cones", cones=True), fakes.Task("fails", fails=True), fakes.Task("more", "more")]
    loads["tiny.pth"] = fakes.Adapter(sha256=sha256, geometry=fakes.Sphere())
    run(("fake", path), tasks, out=out)
    opens(things=fakes.dataset(images), more=fakes.dataset(images, "more"))
    found = run(("fake", path), [tasks[0], replace(tasks[1], fails=False), tasks[2]], out=out)
    assert [r.status for r in found] == ["skipped", "measured", "measured"]
    loads["count"].clear()
    again = run(("fake", path), [tasks[0], tasks[2]], out=out)
    assert [r.status for r in again] == ["skipped", "measured"]
    assert loads["count"] == []  # the file's hash suffices, the model is not even loaded


def test_a_run_goes_on_where_it_was_killed(fakes, things, tmp_path):
    tasks = [fakes.Task("a"), fakes.Task("b"), fakes.Task("c")]

    class Killed(BaseException):
        pass

    def dies(self, *arguments):
        raise Killed

    original = fakes.Task.score
    fakes.Task.score = lambda self, *a: dies(self) if self.name == "b" else original(self, *a)
    try:
        with pytest.raises(Killed):
            run(fakes.Adapter(), tasks, out=tmp_path / "out")
    finally:
        fakes.Task.score = original
    assert [r.task for r in read_results(tmp_path / "out")] == ["a"]
    adapter = fakes.Adapter()
    found = run(adapter, tasks, out=tmp_path / "out")
    assert [r.status for r in found] == ["measured"] * 3
    assert [task.scored for task in tasks] == [[20], [20], [20]]
    assert adapter.images == 0


def test_a_second_run_adds_to_the_folder(fakes, things, tmp_path):
    run(fakes.Adapter("one"), [fakes.Task("a")], out=tmp_path)
    run(fakes.Adapter("two"), [fakes.Task("b"), fakes.Task("a")], out=tmp_path)
    told = json.loads((tmp_path / "run.json").read_text())
    assert (told["models"], told["tasks"]) == (["one", "two"], ["a", "b"])
    assert [(r.model, r.task) for r in read_results(tmp_path)] == [("one", "a"), ("two", "a"), ("two", "b")]


# -------------------------------------------------------------------------------------------------- models


def test_a_model_that_fails_to_load_leaves_the_others_alone(fakes, things, loads, tmp_path):
    loads["bad.pth"], loads["ugly.pth"] = CheckpointError("bad.pth is truncated"), OSError("disk\nmore")
    loads["good.pth"] = fakes.Adapter()
    models = [("fake", "bad.pth"), ("fake", "ugly.pth"), ("fake", "good.pth", "good")]
    found = run(models, [fakes.Task("a"), fakes.Task("b")], out=tmp_path)
    assert [(r.model, r.status, r.error) for r in found][::2] == [
        ("fake:bad.pth", "failed", "bad.pth is truncated"),
        (
            "fake:ugly.pth",
            "failed",
            "adapter fake: load() failed: OSError: disk more; alone and with --debug it shows where",
        ),
        ("good", "measured", None),
    ]
    assert loads["count"] == ["bad.pth", "ugly.pth", "good.pth"]
    assert list(read_results(tmp_path)) == list(found)


def test_the_only_model_that_fails_to_load_raises_and_leaves_nothing(things, loads, fakes, tmp_path):
    loads["bad.pth"] = CheckpointError("bad.pth is truncated")
    with pytest.raises(CheckpointError, match="truncated"):
        run(("fake", "bad.pth"), [fakes.Task()], out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_names_of_models(fakes, things, loads, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("tiny.pth", "folder/x"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_bytes(b"w")
        loads[Path(name).name] = fakes.Adapter()
    loads["folder"] = loads["b"] = fakes.Adapter()
    models = [("fake", "tiny.pth"), ("fake", "tiny.pth", "mine"), ("fake", Path("folder")), "fake:hub/b"]
    assert [r.model for r in run(models, [fakes.Task()])] == ["tiny", "mine", "folder", "fake:hub/b"]


def test_the_same_file_read_by_two_families_gives_two_rows(fakes, things, loads, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("tiny.pth").write_bytes(b"weights")
    sha256 = hashlib.sha256(b"weights").hexdigest()
    for family in ("fake", "other", "fake", "other"):
        loads["tiny.pth"] = fakes.Adapter(family=family, sha256=sha256)
        run((family, "tiny.pth"), [fakes.Task()], out="out")
    assert [(r.model, r.family) for r in read_results("out")] == [("tiny", "fake"), ("tiny (other)", "other")]
    loads["tiny.pth"] = fakes.Adapter(family="fake")
    found = run([("fake", "tiny.pth"), ("other", "tiny.pth")], [fakes.Task()])
    assert [r.model for r in found] == ["tiny", "tiny (other)"]


def test_new_weights_do_not_overwrite_old_results(fakes, things, loads, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for weights in (b"old", b"new"):
        Path("tiny.pth").write_bytes(weights)
        loads["tiny.pth"] = fakes.Adapter(sha256=hashlib.sha256(weights).hexdigest())
        run(("fake", "tiny.pth"), [fakes.Task()], out="out")
    sha256 = hashlib.sha256(b"new").hexdigest()
    assert [r.model for r in read_results("out")] == ["tiny", f"tiny ({sha256[:8]})"]
    with pytest.raises(UsageError, match="another model called 'tiny'"):
        run(("fake", "tiny.pth", "tiny"), [fakes.Task()], out="out")
    run(("fake", "tiny.pth", "tiny"), [fakes.Task()], out="out", force=True)
    assert read_results("out")[0].provenance["checkpoint_sha256"] == sha256


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"models": []}, UsageError, "no models"),
        ({"models": ["hycoclp-vit-b"]}, UnknownNameError, "no model 'hycoclp-vit-b'"),
        ({"models": [("nofamily", "x.pth")]}, UnknownNameError, "nofamily"),
        ({"models": ["nowhere.pth"]}, CheckpointError, r"no checkpoint file nowhere\.pth"),
        ({"models": [17]}, UsageError, "17 is no model"),
        ({"models": [("a", "b", "c", "d")]}, UsageError, "is no model"),
        ({"tasks": ["retrieval/cocoa"]}, UnknownNameError, "did you mean retrieval/coco"),
        ({"tasks": []}, UsageError, "no tasks"),
        ({"tasks": None, "suite": "argnet"}, UnknownNameError, "did you mean argent"),
        ({"suite": "argent"}, UsageError, "choose one"),
        ({"data": {"cocoa": "."}}, UnknownNameError, "did you mean coco"),
        ({"data": {"coco": "/no/such/folder"}}, DataError, "no /no/such/folder"),
        ({"data_dir": "/no/such/folder"}, DataError, "no folder /no/such/folder"),
        ({"device": "gpu"}, UsageError, "no device 'gpu'"),
        ({"device": "cuda:x"}, UsageError, "no device 'cuda:x'"),
        ({"dtype": "int8"}, UsageError, "no dtype 'int8': choose float32"),
        ({"batch_size": "8"}, UsageError, "batch_size is '8': it must be an int"),
        ({"limit": True}, UsageError, "limit is True: it must be an int"),
        ({"cache": "no"}, UsageError, "cache is 'no': it must be True or False"),
        ({"progress": "none"}, UsageError, "progress is 'none': it must be True, False, None"),
        ({"limit": 0}, UsageError, "limit is 0"),
        ({"batch_size": -1}, UsageError, "batch_size is -1"),
        ({"workers": -1}, UsageError, "workers is -1"),
        ({"protocol": "new"}, UsageError, "no protocol 'new'"),
        ({"prompts": "new"}, UsageError, "no prompts 'new'"),
        ({"batchsize": 3}, UsageError, "no option 'batchsize'"),
    ],
    ids=str,
)
def test_bad_arguments_are_told_before_any_work(fakes, things, tmp_path, arguments, error, said):
    out = tmp_path / "out"
    adapter = fakes.Adapter()
    with pytest.raises(error, match=said) as caught:
        run(**{"models": [adapter], "tasks": [fakes.Task()], "out": out, **arguments})
    assert isinstance(caught.value, HierbenchError)
    assert "\n" not in str(caught.value)
    assert adapter.images == 0
    assert not out.exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
def test_cuda_where_there_is_none(fakes, things):
    with pytest.raises(UsageError, match="cuda is not available here"):
        run(fakes.Adapter(), [fakes.Task()], device="cuda")
    assert setup.resolve_device("auto") in ("cpu", "mps")


def test_two_models_of_one_name(fakes, things):
    with pytest.raises(UsageError, match="two models are called 'fake'"):
        run([fakes.Adapter(), fakes.Adapter()], [fakes.Task()])
    with pytest.raises(UsageError, match="two models are called"):  # one folder where case does not count
        run([fakes.Adapter("Tiny"), fakes.Adapter("tiny")], [fakes.Task()])


def test_an_output_folder_that_cannot_be_written(fakes, things, tmp_path):
    (tmp_path / "file").write_text("in the way")
    adapter = fakes.Adapter()
    for out in (tmp_path / "file", tmp_path / "file" / "out"):
        with pytest.raises(OutputError, match=r"cannot write to .*file"):
            run(adapter, [fakes.Task()], out=out)
    assert adapter.images == 0


def test_damaged_results_in_the_folder_are_told(fakes, things, tmp_path):
    run(fakes.Adapter(), [fakes.Task()], out=tmp_path)
    record_path(tmp_path, "fake", "mean/things").write_text("{")
    with pytest.raises(OutputError, match="cannot be used"):
        run(fakes.Adapter(), [fakes.Task()], out=tmp_path)


def test_a_task_of_one_protocol_refuses_another(fakes, things):
    class Fixed:
        spec = fakes.Task().spec

    with pytest.raises(UsageError, match="knows the protocol released alone"):
        run(fakes.Adapter(), [Fixed()], protocol="corrected")


def test_protocol_and_prompts_reach_dataset_and_record(fakes, images, monkeypatch):
    asked = []

    def open_dataset(name, locations, **how):
        asked.append(how)
        return fakes.dataset(images)

    monkeypatch.setattr(setup, "open_dataset", open_dataset)
    [record] = run(fakes.Adapter(), [fakes.Task()], protocol="corrected", prompts="photo")
    assert asked == [{"protocol": "corrected", "prompts": "photo"}]
    assert record.way == "corrected+photo"


def test_a_model_is_gone_before_the_next_is_loaded(fakes, things, loads, monkeypatch):
    alive = []

    def load(checkpoint, **options):
        gc.collect()
        assert not any(ref() for ref in alive)
        adapter = fakes.Adapter(name=options["name"])
        alive.append(weakref.ref(adapter))
        return adapter

    monkeypatch.setattr(reference, "family_loader", lambda family: load)
    found = run([("fake", "a"), ("fake", "b"), ("fake", "c")], [fakes.Task()])
    assert [r.status for r in found] == ["measured"] * 3


def test_an_adapter_object_is_left_as_it_is(fakes, things):
    adapter = fakes.Adapter()
    before = dict(vars(adapter))
    run(adapter, [fakes.Task()])
    after = vars(adapter)
    assert after.keys() == before.keys()
    assert (after["card"], after["geometry"]) == (before["card"], before["geometry"])


def test_compile_wraps_and_tells(fakes, things, monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda function: lambda pixels: function(pixels) + 1)
    plain = run(fakes.Adapter(), [fakes.Task()])[0]
    compiled = run(fakes.Adapter(), [fakes.Task()], compile=True)[0]
    assert compiled.provenance["dtype"] == "float32, compiled"
    assert compiled.metrics["mean"].value == pytest.approx(plain.metrics["mean"].value + 1)


# ------------------------------------------------------------------------------------------------ planning


def test_a_plan_counts_what_is_to_do(fakes, images, opens, tmp_path):
    few = ImageFiles(images.folder, images.ids[:5])
    opens(
        things=fakes.dataset(images),
        few=fakes.dataset(few, "few"),
        absent=MissingDataError("absent"),
        broken=DataError("damaged"),
    )
    run(fakes.Adapter(), [fakes.Task("b", "few")], out=tmp_path)
    store = sorted(EmbeddingStore().folder.rglob("*"))
    tasks = [fakes.Task(), fakes.Task("again"), fakes.Task("b", "few"), fakes.Task("c", "absent")]
    tasks += [fakes.Task("d", "broken"), fakes.Task("cones", cones=True)]
    planned = plan(fakes.Adapter(geometry=fakes.Sphere()), tasks, out=tmp_path)
    assert [(p.action, p.images, p.texts, p.new_images, p.new_texts) for p in planned] == [
        ("run", 20, 4, 15, 0),
        ("run", 20, 4, 0, 0),
        ("keep", 0, 0, 0, 0),
        ("skip", 0, 0, 0, 0),
        ("fail", 0, 0, 0, 0),
        ("skip", 0, 0, 0, 0),
    ]
    assert [p.reason for p in planned[2:]] == ["measured already", "absent", "damaged", "it needs cones"]
    assert planned[0].seconds > 0
    assert planned[1].seconds == 0
    assert sorted(EmbeddingStore().folder.rglob("*")) == store


def test_a_plan_estimates_from_a_few(fakes, things, monkeypatch):
    class Timed(fakes.Adapter):  # by a clock that only the images move
        now = 0.0

        def encode_images(self, pixels):
            self.now += 0.02
            return super().encode_images(pixels)

    adapter = Timed()
    monkeypatch.setattr(planning.time, "monotonic", lambda: adapter.now)
    [planned] = plan(adapter, [fakes.Task()])
    assert planned.seconds == pytest.approx(20 / 16 * 0.02)  # 16 images took one batch


def test_a_plan_tells_of_models_that_do_not_load(fakes, things, loads, tmp_path):
    loads["bad.pth"], loads["good.pth"] = CheckpointError("bad.pth is truncated"), fakes.Adapter()
    planned = plan([("fake", "bad.pth"), ("fake", "good.pth")], [fakes.Task()], out=tmp_path / "out")
    assert [(p.action, p.reason) for p in planned] == [("fail", "bad.pth is truncated"), ("run", None)]
    assert not (tmp_path / "out").exists()
    with pytest.raises(CheckpointError):
        plan([("fake", "bad.pth")], [fakes.Task()])


# ------------------------------------------------------------------------------------------------ protocols


class Aware:
    """A fake whose released evaluator shifts the texts' features."""

    def __init__(self, fakes, shift=0.0, said="whole"):
        self.fakes, self.shift = fakes, shift
        self.inner = fakes.Adapter()
        self.inner.card = replace(self.inner.card, tokenizing=said)

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def preprocess(self, image, fit):
        return self.inner.preprocess(image, fit)

    def encode_images(self, pixels):
        return self.inner.encode_images(pixels)

    def encode_texts(self, texts):
        return self.inner.encode_texts(texts) + self.shift

    def under(self, protocol):
        return Aware(self.fakes, 100.0, "cut") if protocol == "released" else Aware(self.fakes)


class TextTask:
    """Mean of the text features, so that what the adapter does to texts shows."""

    def __new__(cls, fakes):
        class Mean(fakes.Task):
            def score(self, geometry, embeddings, data):
                from hierbench.contracts import Estimate, Scores

                return Scores({"mean": Estimate(float(embeddings.text_features.mean()))}, 4)

        return Mean()


def test_an_adapter_is_asked_for_the_model_as_the_protocol_has_it(fakes, things, tmp_path):
    """The store and a folder of results keep the two apart, and images serve both."""
    adapter, task, out = Aware(fakes), TextTask(fakes), tmp_path / "out"
    wrong = run(adapter, [task], out=out)[0]
    right = run(adapter, [task], out=out, protocol="corrected")[0]
    assert wrong.metrics["mean"].value == pytest.approx(right.metrics["mean"].value + 100)
    assert [r.provenance["tokenizing"] for r in (wrong, right)] == ["cut", "whole"]
    assert [r.protocol for r in (wrong, right)] == ["released", "corrected"]
    assert wrong.provenance["encoded"] == {"images": 20, "texts": 4}
    assert right.provenance["encoded"] == {"images": 0, "texts": 4}
    assert run(adapter, [task])[0].metrics == wrong.metrics  # from the store
    again = run(adapter, [task], protocol="corrected")[0]
    assert again.metrics == right.metrics
    assert again.provenance["encoded"] == {"images": 0, "texts": 0}


def test_a_record_of_other_tokens_is_not_kept(fakes, things, tmp_path):
    adapter, task = Aware(fakes), TextTask(fakes)
    first = run(adapter, [task], out=tmp_path)[0]
    assert run(adapter, [task], out=tmp_path)[0] == first  # kept, with its time
    plain = fakes.Adapter()  # the same weights, name and protocol
    other = run(plain, [task], out=tmp_path)[0]
    assert other.metrics["mean"].value == pytest.approx(first.metrics["mean"].value - 100)


def test_images_that_are_not_the_protocols_name_the_record(fakes, images, opens, tmp_path):
    class Odd:
        variant = "whole-set"

        def __getattr__(self, name):
            return getattr(fakes.dataset(images), name)

    opens(things=Odd())
    task = fakes.Task()
    [record] = run(fakes.Adapter(), [task], out=tmp_path)
    assert record.way == "released+whole-set"
    assert run(fakes.Adapter(), [task], out=tmp_path)[0] == record
    assert run(fakes.Adapter(), [task], prompts="photo")[0].way == "released+whole-set+photo"
    [failed] = run(fakes.Adapter(), [fakes.Task(fails=True)])
    assert (failed.status, failed.way) == ("failed", "released+whole-set")
    opens(things=fakes.dataset(images))  # the same facts, but now the protocol's own images
    assert run(fakes.Adapter(), [task], out=tmp_path)[0].way == "released"
    assert task.scored == [20, 20, 20]
