"""Ragged token sequences as one flat batch in which every shared beginning stands once.

The text tower is causal: what it computes for a token depends on the tokens before it alone. The sequences of a batch
are therefore laid out as a tree: sorted, each adds only the tokens (nodes) that it does not share with the one before.
Linear layers see the flat list of nodes, without padding; attention looks up the nodes on each sequence's path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

MIN_SAVING = 0.04
"""Share of tokens that common beginnings must save before the look-ups of attention are worth their cost."""


@dataclass(frozen=True)
class SequenceGroup:
    """n sequences that add S nodes each; their nodes are rows start … start + n·S of the flat batch.

    `keys` None: the sequences share nothing, so each attends causally to its own S nodes (K = S).
    """

    start: int
    count: int  # n
    length: int  # S
    keys: Tensor | None  # (n, K) int64 rows of the nodes on each path, padded with row 0
    mask: Tensor | None  # (n, 1, S, K) bool, True = may attend; None = causal
    ends: Tensor  # (n,) int64 rows of the last tokens
    end_mask: Tensor | None  # (n, 1, 1, K) bool for the last tokens alone; None = all of K

    @property
    def rows(self) -> slice:
        return slice(self.start, self.start + self.count * self.length)


@dataclass(frozen=True)
class Pack:
    """A batch of B token sequences, laid out as N nodes."""

    tokens: Tensor  # (N,) int64
    positions: Tensor  # (N,) int64, place of each node in its sequences
    groups: tuple[SequenceGroup, ...]
    order: Tensor  # (B,) int64: input b is row order[b] of the groups' last tokens, end to end
    longest: int  # tokens of the longest sequence

    def to(self, device: torch.device) -> Pack:
        """The same pack with its tensors on `device`; from pinned memory nothing waits for the copies."""
        if self.tokens.device == device:
            return self
        return self._changed(lambda tensor: tensor.to(device, non_blocking=True))

    def pin_memory(self) -> Pack:
        """The same pack in pinned memory."""
        return self._changed(Tensor.pin_memory)

    def _changed(self, change: Callable[[Tensor], Tensor]) -> Pack:
        groups = tuple(_changed(group, change) for group in self.groups)
        return _changed(replace(self, groups=groups), change)


def pack(sequences: Sequence[Sequence[int] | Tensor], *, share: bool | None = None, step: int = 1) -> Pack:
    """Lay out B non-empty token sequences as one batch; each is cut after the first place of its largest id.

    `share`: compute common beginnings once; None = where that saves enough. `step`: pad what a sequence adds to a
    multiple of this many tokens, for fewer and larger groups (on GPUs, where a launch costs more than a few tokens).
    """
    cut = [_until_end(sequence) for sequence in sequences]
    distinct = sorted(set(cut))
    shared = _shared_lengths(distinct)
    if share is None:
        share = sum(shared) >= MIN_SAVING * sum(map(len, distinct))
    if not share:
        shared = [0] * len(distinct)

    members: dict[
        tuple[int, int], list[int]
    ] = {}  # (nodes added, about the path's length) -> rows of `distinct`
    for row, (sequence, common) in enumerate(zip(distinct, shared, strict=True)):
        added = _round_up(len(sequence) - common, step)
        members.setdefault((added, _round_up(len(sequence), 4 * step) if common else 0), []).append(row)

    tokens: list[int] = []
    positions: list[int] = []
    own: list[range] = [range(0)] * len(distinct)  # rows of the nodes that each sequence adds
    for (added, _), rows in members.items():
        for row in rows:
            new, padding = distinct[row][shared[row] :], added - len(distinct[row]) + shared[row]
            own[row] = range(len(tokens), len(tokens) + len(new))
            tokens += [*new, *[0] * padding]
            positions += [*range(shared[row], len(distinct[row])), *[0] * padding]

    paths: list[list[int]] = []  # rows of the nodes that make up each sequence
    for row, nodes in enumerate(own):
        paths.append([*paths[row - 1][: shared[row]], *nodes] if row else [*nodes])

    groups: list[SequenceGroup] = []
    place: dict[tuple[int, ...], int] = {}
    start = 0
    for (added, reach), rows in members.items():
        of_group = [paths[row] for row in rows]
        groups.append(_group(start, added, of_group, [shared[row] for row in rows] if reach else None))
        start += added * len(rows)
        place |= {distinct[row]: len(place) + index for index, row in enumerate(rows)}
    order = torch.tensor([place[sequence] for sequence in cut], dtype=torch.long)
    longest = max(map(len, distinct), default=0)
    return Pack(torch.tensor(tokens), torch.tensor(positions), tuple(groups), order, longest)


def chunks(sequences: Sequence[Sequence[int]], budget: int) -> Iterator[list[int]]:
    """Positions of all sequences, sorted so that common beginnings meet, in runs of about `budget` tree nodes."""
    order = sorted(range(len(sequences)), key=lambda row: tuple(sequences[row]))
    chunk: list[int] = []
    nodes = 0
    for position, common in zip(order, _shared_lengths([sequences[i] for i in order]), strict=True):
        added = len(sequences[position]) - common
        if chunk and nodes + added > budget:
            yield chunk
            chunk, nodes, added = [], 0, len(sequences[position])
        chunk.append(position)
        nodes += added
    if chunk:
        yield chunk


def _until_end(sequence: Sequence[int] | Tensor) -> tuple[int, ...]:
    """A sequence up to the first place of its largest id, where the released models read the feature."""
    ids = tuple(sequence.tolist() if isinstance(sequence, Tensor) else sequence)
    return ids[: ids.index(max(ids)) + 1]


def _shared_lengths(ordered: Sequence[Sequence[int]]) -> list[int]:
    """Tokens that each sequence of a sorted list shares with the one before it."""
    shared = [0] * len(ordered)
    for row in range(1, len(ordered)):
        pairs = zip(ordered[row - 1], ordered[row], strict=False)
        shared[row] = next(
            (place for place, (before, after) in enumerate(pairs) if before != after),
            min(len(ordered[row - 1]), len(ordered[row])),
        )
    return shared


def _group(start: int, added: int, paths: list[list[int]], shared: list[int] | None) -> SequenceGroup:
    lengths = torch.tensor([len(path) for path in paths])
    keys = mask = end_mask = None
    width = added
    if shared is not None:
        width = int(lengths.max())
        keys = torch.tensor([path + [0] * (width - len(path)) for path in paths])
        places = (
            torch.tensor(shared)[:, None, None] + torch.arange(added)[:, None]
        )  # of the queries: (n, S, 1)
        mask = (torch.arange(width) <= places)[:, None]
    if int(lengths.min()) < width:
        end_mask = (torch.arange(width) < lengths[:, None])[:, None, None]
    ends = torch.tensor([path[-1] for path in paths])
    return SequenceGroup(start, len(paths), added, keys, mask, ends, end_mask)


def _round_up(value: int, step: int) -> int:
    return -(-value // step) * step


def _changed(record, change):
    tensors = {key: change(value) for key, value in vars(record).items() if isinstance(value, Tensor)}
    return replace(record, **tensors)
