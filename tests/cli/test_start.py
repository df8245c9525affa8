"""How the command line starts and ends: help, version, fast imports, exit statuses, one-line errors."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hierbench import __version__
from hierbench.cli import NOUNS
from hierbench.errors import HierbenchError

ROOT = Path(__file__).resolve().parents[2]


def test_alone_it_prints_its_help(hierbench):
    alone, asked = hierbench(), hierbench("--help")
    assert alone == asked
    assert alone.status == 0
    for noun, summary in NOUNS.items():
        assert f"\n  {noun} " in alone.out
        assert summary in alone.out


def test_the_help_says_of_each_noun_what_its_own_help_says(hierbench):
    for noun, summary in NOUNS.items():
        done = hierbench(noun, "--help")
        assert done.status == 0
        assert f"Usage: hierbench {noun} " in done.out
        assert " ".join(done.out.split("\n\n")[1].split()) == summary


@pytest.mark.parametrize("noun", ["leaderboard", "cache"])
def test_a_noun_alone_prints_its_help(hierbench, noun):
    done = hierbench(noun)
    assert done.status == 0
    assert f"Usage: hierbench {noun}" in done.out


def test_every_option_is_explained(hierbench):
    for words in (
        ["run"],
        ["doctor"],
        ["leaderboard", "show"],
        ["leaderboard", "compare"],
        ["cache", "prune"],
    ):
        done = hierbench(*words, "-h")
        assert done.status == 0
        options = [line.strip() for line in done.out.splitlines() if line.startswith("  --")]
        assert options
        assert all("  " in line for line in options), options


def test_version(hierbench):
    assert hierbench("--version") == (0, f"hierbench {__version__}\n", "")


def test_help_imports_nothing_heavy():
    heavy = [
        "torch",
        "numpy",
        "pandas",
        "pyarrow",
        "transformers",
        "timm",
        "scipy",
        "pydantic",
        "yaml",
        "rich.table",
    ]
    commands = [["--help"], ["leaderboard", "show", "--help"], *([noun, "--help"] for noun in NOUNS)]
    program = f"""
import sys
from hierbench.cli import main
for words in {commands}:
    try:
        main(words)
    except SystemExit as stop:
        assert stop.code == 0
print([name for name in {heavy} if name in sys.modules], file=sys.stderr)
"""
    done = _python("-c", program)
    assert (done.returncode, done.stderr.strip()) == (0, "[]")


def test_it_runs_as_a_module():
    assert _python("-m", "hierbench", "--version").stdout.strip() == f"hierbench {__version__}"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["run", "--bad"], "No such option: --bad (see hierbench run --help)"),
        (["rnu"], "No such command 'rnu'. Did you mean 'run'? (see hierbench --help)"),
        (["leaderboard", "build"], "Missing argument"),
        (["run", "--limit", "0"], "'--limit'"),
        (["run", "--limit", "x"], "'--limit'"),
        (["run", "--dtype", "int8"], "'--dtype': 'int8' is not one of 'auto', 'float32'"),
        (["miniature", "show", "0"], "'N'"),
        (["run", "--protocol", "mine"], "'--protocol'"),
        (["run", "--out"], "--out"),
    ],
)
def test_wrong_options_end_with_one_line_and_status_2(hierbench, words, line):
    _one_line(hierbench(*words), line)


def test_an_error_of_ours_is_one_line(hierbench, monkeypatch):
    def broken():
        raise HierbenchError("something is wrong\nthere: do that")

    monkeypatch.setattr("hierbench.errata.protocols", broken)
    done = hierbench("errata")
    assert done == (2, "", "hierbench: error: something is wrong there: do that\n")
    for words in (["--debug", "errata"], ["errata", "--debug"]):
        debug = hierbench(*words)
        assert debug.status == 2
        assert "Traceback" in debug.err
        assert debug.err.endswith("hierbench: error: something is wrong there: do that\n")


def test_a_bug_is_one_line_as_well(hierbench, monkeypatch):
    monkeypatch.setattr("hierbench.errata.protocols", lambda: 1 / 0)
    done = hierbench("errata")
    assert done.status == 2
    assert done.err.startswith("hierbench: internal error: ZeroDivisionError: division by zero")
    assert done.err.count("\n") == 1


def test_a_full_disk_is_no_bug(hierbench, monkeypatch):
    def full():
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("hierbench.errata.protocols", full)
    _one_line(hierbench("errata"), "error: No space left on device: free some")


def test_without_stdout():
    program = "from hierbench.cli import main; main(['errata'])"
    done = subprocess.run(
        ["sh", "-c", '"$0" -c "$1" >&-', sys.executable, program], cwd=ROOT, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_ctrl_c(hierbench, monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr("hierbench.errata.protocols", interrupted)
    assert hierbench("errata") == (130, "", "hierbench: interrupted\n")


def test_ctrl_c_from_outside():
    program = (
        "import time, hierbench.errata\n"
        "def wait(): print('waiting', flush=True); time.sleep(60)\n"
        "hierbench.errata.protocols = wait\n"
        "from hierbench.cli import main; main(['errata'])"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "waiting\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (130, "hierbench: interrupted\n")


def test_nobody_reads_the_output():
    process = subprocess.Popen(
        [sys.executable, "-m", "hierbench", "errata"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.close()  # as `| true` does
    assert (process.wait(60), process.stderr.read()) == (141, b"")


def test_log_handlers_do_not_outlive_the_command(hierbench):
    import logging

    log = logging.getLogger("hierbench")
    before = list(log.handlers), log.level, log.propagate
    hierbench("errata")
    assert (list(log.handlers), log.level, log.propagate) == before


def _python(*words):
    return subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, timeout=120)


def _one_line(done, text):
    assert done.status == 2
    assert done.out == ""
    assert done.err.startswith("hierbench: error: ")
    assert done.err.count("\n") == 1
    assert text in done.err
    assert "Traceback" not in done.err
