"""A small set of noisy chains with roles that know the truth, and ways to run a cleaning on it."""

import os

import pytest

from hierbench.cleaning import oracle, output, pipeline, sources
from hierbench.cleaning.roles import Cast
from hierbench.cleaning.select import Rules
from hierbench.miniature.noise import noisy_chains

COUNT, SHARE, SEED = 50, 0.3, "noise"


@pytest.fixture(scope="session")
def noisy():
    return noisy_chains(COUNT, SHARE, SEED)


@pytest.fixture(scope="session")
def source():
    return sources.miniature(COUNT, SHARE, SEED)


@pytest.fixture(scope="session")
def truth(noisy):
    """The oracle in all three roles."""
    return oracle.cast(noisy)


class Counting:
    """A role that counts the items it is asked, and may do something before it answers."""

    def __init__(self, role, before=lambda items: None):
        self.role, self.before, self.identity = role, before, role.identity
        self.asked = 0

    def _answer(self, method, items):
        self.before(items)
        self.asked += len(items)
        return getattr(self.role, method)(items)

    def probability_of_yes(self, items):
        return self._answer("probability_of_yes", items)

    def embed_images(self, items):
        return self._answer("embed_images", items)

    def embed_texts(self, items):
        return self._answer("embed_texts", items)

    def relevance(self, items):
        return self._answer("relevance", items)


@pytest.fixture
def counting(truth):
    """counting(before) -> (cast, the role behind all three)."""

    def make(before=lambda items: None):
        role = Counting(truth.verifier, before)
        return Cast(role, role, role), role

    return make


@pytest.fixture
def clean(source, truth):
    """clean(out, cast=…, **options) -> outcome; writes it where there is one."""

    def run(out, cast=truth, rules=None, given=source, **options):
        outcome = pipeline.clean(given, cast, rules or Rules(negatives=20), out, **options)
        if isinstance(outcome, pipeline.Outcome):
            output.write(outcome, out)
        return outcome

    return run


@pytest.fixture(scope="session")
def contents():
    """contents(folder) -> name: bytes of everything that a cleaning leaves but its answers."""

    def read(folder):
        return {
            str(path.relative_to(folder)): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file() and "answers" not in path.relative_to(folder).parts
        }

    return read


@pytest.fixture
def forked():
    """forked(function) -> exit status of a copy of this process that runs it; quick, as nothing is imported anew."""

    def run(function):
        child = os.fork()
        if child == 0:
            try:
                function()
                os._exit(0)
            except BaseException:
                import traceback

                traceback.print_exc()
                os._exit(77)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    return run
