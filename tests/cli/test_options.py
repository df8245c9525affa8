"""One declaration an option: a spelling means the same in every command, and is taken wherever it makes sense."""

import re
from collections import defaultdict

import pytest

TAKEN = {
    "--out": "run; train; reproduce; analyze *; data prepare; data show; data export; data grit-prepare; "
    "clean hierarcaps; "
    "clean miniature; clean merge; leaderboard build; leaderboard submit; leaderboard add; miniature show",
    "--data": "run; errata; datasets; doctor; analyze *; data verify; data show; data export; clean hierarcaps; "
    "clean report",
    "--manifest": "run; tasks; datasets; doctor; analyze *; data prepare; data verify; data show; data export",
    "--adapter": "run; models; errata; analyze *; clean hierarcaps; clean miniature; clean report",
    "--task-file": "run; tasks",
    "--device": "run; train; reproduce; errata; analyze *; clean hierarcaps; clean miniature; clean report",
    "--protocol": "run; analyze *; clean report; data export",
    "--offline": "run; errata; analyze *; clean report",
    "--format": "analyze *; leaderboard show; data export",
    "--limit": "run; reproduce; errata; analyze *; clean hierarcaps",
    "--json": "run; reproduce; models; tasks; datasets; errata; doctor; data prepare; data verify; data show; "
    "data grit-check; clean hierarcaps; clean miniature; clean report; leaderboard show; leaderboard build; "
    "leaderboard page; leaderboard compare; leaderboard rank; leaderboard submit; leaderboard verify; leaderboard add; "
    "analyze *; cache stats; cache prune",
}


def options(command):
    return [param for param in command.params if param.param_type_name == "option" and param.name != "help"]


def test_a_spelling_means_the_same_in_every_command(commands):
    meanings = defaultdict(lambda: defaultdict(list))
    for words, command in commands.items():
        for option in options(command):
            told = re.sub(r" \(.*?\)", "", option.help)  # in parentheses stands the command's own default
            meaning = told, option.metavar, option.multiple, option.is_flag, tuple(sorted(option.opts))
            for spelling in option.opts:
                meanings[spelling][meaning].append(" ".join(words))
    several = {spelling: dict(means) for spelling, means in meanings.items() if len(means) > 1}
    assert not several


@pytest.mark.parametrize("spelling", TAKEN)
def test_an_option_is_taken_wherever_it_makes_sense(commands, spelling):
    for entry in TAKEN[spelling].split("; "):
        noun, _, verb = entry.partition(" ")
        matching = [w for w in commands if w[0] == noun and (verb in ("", "*") or w[1] == verb)]
        assert matching, entry
        for words in matching:
            assert any(spelling in option.opts for option in options(commands[words])), (words, spelling)


def test_a_model_is_positional_everywhere(commands):
    for words, command in commands.items():
        assert not any({"--model", "--models"} & set(option.opts) for option in options(command)), words
    with_models = {
        words
        for words, command in commands.items()
        if any(param.metavar == "MODEL" for param in command.params if param.param_type_name == "argument")
    }
    analyses = {words for words in commands if words[0] == "analyze"}
    assert (
        with_models
        == {("run",), ("errata",), ("clean", "report"), ("cache", "export"), ("leaderboard", "card")}
        | analyses
    )


def test_every_option_says_what_it_does(commands):
    for words, command in commands.items():
        for option in options(command):
            assert option.help, (words, option.opts)
            assert option.help.endswith("."), (words, option.opts)
            assert option.is_flag or option.metavar, (words, option.opts)
