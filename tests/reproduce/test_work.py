"""The work of a study: its order, what it shares, going on after an end in the middle, several processes."""

import json
import os
import socket

import pytest
import yaml
from processes import forkserver
from small_study import SMALL, TINY

from hierbench.engine import claims as claiming
from hierbench.errors import HierbenchError, UnknownNameError, UsageError
from hierbench.reference.training import loop
from hierbench.reproduce import report, team, verdicts, work


class Killed(Exception):  # noqa: N818 - no error
    """The end of a process."""


@pytest.fixture
def study(tmp_path):
    return written(tmp_path)


def written(folder):
    path = folder / "mine.yaml"
    path.write_text(yaml.safe_dump(SMALL))
    return str(path)


@pytest.fixture
def plan(study, tmp_path):
    return work.Plan(study, tmp_path / "out", seeds=(0,), steps=3, overrides=TINY, limit=8)


def noted(patch):
    """The list that notes which trainings really run, in order."""
    ran = []
    real = loop.train

    def train(config, out, **options):
        ran.append((config.family, config.train.seed, bool(options["resume"])))
        return real(config, out, **options)

    patch.setattr(loop, "train", train)
    return ran


@pytest.fixture
def trained(monkeypatch):
    return noted(monkeypatch)


@pytest.fixture(scope="module")
def two_seeds(tmp_path_factory):
    """A plan of two seeds whose work is done, the trainings that ran for it, and those told when each was done."""
    folder, seen = tmp_path_factory.mktemp("two"), []
    plan = work.Plan(written(folder), folder / "out", seeds=(0, 1), steps=3, overrides=TINY, limit=8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HIERBENCH_CACHE", str(folder / "cache"))
        ran = noted(patch)
        assert work.work(plan, quiet=True, after=lambda training: seen.append(training.name)) == []
    return plan, ran, seen


def test_seed_by_seed_and_never_twice(two_seeds, trained):
    plan, ran, seen = two_seeds
    assert ran == [("clip", 0, False), ("meru", 0, False), ("clip", 1, False), ("meru", 1, False)]
    assert seen == [training.name for training in plan.trainings]
    assert all(map(plan.measured, plan.trainings))
    assert work.estimate(plan) == []
    assert work.work(plan, quiet=True) == []
    assert trained == []
    assert not list(plan.out.glob("trainings/*/checkpoints"))


def test_it_goes_on_where_it_was_killed(plan, two_seeds, trained, monkeypatch):
    """In the middle of a training, and between a training and its measurement: the weights are those of one go."""
    from hierbench.engine import runner
    from hierbench.reference.training import state

    def killed(*_, **__):
        raise Killed

    save = state.save

    def save_twice(run, step, *rest, **options):
        made = save(run, step, *rest, **options)
        if step == 2:
            raise Killed
        return made

    with monkeypatch.context() as patch:
        patch.setattr(state, "save", save_twice)
        with pytest.raises(Killed):
            work.work(plan, quiet=True)
    assert work.steps_left(plan, plan.trainings[0]) == 1
    with monkeypatch.context() as patch:
        patch.setattr(runner, "run", killed)
        with pytest.raises(Killed):
            work.work(plan, quiet=True)
    assert work.steps_left(plan, plan.trainings[0]) == 0
    assert not plan.measured(plan.trainings[0])
    assert work.work(plan, quiet=True) == []
    assert trained[:3] == [("clip", 0, False), ("clip", 0, True), ("meru", 0, False)]
    whole, _, _ = two_seeds
    assert len(plan.trainings) == 2
    for training in plan.trainings:
        weights = [p.folder(training) / "model.safetensors" for p in (plan, whole)]
        assert weights[0].read_bytes() == weights[1].read_bytes()


def test_what_another_process_has_claimed_is_left_to_it(plan, trained, monkeypatch):
    """The first training is another's, alive on this machine: the rest is done, then its end is waited for."""
    first = plan.trainings[0]
    path = plan.out / claiming.FOLDER / f"{first.name}@training"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"host": socket.gethostname(), "pid": os.getppid()}))
    waited = []

    def wait(self):
        waited.append([family for family, _, _ in trained])
        path.unlink(missing_ok=True)

    monkeypatch.setattr(claiming.Claims, "wait", wait)
    assert work.work(plan, quiet=True) == []
    assert waited == [["meru"]]
    assert trained[-1] == ("clip", 0, False)


def test_a_training_that_fails_leaves_the_others(plan, trained, monkeypatch):
    from hierbench.engine import runner

    real = runner.run

    def run(models, *rest, **options):
        if models[0][0] == "clip":
            raise HierbenchError("no luck\nat all")
        return real(models, *rest, **options)

    monkeypatch.setattr(runner, "run", run)
    failures = work.work(plan, quiet=True)
    assert failures == ["one, seed 0: no luck at all"]
    result = verdicts.tell(plan, "hierbench reproduce mine.yaml")
    assert result["trainings"] == {"done": 1, "of": 2}
    assert result["rows"]["one"]["figures"] == {}
    assert result["claims"][0]["verdict"] == "cannot be told"
    assert "1 of 2 trainings are done" in report.markdown(result)


def test_figures_and_differences_are_those_of_the_records(two_seeds, tmp_path):
    from hierbench import results

    plan, _, _ = two_seeds
    result = verdicts.tell(plan, "hierbench reproduce mine.yaml")
    recorded = {
        (row, training.seed): results.read_record(plan.out, training.name, "retrieval/miniature")
        for training in plan.trainings
        for row in training.rows
    }
    figures = {key: record.metrics["t2i_r1"].value for key, record in recorded.items()}
    for row in ("one", "other"):
        told = result["rows"][row]["figures"]["ret"]
        assert list(told["by_seed"].values()) == pytest.approx([figures[row, seed] for seed in (0, 1)])
        assert told["mean"] == pytest.approx((figures[row, 0] + figures[row, 1]) / 2)
    (claim,) = result["claims"]
    assert claim["by_seed"] == pytest.approx(
        [figures["one", seed] - figures["other", seed] for seed in (0, 1)]
    )
    files = report.write(result, tmp_path / "told")
    assert [path.name for path in files] == ["table.md", "result.json", "figure.svg"]
    again = report.read(tmp_path / "told" / "result.json")
    assert report.markdown(again) == (tmp_path / "told" / "table.md").read_text()
    before = (tmp_path / "told" / "figure.svg").read_bytes()
    report.write(again, tmp_path / "told")
    assert (tmp_path / "told" / "figure.svg").read_bytes() == before


def test_two_processes_share_the_work(plan, monkeypatch):
    """The second one, which would import torch for seconds, is forked off the server that tests share."""
    context = forkserver()
    monkeypatch.setattr(team.multiprocessing, "get_context", lambda _: context)
    assert team.work_together(plan, 2) == []
    assert all(map(plan.measured, plan.trainings))
    assert not (plan.out / claiming.FOLDER).exists()


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"seeds": ()}, "at least one"),
        ({"seeds": (1, 1)}, "each once"),
        ({"seeds": (1 << 32,)}, "from 0 to"),
        ({"rows": ("won",)}, "no row of mine 'won'"),
        ({"overrides": ("train.speed=1",)}, "study mine, row one: config train.speed: unknown key"),
    ],
)
def test_wrong_plans_are_refused(study, tmp_path, changes, what):
    with pytest.raises((UsageError, UnknownNameError), match=what):
        _ = work.Plan(study, tmp_path / "out", **changes).trainings
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("task", "metric"), [("retrieval/minature", "t2i_r1"), ("retrieval/miniature", "t2i_r2")]
)
def test_measures_that_nobody_knows_are_refused(tmp_path, task, metric):
    measure = {"paper": "R@1", "title": "R@1", "task": task, "metrics": [metric]}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(SMALL | {"measures": {"ret": measure}}))
    with pytest.raises(UnknownNameError, match="did you mean"):
        _ = work.Plan(str(tmp_path / "mine.yaml"), tmp_path / "out").trainings
