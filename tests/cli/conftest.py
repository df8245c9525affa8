"""Running the command line inside the test process: importing torch anew for each command would cost seconds."""

from typing import NamedTuple

import pytest
from typer.main import get_command

from hierbench.cli import app, main


class Done(NamedTuple):
    """What a command left behind."""

    status: int
    out: str
    err: str


@pytest.fixture
def hierbench(capsys, monkeypatch, tmp_path):
    """hierbench("run", "--suite", "x") -> Done; runs in an empty folder, 120 columns wide."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.delenv("HIERBENCH_DATA", raising=False)

    def command(*words):
        with pytest.raises(SystemExit) as stop:
            main([str(word) for word in words])
        return Done(stop.value.code, *capsys.readouterr())

    return command


@pytest.fixture(scope="session")
def commands():
    """Every command of the program: ("data", "verify") -> what typer made of it."""
    return _commands(get_command(app), ())


def _commands(group, words):
    found = {}
    context = group.make_context("hierbench", [], resilient_parsing=True)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if hasattr(command, "list_commands"):
            found |= _commands(command, (*words, name))
        else:
            found[*words, name] = command
    return found
