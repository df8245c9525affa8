"""What is filed of the built-in models was measured with the weights that the package holds."""

import hashlib
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WEIGHTS = sorted((ROOT / "hierbench" / "reference" / "bundled").glob("*.safetensors"))


@pytest.mark.parametrize("weights", WEIGHTS, ids=lambda path: path.stem)
def test_filed_results_are_of_the_bundled_weights(weights):
    folder = ROOT / "leaderboard" / "results" / f"miniature-{weights.stem}"
    records = [json.loads(path.read_text()) for path in sorted(folder.glob("results/*/*.json"))]
    measured = [record for record in records if record["metrics"] is not None]
    assert measured
    said = {record["provenance"]["checkpoint_sha256"] for record in measured}
    told = "results of older weights: file them anew (CONTRIBUTING.md, The built-in models)"
    assert said == {hashlib.sha256(weights.read_bytes()).hexdigest()}, told
