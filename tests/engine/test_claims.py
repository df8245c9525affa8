"""Several processes into one output folder: every measurement once, nothing lost, the dead leave nothing behind."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from hierbench.engine import claims
from hierbench.engine.claims import Claims
from hierbench.errors import OutputError
from hierbench.files import new_folder
from hierbench.results import read_results, read_run

RUN = """
sys.path.insert(0, here)
import logging, time
from pathlib import Path
import fakes
from hierbench.data.datasets import ImageFiles
from hierbench.engine import setup
from hierbench.engine.runner import run

logging.basicConfig(level="INFO", format="%(message)s")
things = fakes.dataset(ImageFiles(Path(folder), tuple(sorted(p.name for p in Path(folder).glob("*.png")))))
setup.open_dataset = lambda name, locations, **how: things
tasks = [fakes.Task(f"mean/{n}") for n in range(5)]
models = [fakes.Adapter("one"), fakes.Adapter("two", sha256="cd" * 32)]
Path(ready, str(me)).touch()
while len(list(Path(ready).iterdir())) < 2:
    time.sleep(0.01)
found = run(models, tasks, out=out, cache=False)
print("scored", sum(len(task.scored) for task in tasks), "has", *(f"{r.model}:{r.task}" for r in found))
"""


def test_two_runs_into_one_folder_share_the_work(fakes, images, process, tmp_path):
    ready, out = tmp_path / "ready", tmp_path / "out"
    ready.mkdir()
    names = {"folder": str(images.folder), "out": str(out), "ready": str(ready)}
    names["here"] = str(Path(fakes.__file__).parent)
    both = [process(RUN, tmp_path / f"log{me}", me=me, **names) for me in range(2)]
    for one in both:
        one.join(120)
    logs = [(tmp_path / f"log{me}").read_text() for me in range(2)]
    assert [one.exitcode for one in both] == [0, 0], logs
    told = [log.splitlines()[-1].split(" has ") for log in logs]
    assert sum(int(scored.split()[1]) for scored, _ in told) == 10
    everything = [f"{model}:mean/{n}" for model in ("one", "two") for n in range(5)]
    assert [has.split() for _, has in told] == [everything, everything]
    assert [f"{record.model}:{record.task}" for record in read_results(out)] == everything
    assert sorted(path.name for path in out.iterdir()) == [".lock", "items", "results", "run.json"]


class Task:
    """As much of a task as a claim looks at."""

    def __init__(self, name):
        self.spec = self
        self.name = name


def claim_of(out, **content):
    path = Claims(out)._path("m", "t")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return path


def gone():
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_claim_is_held_until_the_next_task_and_freed_at_the_end(tmp_path):
    tasks = [Task("a"), Task("b"), Task("c")]
    with Claims(tmp_path) as mine:
        turn = mine.turn("m", tasks)
        assert next(turn).name == "a"
        assert len(list((tmp_path / ".claims").iterdir())) == 1
        assert next(turn).name == "b"
        assert [task.name for task in tasks] == ["c"]
        assert len(list((tmp_path / ".claims").iterdir())) == 1
        turn.close()
        assert list((tmp_path / ".claims").iterdir()) == []
    assert not (tmp_path / ".claims").exists()


def test_what_a_living_process_claims_is_left_alone(tmp_path):
    path = claim_of(tmp_path, host=socket.gethostname(), pid=os.getppid())
    tasks = [Task("t"), Task("u")]
    with Claims(tmp_path) as mine:
        assert [task.name for task in mine.turn("m", tasks)] == ["u"]
        assert [task.name for task in tasks] == ["t"]
        assert mine.holders("m", tasks) == {f"process {os.getppid()} on {socket.gethostname()}"}
    assert path.exists()


@pytest.mark.parametrize(
    "content", ["dead", "stale", "stale elsewhere", "{", "[]", '{"pid": 1}', '{"host": 1, "pid": []}']
)
def test_what_nobody_holds_is_taken_over(tmp_path, content):
    path = claim_of(tmp_path, host=socket.gethostname(), pid=os.getppid())
    if content == "dead":
        claim_of(tmp_path, host=socket.gethostname(), pid=gone())
    elif content == "stale elsewhere":
        claim_of(tmp_path, host="elsewhere", pid=1)
    elif content != "stale":
        path.write_text(content)
    if content.startswith("stale"):
        os.utime(path, (0, path.stat().st_mtime - claims.STALE_SECONDS - 1))
    with Claims(tmp_path) as mine:
        assert [task.name for task in mine.turn("m", [Task("t")])] == ["t"]


def test_a_fresh_claim_of_another_machine_stands(tmp_path):
    claim_of(tmp_path, host="elsewhere", pid=gone())
    with Claims(tmp_path) as mine:
        assert not mine.take("m", "t")


def test_the_heartbeat_keeps_a_claim_fresh(tmp_path, monkeypatch):
    monkeypatch.setattr(claims, "BEAT_SECONDS", 0.01)
    with Claims(tmp_path) as mine:
        assert mine.take("m", "t")
        path = mine._path("m", "t")
        os.utime(path, (0, 0))
        while path.stat().st_mtime == 0:
            pass


def test_a_folder_that_takes_no_claims_is_told(tmp_path):
    (tmp_path / ".claims").write_text("a file")
    with Claims(tmp_path) as mine, pytest.raises(OutputError, match=r"cannot write .*choose another --out"):
        mine.take("m", "t")


WRITES = """
import sys
from hierbench.results import write_run
for n in range(20):
    write_run(sys.argv[1], {"models": [f"{sys.argv[2]}-{n}"], "tasks": ["t"]})
"""


def at_once(code, *arguments):
    """Start the code once for each set of arguments, all at the same time; their output when all have ended well."""
    started = [
        subprocess.Popen([sys.executable, "-c", code, *words], stdout=subprocess.PIPE, text=True)
        for words in arguments
    ]
    said = [process.communicate(timeout=120)[0] for process in started]
    assert [process.returncode for process in started] == [0] * len(arguments)
    return said


def test_no_model_is_lost_from_run_json(tmp_path):
    at_once(WRITES, *([str(tmp_path), name] for name in "abc"))
    told = read_run(tmp_path)
    assert sorted(told["models"]) == sorted(f"{name}-{n}" for name in "abc" for n in range(20))
    assert told["tasks"] == ["t"]


FOLDERS = """
import sys
from pathlib import Path
from hierbench.files import new_folder
for n in range(20):
    print(new_folder(Path(sys.argv[1]) / "runs" / "now").name)
"""


def test_new_folders_are_nobody_elses(tmp_path):
    names = [name for text in at_once(FOLDERS, *[[str(tmp_path)]] * 3) for name in text.split()]
    assert sorted(names) == sorted(["now", *(f"now-{n}" for n in range(2, 61))])
    (tmp_path / "file").write_text("")
    assert new_folder(tmp_path / "file").name == "file-2"
