"""Collecting garbage in a run sets aside what was there before, gives it back, and leaves a caller's doing alone."""

import gc
import weakref

import pytest

from hierbench.engine import garbage


@pytest.fixture
def nothing_aside():
    assert gc.get_freeze_count() == 0
    yield
    gc.unfreeze()


class Ring:
    """Garbage that only a collection finds."""

    def __init__(self):
        self.own = self


def dropped():
    """A reference to a ring that nobody else holds."""
    return weakref.ref(Ring())


def test_what_was_there_is_set_aside_within_and_given_back_after(nothing_aside):
    with garbage.only_new():
        before = gc.get_freeze_count()
        assert before > 1000
        gone, kept = dropped(), Ring()
        garbage.collect()
        assert gone() is None
        assert gc.get_freeze_count() > before  # with what is kept
        assert kept.own is kept
    assert gc.get_freeze_count() == 0


def test_it_is_given_back_after_a_fault(nothing_aside):
    with pytest.raises(ValueError, match="of a run"), garbage.only_new():
        raise ValueError("of a run")
    assert gc.get_freeze_count() == 0


def test_within_another_run_the_outer_one_gives_back(nothing_aside):
    with garbage.only_new():
        with garbage.only_new():
            pass
        assert gc.get_freeze_count() > 1000
    assert gc.get_freeze_count() == 0


def test_what_a_caller_has_set_aside_stays_so(nothing_aside):
    gc.freeze()
    aside = gc.get_freeze_count()
    with garbage.only_new():
        gone = dropped()
        garbage.collect()
        assert gone() is None
    assert gc.get_freeze_count() <= aside
    assert gc.get_freeze_count() > 1000


def test_outside_a_run_nothing_is_set_aside(nothing_aside):
    gone = dropped()
    garbage.collect()
    assert gone() is None
    assert gc.get_freeze_count() == 0
