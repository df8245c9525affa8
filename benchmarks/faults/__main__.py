"""Run the campaign: `python -m benchmarks.faults --inputs 10000 --kills 40 --out faults.json` in the repository's root.

Prints a table of counts (kind of fault x outcome) and what deserves a look, writes both as JSON, and ends with status 1
where anything is an internal error, a hang or a death. Seeds are fixed: input number N of a kind is always the same.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

from benchmarks.faults import interruptions
from benchmarks.faults.kinds import KINDS, prepare, worker
from benchmarks.faults.pool import OUTCOMES, Case, Told, run_cases

FINE = ("refused", "used")


def main() -> int:
    """The command; returns its exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--inputs", type=int, default=1000, help="malformed inputs, over all kinds")
    parser.add_argument("--kills", type=int, default=10, help="runs killed and resumed, of each command")
    parser.add_argument("--kind", action="append", choices=sorted(KINDS), help="of these kinds alone")
    parser.add_argument("--typed", action="store_true", help="by the commands that a person types")
    parser.add_argument("--first", type=int, default=0, help="number of the first input of each kind")
    parser.add_argument("--minutes", type=float, default=60, help="begin no input after so long")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path, help="a JSON file of counts and of what deserves a look")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="faults-") as scratch:
        told = [*inputs(args, Path(scratch))]
        if args.kills:
            told += interruptions.campaign(Path(scratch), args.kills)
    print(table(told))
    bad = [one for one in told if one.outcome not in FINE]
    if args.out:
        document = {
            "counts": counts(told),
            "bad": [[one.case.kind, one.case.number, one.outcome, one.text] for one in bad],
        }
        args.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 1 if bad else 0


def cases(inputs: int, kinds: Iterable[str], first: int = 0) -> list[Case]:
    """So many inputs, shared among the kinds by their weights."""
    names = list(kinds)
    total = sum(KINDS[name].share for name in names)
    shares = {name: max(1, round(inputs * KINDS[name].share / total)) for name in names}
    return [Case(name, first + number) for name, share in shares.items() for number in range(share)]


def inputs(args: argparse.Namespace, scratch: Path) -> Iterable[Told]:
    """The outcome of each malformed input."""
    kinds = [name for name in args.kind or KINDS if KINDS[name].typed or not args.typed]
    wanted = cases(args.inputs, kinds, args.first) if args.inputs else []
    names = list(dict.fromkeys(case.kind for case in wanted))
    prepare(scratch / "base", names, args.typed)
    begun = time.monotonic()
    turns = sorted(
        wanted, key=lambda case: (case.number, names.index(case.kind))
    )  # all kinds, where time runs out
    results = run_cases(worker(scratch / "base", args.typed), turns, args.processes, scratch)
    for done, told in enumerate(results, 1):
        yield told
        if told.outcome not in FINE:
            say(f"{told.outcome}: {told.case.kind} {told.case.number}\n{told.text[-1200:]}")
        if done % 500 == 0:
            say(f"{done} of {len(wanted)} inputs, {time.monotonic() - begun:.0f} s")
        if time.monotonic() - begun > 60 * args.minutes:
            return


def say(text: str) -> None:
    """What has happened so far, for whoever waits."""
    print(text, file=sys.stderr, flush=True)


def counts(told: Iterable[Told]) -> Mapping[str, Mapping[str, int]]:
    """Kind -> outcome -> how many."""
    found: dict[str, Counter] = {}
    for one in told:
        found.setdefault(one.case.kind, Counter())[one.outcome] += 1
    return {kind: {outcome: found[kind][outcome] for outcome in OUTCOMES} for kind in sorted(found)}


def table(told: Iterable[Told]) -> str:
    """The counts as a Markdown table with a line of sums."""
    rows = counts(told)
    total = {outcome: sum(row[outcome] for row in rows.values()) for outcome in OUTCOMES}
    lines = [f"| kind | {' | '.join(OUTCOMES)} |", "|---" * (1 + len(OUTCOMES)) + "|"]
    lines += [
        f"| {kind} | {' | '.join(f'{row[outcome]:,}' for outcome in OUTCOMES)} |"
        for kind, row in [*rows.items(), ("all", total)]
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
