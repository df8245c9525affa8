"""Studies: what is packaged agrees with the papers, and what a file may not say is refused in one line."""

import re

import pytest
import yaml
from small_study import SMALL

from hierbench import registry
from hierbench.errors import UnknownNameError, UsageError
from hierbench.reference.configuration import resolve
from hierbench.reproduce.study import chosen, digest, read_study, studies

NAMES = ["argent-h", "argent-table3", "uncha-ablations"]


def test_what_is_packaged():
    assert sorted(studies()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_row_can_be_trained_and_every_measure_exists(name):
    study = read_study(name)
    for row in study.rows:
        config = study.config(row, 40)
        assert (config.train.steps, config.train.warmup_steps, config.data.kind) == (40, 6, "miniature")
        assert config.data.caption_levels == (0, 0, 0, 1)
    for measure in study.measures.values():
        known = {metric.name for metric in registry.task(measure.task).spec.metrics}
        assert set(measure.metrics) <= known


@pytest.mark.parametrize("name", NAMES)
def test_rows_differ_and_are_all_shown(name):
    study = read_study(name)
    digests = [digest(study.config(row, 40)) for row in study.rows]
    assert len(set(digests)) == len(digests)
    assert {line.row for line in study.all_lines()} - {None} == set(study.rows)


@pytest.mark.parametrize("name", NAMES)
def test_claims_agree_with_the_papers_own_figures(name):
    """A row that is said to be better has the better figure, wherever the paper prints both."""
    study = read_study(name)
    lower = {"err"}
    compared = 0
    for claim in study.claims:
        better, than = study.printed(claim.better), study.printed(claim.than)
        for measure in claim.by:
            if measure in better and measure in than:
                compared += 1
                ahead = better[measure] - than[measure]
                assert (-ahead if measure in lower else ahead) > 0, (claim.says, measure)
    assert compared >= 3


def test_argents_table_as_printed():
    """Sums of each column over the 17 printed lines, added up from the paper's text, not from the study."""
    lines = read_study("argent-table3").all_lines()
    assert len(lines) == 17
    sums = [round(sum(column), 2) for column in zip(*(line.paper for line in lines), strict=True)]
    assert sums == [381.8, 944.1, 80.5, 1050.0, 1558.2, 1137.6]


def test_the_rows_of_argent_are_the_papers():
    """Ent is the family's own config; AdaEnt on HyCoCLIP is ARGENT's; None, Any and without differ in one thing."""
    study = read_study("argent-table3")
    objective = {row: study.config(row, 40).objective for row in study.rows}
    assert [term["term"] for term in objective["hycoclip-ent"]] == ["contrastive", "cone_entailment"]
    argent = objective["hycoclip-adaent"]
    assert [term["term"] for term in argent] == ["contrastive", "adaptive_entailment", "norm_regulariser"]
    assert objective["hycoclip-no-reg"][0] == argent[0]
    assert len(objective["hycoclip-no-reg"]) == 2
    assert objective["hycoclip-any"][1] == {"term": "adaptive_entailment", "weight": 0.1, "weighted": "any"}
    assert objective["hycoclip-none"][1]["weighting"] == "none"
    for row in ("hycoclip-none", "hycoclip-any"):
        assert objective[row][0] == argent[0]
        assert objective[row][2] == argent[2]
    for row in ("meru-adaent", "meru-any", "meru-no-reg"):
        assert objective[row][1]["relations"] == ["text_image"]


def test_recipes_are_shared_between_studies_and_seeds():
    table, readings = read_study("argent-table3"), read_study("argent-h")
    for row, other in (
        ("hycoclip-none", "none"),
        ("hycoclip-adaent", "cosine-within"),
        ("hycoclip-any", "cosine-any"),
    ):
        assert digest(table.config(row, 300)) == digest(readings.config(other, 300))
    seeded = table.config("meru-ent", 300, ["train.seed=5"])
    assert digest(seeded) == digest(table.config("meru-ent", 300))
    assert digest(seeded) != digest(table.config("meru-ent", 301))


def test_fewer_steps_shorten_what_belongs_to_the_steps():
    study = read_study("argent-table3")
    plain = resolve("miniature/hycoclip", study.overrides)
    short = study.config("hycoclip-ent", 300)
    assert short.data.full_caption_steps == round(plain.data.full_caption_steps * 300 / plain.train.steps)
    assert (short.train.warmup_steps, short.train.save_every) == (50, 100)
    long = study.config("hycoclip-ent", 10 * plain.train.steps)
    assert long.data.full_caption_steps == plain.data.full_caption_steps
    assert long.train.warmup_steps == plain.train.warmup_steps


def changed(path, value):
    content = yaml.safe_load(yaml.safe_dump(SMALL))
    *parents, last = path
    place = content
    for key in parents:
        place = place[key]
    place[last] = value
    return content


@pytest.mark.parametrize(
    ("path", "value", "what"),
    [
        (["claims", 0, "better"], "three", "no row three"),
        (["claims", 0, "by"], ["speed"], "no measure speed"),
        (["claims", 0, "worse"], "one", "claims.0.worse: Extra inputs"),
        (["lines", 0, "lines", 0, "row"], "three", "line One: no row three"),
        (["lines", 0, "lines", 0, "paper"], [1.0, 2.0], "more figures than measures"),
        (["steps"], 0, "steps"),
        (["measures"], {}, "measures"),
        (["rows"], ["one"], "rows"),
        (["measures", "again"], SMALL["measures"]["ret"], "two measures have the title R@1"),
        (["colour"], "red", "colour"),
    ],
)
def test_a_wrong_study_is_refused(tmp_path, path, value, what):
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(changed(path, value)))
    with pytest.raises(UsageError, match=re.escape(what)) as raised:
        read_study(str(tmp_path / "mine.yaml"))
    assert "\n" not in str(raised.value)
    assert "mine.yaml" in str(raised.value)


def test_names_that_do_not_exist(tmp_path):
    with pytest.raises(UnknownNameError, match="did you mean argent-table3"):
        read_study("argent-table4")
    with pytest.raises(UsageError, match=r"nowhere\.yaml cannot be read"):
        read_study("nowhere.yaml")
    study = read_study("argent-table3")
    with pytest.raises(UnknownNameError, match="did you mean meru-ent"):
        chosen(study, ["meru-ant"])
    (tmp_path / "mine.yaml").write_text(
        yaml.safe_dump(changed(["rows", "one"], {"extends": "miniature/klip"}))
    )
    with pytest.raises(UnknownNameError, match="study mine, row one: no config 'miniature/klip'"):
        read_study(str(tmp_path / "mine.yaml")).config("one", 10)
