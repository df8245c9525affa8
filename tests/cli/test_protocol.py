"""Every command that embeds asks a protocol-aware adapter for the model as the protocol has it."""

import json

import pytest

ADAPTER = '''"""A random model that encodes texts by the protocol."""
from dataclasses import dataclass, replace
from pathlib import Path

from hierbench.model_adapters import random


class Aware(random.RandomAdapter):
    def under(self, protocol):
        with open(Path(__file__).with_name("asked.txt"), "a") as file:
            file.write(protocol + "\\n")
        found = Aware(replace(self.card, tokenizing=protocol), *(getattr(self, n) for n in REST))
        found.scale = 0.1 if protocol == "released" else 1.0
        return found

    def encode_texts(self, texts):
        return super().encode_texts(texts) * self.scale


REST = [name for name in random.RandomAdapter.__dataclass_fields__ if name != "card"]


def load(checkpoint=None, **options):
    found = random.load(checkpoint, **options)
    return Aware(found.card, *(getattr(found, name) for name in REST))
'''


@pytest.fixture
def aware(tmp_path):
    """The options that name the model, and what it was asked so far."""
    path = tmp_path / "aware.py"
    path.write_text(ADAPTER)

    def asked():
        log = tmp_path / "asked.txt"
        words = log.read_text().split() if log.exists() else []
        log.unlink(missing_ok=True)
        return words

    return path, asked


def test_all_four_commands_go_by_the_protocol(hierbench, aware, tmp_path):
    path, asked = aware
    means = {}
    for protocol in ("released", "corrected"):
        chosen = ["--adapter", path, "--protocol", protocol, "--device", "cpu"]
        done = hierbench("analyze", "norms", "aware", *chosen, "--limit", 5, "-o", "norms", "--json")
        assert done.status == 0, done.err
        means[protocol] = json.loads(done.out)["rows"][3]["mean"]
        assert asked() == [protocol]
        done = hierbench(
            "run", "aware", *chosen, "--task", "retrieval/miniature", "--limit", 5, "--out", protocol
        )
        assert done.status == 0, done.err
        assert asked() == [protocol]
    assert means["corrected"] == pytest.approx(
        10 * means["released"], rel=1e-4
    )  # the lengths of the tangents

    done = hierbench("errata", "--measure", "aware", "--adapter", path, "--device", "cpu")
    assert done.status == 0, done.err
    loaded = asked()  # once for each dataset that an erratum moves
    assert loaded == ["released", "corrected"] * (len(loaded) // 2)
    assert loaded

    small = ("miniature", "--count", 20, "--share", 0.2, "--negatives", 5, "--keep", 10, "--chunk", 50)
    done = hierbench("clean", *small, "--backend", "oracle", "--out", "cleaned")
    assert done.status == 0, done.err
    figures = []
    for protocol in ("released", "corrected"):
        done = hierbench(
            "clean",
            "report",
            "cleaned",
            "aware",
            "--adapter",
            path,
            "--protocol",
            protocol,
            "--json",
        )
        assert done.status == 0, done.err
        assert asked() == [protocol]
        figures.append([row["auc"] for row in json.loads(done.out)["rows"]])
    assert figures[0] != figures[1]
