"""Bars on stderr where somebody watches, silence elsewhere."""

import io

import pytest

from hierbench import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_silent_where_nobody_watches(capsys):
    quiet = progress.choose(None)  # under pytest stderr is no terminal
    assert isinstance(quiet, progress.Quiet)
    with quiet.bar("images", 3) as advance:
        advance(3)
    assert capsys.readouterr() == ("", "")


def test_bars_go_to_stderr_and_away(monkeypatch, capsys):
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    bars = progress.choose(None)
    with bars.bar("tasks", 2) as outer:
        for title in ("tiny: images", "odd [bold] title"):
            with bars.bar(title, 10) as advance:
                advance(4)
                advance(6)
            outer(1)
    with bars.bar("again", 1) as advance:
        advance(1)
    assert capsys.readouterr().out == ""
    assert "tasks" in terminal.getvalue()


def test_a_bar_ends_with_an_exception(monkeypatch):
    monkeypatch.setattr("sys.stderr", Terminal())
    bars = progress.choose(True)
    with pytest.raises(KeyboardInterrupt), bars.bar("tasks", 2):
        raise KeyboardInterrupt
    with bars.bar("tasks", 2) as advance:
        advance(2)


def test_a_given_one_is_used():
    mine = progress.Quiet()
    assert progress.choose(mine) is mine
    assert isinstance(progress.choose(False), progress.Quiet)
