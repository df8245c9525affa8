"""Integers from a named seed, the same on every platform and with every version of every library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")
_MASK = (1 << 64) - 1


class Draws:
    """A stream of integers that its key alone decides: SplitMix64 (Steele, Lea, Flood 2014) from a hash."""

    def __init__(self, *key: int | str):
        state = 0xCBF29CE484222325
        for part in key:
            for byte in (str(part) + "/").encode():  # FNV-1a, so that neighbouring keys share no stream
                state = ((state ^ byte) * 0x100000001B3) & _MASK
        self._state = state

    def below(self, count: int) -> int:
        """An integer in [0, count); the bias of at most count / 2⁶⁴ does not matter here."""
        self._state = z = (self._state + 0x9E3779B97F4A7C15) & _MASK
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        return ((z ^ (z >> 31)) * count) >> 64

    def between(self, low: int, high: int) -> int:
        """An integer in [low, high]."""
        return low + self.below(high - low + 1)

    def choice(self, items: Sequence[T]) -> T:
        return items[self.below(len(items))]
