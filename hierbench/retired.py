"""Tasks that are no more, and why: their records are refused by name, never shown beside their successors."""

from __future__ import annotations

PEP_V1 = (
    "pep-v1 was another reading of PEP's pairs, ten positives a sample, which cannot give the paper's figures; "
    "pep-v2 replaced it: run that"
)
RETIRED = {"pep-v1": PEP_V1, "pep-v1-radial": PEP_V1}


def why_retired(task: str) -> str | None:
    """Why there is no such task any more ("pep-v1/mine" as "pep-v1"); None for one that never was, or still is."""
    return RETIRED.get(task.partition("/")[0])
