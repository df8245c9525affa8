"""How close two computations of one quantity must come; `pythonpath` in pyproject.toml makes it importable by tests.

CPUs sum in different orders (AVX-512, AVX2 and plain kernels; one thread or two). A float32 sum of n terms is off by at
most about n·2⁻²⁴ times the sum of the terms' sizes (Higham, Accuracy and Stability of Numerical Algorithms, §4.2): the
error scales with what was added up, not with what is left of it. An absolute bound, or one relative to each entry, says
more than the arithmetic promises; so what is compared is ‖found − expected‖ against ‖expected‖, over a whole tensor.
"""

import torch

SUMS = 2.0**-24 * 4096
"""Relative bound for float32: some thousand roundings on the way of each entry (two layers of sums of 64 to 768 terms,
forward and backward, come to a few 1e-6 in practice; a wrong term shows at 1e-2 or more)."""

ALGEBRA = 2.0**-53 * 4096 * 1024
"""The same in float64, where the statement is about algebra: 5e-10, ten million times below any wrong term."""


def assert_same(found, expected, *, rel=None, scale=None, name=""):
    """‖found − expected‖ ≤ rel · max(‖expected‖, scale), Euclidean norms over all entries.

    `rel` is by default `SUMS`, or `ALGEBRA` where both are float64. `scale`: the size of what was added up where little
    of it may be left (the gradient of one scalar among those of all).
    """
    found, expected = torch.as_tensor(found), torch.as_tensor(expected)
    assert found.shape == expected.shape, f"{name}: {tuple(found.shape)} for {tuple(expected.shape)}"
    exact = found.dtype == expected.dtype == torch.float64
    rel = rel if rel is not None else ALGEBRA if exact else SUMS
    off = (found.double() - expected.double()).norm().item()
    size = max(expected.double().norm().item(), scale or 0.0)
    assert off <= rel * size, (
        f"{name}: off by {off:.3g} = {off / size if size else float('inf'):.3g} of {size:.3g}"
    )


def assert_same_each(found, expected, *, rel=None):
    """`assert_same` for tensors by name (gradients, weights), each held to the norm of all of them together."""
    assert found.keys() == expected.keys()
    scale = torch.stack([value.double().norm() for value in expected.values()]).norm().item()
    for name, value in expected.items():
        assert_same(found[name], value, rel=rel, scale=scale, name=name)
