"""`hierbench run --config`: what a file of options asks for, what wins over it, and every mistake in one."""

import pytest

from hierbench.results import Results

STUDY = """
models: [random]
checkpoints:
  ours: {file: a.pth, family: hycoclip}
  plain: b.pth
  argent: {family: argent, seeds: {0: c.pth, 1: d.pth}}
task: zero-shot/miniature-colours
data: {imagenet: here, coco: here}
data-dir: here
limit: 4
protocol: corrected
no-cache: true
out: runs/study
"""

OURS = [
    ("hycoclip", "a.pth", "ours"),
    (None, "b.pth", "plain"),
    ("argent", "c.pth", "argent@0"),
    ("argent", "d.pth", "argent@1"),
]


@pytest.fixture
def asked(hierbench, tmp_path, monkeypatch):
    """asked(words...) -> what `hierbench run --config study.yaml` asks the engine for."""
    (tmp_path / "study.yaml").write_text(STUDY)
    for name in "abcde":
        (tmp_path / f"{name}.pth").write_bytes(b"weights")
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    found = {}
    monkeypatch.setattr(
        "hierbench.engine.runner.run", lambda **arguments: found.update(arguments) or Results()
    )
    monkeypatch.setattr("hierbench.cli.run.show_results", lambda out: None)

    def ask(*words):
        done = hierbench("run", "--config", "study.yaml", *words)
        assert done.status == 0, done.err
        return found

    return ask


def test_a_file_holds_what_options_hold(asked):
    found = asked()
    assert found["models"] == ["random", *OURS]
    assert found["tasks"] == ["zero-shot/miniature-colours"]
    assert found["suite"] is None
    assert {name: str(path) for name, path in found["data"].items()} == {"imagenet": "here", "coco": "here"}
    assert str(found["data_dir"]) == "here"
    assert (found["limit"], found["protocol"], found["cache"], str(found["out"])) == (
        4,
        "corrected",
        False,
        "runs/study",
    )


def test_the_line_wins(asked):
    found = asked("--limit", 2, "--protocol", "released", "--out", "other", "--data", "coco=there")
    assert (found["limit"], found["protocol"], str(found["out"])) == (2, "released", "other")
    assert {name: str(path) for name, path in found["data"].items()} == {"coco": "there", "imagenet": "here"}
    assert found["models"] == ["random", *OURS]


def test_models_on_the_line_leave_out_those_of_the_file(asked):
    assert asked("miniature-clip")["models"] == ["miniature-clip"]
    assert asked("--checkpoint", "e.pth")["models"] == [(None, "e.pth", None)]


def test_a_suite_on_the_line_leaves_out_the_tasks_of_the_file(asked):
    found = asked("--suite", "miniature")
    assert (found["suite"], found["tasks"]) == ("miniature", None)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("limt: 4", "config study.yaml: no option 'limt': did you mean limit"),
        ("limit: 4\nlimit: 5", "config study.yaml, line 2: 'limit' stands there twice"),
        ("limit: four", "config study.yaml: limit: a whole number is expected, found 'four'"),
        ("limit: true", "config study.yaml: limit: a whole number is expected, found True"),
        ("limit: 0", "config study.yaml: limit: "),
        ("limit: -3", "config study.yaml: limit: "),
        ("protocol: other", "config study.yaml: protocol: "),
        ("prompts: [photo, default]", "config study.yaml: prompts: a text is expected, found a list"),
        ("batch-size: 1.5", "config study.yaml: batch-size: a whole number is expected, found 1.5"),
        ("dtype: int7", "config study.yaml: dtype: "),
        ("seeds: [0, 1]", "config study.yaml: no option 'seeds'"),
        (
            "task: zero-shot/imagnet",
            "config study.yaml: task: no task 'zero-shot/imagnet': did you mean zero-shot/imagenet",
        ),
        ("task: [hierarcaps/miniature, nothing]", "config study.yaml: task: no task 'nothing'"),
        ("task: {a: b}", "config study.yaml: task: a text or a list of texts is expected, found a mapping"),
        ("suite: miniatur", "config study.yaml: suite: no suite 'miniatur': did you mean miniature"),
        ("models: miniature-clap", "config study.yaml: models: "),
        ("models: [random, random]", "config study.yaml: models: two models are called 'random'"),
        ("checkpoints: {a: lost.pth}", "config study.yaml: checkpoints: no checkpoint file lost.pth"),
        (
            "checkpoints: {a: {file: lost.pth, family: meru}}",
            "config study.yaml: checkpoints: a: no checkpoint file lost.pth: check the path",
        ),
        (
            "checkpoints: {a: {family: argent, seeds: {0: lost.pth}}}",
            "config study.yaml: checkpoints: a@0: no checkpoint file lost.pth: check the path",
        ),
        ("checkpoints: {a: study.yaml, a: study.yaml}", "config study.yaml, line 1: 'a' stands there twice"),
        (
            "models: random\ncheckpoints: {random: {family: clip, file: study.yaml}}",
            "config study.yaml: checkpoints: two models are called 'random': give one another name",
        ),
        ("checkpoints: {a: {family: clop, file: study.yaml}}", "config study.yaml: checkpoints: "),
        ("data: {cocoo: .}", "config study.yaml: data: no dataset 'cocoo': did you mean coco"),
        ("data: {coco: nowhere}", "config study.yaml: data: --data coco=nowhere: there is no nowhere"),
        ("data-dir: nowhere", "config study.yaml: data-dir: --data-dir nowhere: there is no such folder"),
        ("manifest: nowhere.yaml", "config study.yaml: manifest: "),
        ("adapter: nowhere.py", "config study.yaml: adapter: "),
        ("task-file: [nowhere.py]", "config study.yaml: task-file: "),
        ("no-cache: 'yes'", "config study.yaml: no-cache: true or false is expected, found 'yes'"),
        ("models: [1]", "config study.yaml: models: a text or a list of texts is expected, found a list"),
        ("out: [a]", "config study.yaml: out: a text is expected, found a list"),
        ("data: here", "config study.yaml: data: `key: text` pairs are expected, found 'here'"),
        ("data: {coco: 1}", "config study.yaml: data: coco: a text is expected, found 1"),
        ("checkpoints: [a.pth]", "config study.yaml: checkpoints: names with their files"),
        ("checkpoints: {a: {family: clip}}", "checkpoints: a: a file, or `file` or `seeds`"),
        ("checkpoints: {a: {file: b, famly: clip}}", "checkpoints: a: no entry 'famly': did you mean family"),
        ("checkpoints: {a: {seeds: {0: 1}}}", "checkpoints: a: seeds: 0: a text is expected, found 1"),
        ("checkpoints: {a: {file: 1}}", "checkpoints: a: file: a text is expected, found 1"),
        ("family: clip", "config study.yaml: no option 'family'"),
        ("json: true", "config study.yaml: no option 'json'"),
        ("- 1", "config study.yaml: fields (`key: value`) are expected, found list"),
        (
            "suite: miniature\ntask: hierarcaps/miniature",
            "config study.yaml: suite: --suite and --task are both given",
        ),
        ("limit: [", "config study.yaml, line 2: "),
        ("\tlimit: 3", "config study.yaml, line 1: "),
    ],
)
def test_mistakes_are_one_line(hierbench, tmp_path, text, says):
    (tmp_path / "study.yaml").write_text(text + "\n")
    done = hierbench("run", "--config", "study.yaml")
    assert done.status == 2
    assert says in done.err
    assert len(done.err.splitlines()) == 1
    assert not (tmp_path / "runs").exists()


def test_a_file_that_is_not_there(hierbench):
    done = hierbench("run", "--config", "nowhere.yaml")
    assert done.status == 2
    assert "config nowhere.yaml" in done.err
    assert len(done.err.splitlines()) == 1
