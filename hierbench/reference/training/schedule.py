"""Learning rate over steps: linear warm-up, then a cosine to zero (the lineage's schedule)."""

import math


def learning_rate_factor(step: int, *, steps: int, warmup_steps: int) -> float:
    """Factor on the base learning rate at `step` (0-based): linear to 1 over the warm-up, then cosine to 0."""
    if step < warmup_steps:
        return (step + 1) / warmup_steps
    progress = (step - warmup_steps) / max(1, steps - warmup_steps)
    return 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
