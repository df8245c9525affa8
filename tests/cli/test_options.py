"""One declaration an option: a spelling means the same in every command, and is taken wherever it makes sense."""

import re
from collections import defaultdict

import pytest
from typer.main import get_command

from hierbench.cli import app


def commands(group=None, words=()):
    """Every command of the program: ("data", "verify") -> what typer made of it."""
    found = {}
    group = group or get_command(app)
    context = group.make_context("hierbench", [], resilient_parsing=True)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if hasattr(command, "list_commands"):
            found |= commands(command, (*words, name))
        else:
            found[*words, name] = command
    return found


COMMANDS = commands()
TAKEN = {
    "--out": "run; train; analyze *; data prepare; data show; data export; data grit-prepare; clean hierarcaps; "
    "clean miniature; clean merge; leaderboard build; miniature show",
    "--data": "run; errata; datasets; doctor; analyze *; data verify; data show; data export; clean hierarcaps; "
    "clean report",
    "--manifest": "run; tasks; datasets; doctor; analyze *; data prepare; data verify; data show; data export",
    "--adapter": "run; models; errata; analyze *; clean hierarcaps; clean miniature; clean report",
    "--task-file": "run; tasks",
    "--device": "run; train; errata; analyze *; clean hierarcaps; clean miniature; clean report",
    "--protocol": "run; analyze *; clean report; data export",
    "--offline": "run; errata; analyze *; clean report",
    "--limit": "run; errata; analyze *; clean hierarcaps",
    "--json": "run; models; tasks; datasets; errata; doctor; data prepare; data verify; data show; "
    "clean hierarcaps; clean miniature; clean report; leaderboard *; analyze *; cache stats; cache prune",
}


def options(command):
    return [param for param in command.params if param.param_type_name == "option" and param.name != "help"]


def test_a_spelling_means_the_same_in_every_command():
    meanings = defaultdict(lambda: defaultdict(list))
    for words, command in COMMANDS.items():
        for option in options(command):
            told = re.sub(r" \(.*?\)", "", option.help)  # in parentheses stands the command's own default
            meaning = told, option.metavar, option.multiple, option.is_flag, tuple(sorted(option.opts))
            for spelling in option.opts:
                meanings[spelling][meaning].append(" ".join(words))
    several = {spelling: dict(means) for spelling, means in meanings.items() if len(means) > 1}
    assert not several


@pytest.mark.parametrize("spelling", TAKEN)
def test_an_option_is_taken_wherever_it_makes_sense(spelling):
    for entry in TAKEN[spelling].split("; "):
        noun, _, verb = entry.partition(" ")
        matching = [w for w in COMMANDS if w[0] == noun and (verb in ("", "*") or w[1] == verb)]
        assert matching, entry
        for words in matching:
            assert any(spelling in option.opts for option in options(COMMANDS[words])), (words, spelling)


def test_a_model_is_positional_everywhere():
    for words, command in COMMANDS.items():
        assert not any({"--model", "--models"} & set(option.opts) for option in options(command)), words
    with_models = {
        words
        for words, command in COMMANDS.items()
        if any(param.metavar == "MODEL" for param in command.params if param.param_type_name == "argument")
    }
    analyses = {words for words in COMMANDS if words[0] == "analyze"}
    assert with_models == {("run",), ("errata",), ("clean", "report"), ("cache", "export")} | analyses


def test_every_option_says_what_it_does():
    for words, command in COMMANDS.items():
        for option in options(command):
            assert option.help, (words, option.opts)
            assert option.help.endswith("."), (words, option.opts)
            assert option.is_flag or option.metavar, (words, option.opts)
