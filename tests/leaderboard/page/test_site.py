"""The site's files: complete, with the records' own figures, safe, small; a folder of others is never touched."""

import json
import re
from html.parser import HTMLParser
from urllib.parse import unquote

import pytest
from sites import HOSTILE, record

from hierbench.errors import OutputError, UnknownNameError
from hierbench.leaderboard import ranks
from hierbench.leaderboard.page import ahead, build
from hierbench.leaderboard.page.site import MARKER
from hierbench.results import read_results, write_record


class Tags(HTMLParser):
    """Every tag of a page with its attributes, and its text outside scripts and styles."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


def pages(site):
    return {path: Tags(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}


def data(site):
    text = (site / "data.js").read_text(encoding="utf-8")
    return json.loads(re.fullmatch(r"window\.HIERBENCH=(.*);\n", text, re.S)[1])


@pytest.fixture
def site(run_folder, tmp_path):
    return build([run_folder], tmp_path / "site").folder


def test_every_link_leads_to_a_file_and_none_outside_is_loaded(site):
    found = pages(site)
    assert len(found) == 1 + 3 + 2
    for path, page in found.items():
        for tag, attributes in page.tags:
            for name in ("href", "src"):
                target = attributes.get(name)
                if target is None or target.startswith(("#", "data:")) or (tag == "a" and "://" in target):
                    continue
                assert "://" not in target
                assert (path.parent / unquote(target)).is_file(), (path, target)


def test_every_page_can_be_reached(site):
    linked = {
        unquote(attributes["href"]) for tag, attributes in pages(site)[site / "index.html"].tags
        if tag == "a" and "href" in attributes
    }  # fmt: skip
    for path in site.glob("*/*.html"):
        assert path.relative_to(site).as_posix() in linked


def test_figures_are_those_of_the_records(site, run_folder):
    found = data(site)
    row = {model["name"]: number for number, model in enumerate(found["models"])}
    seen = 0
    for measured in read_results(run_folder):
        for metric, figure in (measured.metrics or {}).items():
            (column,) = [c for c in found["columns"] if c["key"] == f"{measured.task}:{metric}"]
            at = row[measured.model]
            for name in ("value", "low", "high"):
                bound = getattr(figure, name)
                assert column[name][at] == (None if bound is None else pytest.approx(bound, rel=1e-6))
            facts = dict(found["facts"][f] for f in found["records"][column["record"][at]])
            facts |= dict(found["facts"][f] for f in found["models"][at]["shared"])
            assert facts["dataset fingerprint"] == "f" * 64
            assert facts["checkpoint sha256"] == measured.provenance["checkpoint_sha256"]
            assert facts["recorded"] == "2026-01-02T03:04:05+00:00"
            seen += 1
    assert seen == 7


def test_few_digits_never_change_what_is_printed(tmp_path):
    """With seven digits this would be 30.25, in the middle, and printed 30.2 by rule; Python's tables print 30.3."""
    write_record(tmp_path / "run", record(metrics={"top1": (30.25000001, 30.24999999, 31.123456789)}))
    (column,) = [
        c for c in data(build([tmp_path / "run"], tmp_path / "s").folder)["columns"] if c["metric"] == "top1"
    ]
    assert (column["value"], column["low"], column["high"]) == ([30.25000001], [30.25], [31.12346])


def test_gaps_have_their_reason(site):
    found = data(site)
    (column,) = [c for c in found["columns"] if c["key"] == "retrieval/coco:t2i_r5"]
    assert column["value"] == [60.0, None, None]
    failed = column["notes"]["1"]
    assert "failed: DataError" in found["notes"][failed[0]]
    assert "not run for this model" in found["notes"][column["notes"]["2"][0]]


def test_ranks_are_those_of_leaderboard_rank(site, run_folder):
    """40, 41 and 42 % of 1,000 images of which each hits the first: b < c by ten images, all of them c's alone."""
    found = data(site)
    number = next(k for k, c in enumerate(found["columns"]) if c["key"] == "zero-shot/imagenet:top1")
    told = {
        place.model: [place.rank, place.low, place.high, place.groups]
        for ranking in ranks.rank([run_folder]).columns if ranking.column.key == "zero-shot/imagenet:top1"
        for place in ranking.places
    }  # fmt: skip
    assert [told.get(model["name"]) for model in found["models"]] == found["ranks"]["columns"][str(number)]
    assert [place[0] for place in found["ranks"]["columns"][str(number)]] == [3, 2, 1]


def test_who_is_unranked_has_a_reason(site):
    found = data(site)
    number = next(k for k, c in enumerate(found["columns"]) if c["key"] == "retrieval/coco:t2i_r5")
    why = [found["ranks"]["why"][place] for place in found["ranks"]["columns"][str(number)]]
    assert why[0] == "a run kept no per-item outcomes"
    assert "failed: DataError" in why[1]
    assert "not run for this model" in why[2]


def test_overall_is_over_the_columns_of_the_layout(site):
    found = data(site)
    assert [found["columns"][number]["key"] for number in found["ranks"]["voting"]] == [
        "zero-shot/imagenet:top1"
    ]
    assert [place[0] for place in found["ranks"]["overall"]] == [3, 2, 1]
    assert [points[0] for points in found["ranks"]["points"]] == [0.0, 0.5, 1.0]
    silent = dict(found["ranks"]["silent"])
    assert set(silent.values()) == {"fewer than two models have a figure that can be ranked"}


def test_one_model_has_no_ranks_and_says_why(tmp_path):
    write_record(tmp_path / "run", record())
    found = data(build([tmp_path / "run"], tmp_path / "s").folder)
    assert (found["ranks"], found["unranked"]) == (None, "a ranking needs two models")


@pytest.fixture
def many(run_folder, monkeypatch):
    """The same run, where three records are too many to read their items without being told so."""
    monkeypatch.setattr(ahead, "FEW", 2)
    return run_folder


def test_of_many_records_items_are_read_when_asked_for(many, tmp_path):
    """Without: no ranks, no panels, figures not held against items, and all of it is told; with `full`, all."""
    edited(many, "alpha", value=99.9, low=None, high=None)
    built = build([many], tmp_path / "quick")
    found = data(built.folder)
    assert (found["ranks"], found["left_out"]) == (None, built.left_out)
    assert "outcomes of 3 of 5 records have not been read" in built.left_out
    assert built.left_out in pages(built.folder)[built.folder / "index.html"].text
    assert "--full" in found["unranked"]
    assert not any("doubtful" in column for column in found["columns"])
    assert "left out" in (built.folder / "models" / "alpha.js").read_text()
    full = build([many], tmp_path / "full", full=True)
    found = data(full.folder)
    assert full.left_out == found["left_out"] == ""
    assert found["ranks"]["overall"]
    assert any("doubtful" in column for column in found["columns"])
    assert "left out" not in (full.folder / "models" / "alpha.js").read_text()


def test_items_that_were_read_once_are_remembered(many, tmp_path):
    first = build([many], tmp_path / "a", full=True).folder
    second = build([many], tmp_path / "b").folder
    for name in ("data.js", "models/alpha.js", "index.html"):
        assert (first / name).read_bytes() == (second / name).read_bytes()


def test_items_of_the_models_asked_for_are_read(many, tmp_path):
    site = build([many], tmp_path / "a", models=["beta"]).folder
    assert "left out" in (site / "models" / "alpha.js").read_text()
    assert "left out" not in (site / "models" / "beta.js").read_text()
    with pytest.raises(UnknownNameError, match="did you mean beta"):
        build([many], tmp_path / "b", models=["betta"])
    assert not (tmp_path / "b").exists()


def test_in_several_processes_the_same_comes_out(run_folder, tmp_path, monkeypatch):
    first = build([run_folder], tmp_path / "a").folder
    monkeypatch.setenv("HIERBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(ahead, "ALONE", 1)
    monkeypatch.setattr(ahead, "cores", lambda: 2)
    second = build([run_folder], tmp_path / "b").folder
    assert (first / "data.js").read_bytes() == (second / "data.js").read_bytes()
    assert {path.name for path in (tmp_path / "cache").iterdir()} >= {
        "asked",
        "doubts",
        "drawn",
        "panels",
        "ranks",
    }


def test_no_figure_that_its_items_bear_out_is_marked(site):
    assert not any("doubtful" in column for column in data(site)["columns"])


def edited(folder, model, task="zero-shot__imagenet", **figure):
    """A record as somebody leaves it who changes its figure in an editor."""
    path = folder / "results" / model / f"{task}.json"
    content = json.loads(path.read_text())
    content["metrics"]["top1"].update(figure)
    path.write_text(json.dumps(content))


def test_an_edited_figure_is_marked_with_its_reason_and_is_not_the_best(run_folder, tmp_path):
    edited(run_folder, "alpha", value=99.9, low=None, high=None)
    found = data(build([run_folder], tmp_path / "site").folder)
    (column,) = [c for c in found["columns"] if c["key"] == "zero-shot/imagenet:top1"]
    assert (column["value"][0], column["doubtful"], column["best"]) == (99.9, [0], [2])
    assert found["notes"][column["notes"]["0"][0]] == (
        "zero-shot/imagenet: the recorded 99.9 of alpha is not the 40 of its items: run it again"
    )
    index = pages(tmp_path / "site")[tmp_path / "site" / "index.html"]
    assert "the recorded 99.9 of alpha is not the 40 of its items" in index.text


def test_a_figure_that_is_not_a_number_is_a_gap_with_its_reason(run_folder, tmp_path):
    edited(run_folder, "alpha", value=None, low=None, high=None)
    found = data(build([run_folder], tmp_path / "site").folder)
    (column,) = [c for c in found["columns"] if c["key"] == "zero-shot/imagenet:top1"]
    assert column["value"] == [None, 41.0, 42.0]
    said = [found["notes"][note] for note in column["notes"]["0"]]
    assert "zero-shot/imagenet: the recorded figure is not a number" in said
    assert column["record"][0] is not None  # where it comes from can be asked


def test_figures_of_another_protocol_stand_in_a_column_of_their_own(run_folder, tmp_path):
    fields = {"protocol": "corrected", "metrics": {"top1": (55.0, None, None)}}
    write_record(tmp_path / "other", record("alpha", **fields))
    found = data(build([run_folder, tmp_path / "other"], tmp_path / "site").folder)
    columns = {c["key"]: c["value"] for c in found["columns"] if c["metric"] == "top1"}
    assert columns == {
        "zero-shot/imagenet:top1 (released)": [40.0, 41.0, 42.0],
        "zero-shot/imagenet:top1 (corrected)": [55.0, None, None],
    }


def test_a_record_that_is_there_twice_stops_the_build(run_folder, tmp_path):
    folder = run_folder / "results" / "alpha"
    (folder / "copy.json").write_bytes((folder / "zero-shot__imagenet.json").read_bytes())
    with pytest.raises(OutputError, match="a second time"):
        build([run_folder], tmp_path / "site")
    assert not (tmp_path / "site").exists()


def test_models_have_what_they_are_filtered_by(site):
    models = data(site)["models"]
    assert [model["parameters"] for model in models] == [10**7, 2 * 10**7, 3 * 10**7]
    assert {model["trained_on"] for model in models} == {"GRIT"}
    assert {model["licence"] for model in models} == {"MIT"}
    assert {model["geometry"] for model in models} == {"lorentz"}


def test_records_without_a_card_are_unknown_or_from_the_catalog(tmp_path):
    bare = {"provenance": {"card": None, "geometry": None}}
    write_record(tmp_path / "run", record("somebodys", **bare))
    write_record(tmp_path / "run", record("meru-redcaps-vit-b", family="meru", **bare))
    models = {
        model["name"]: model for model in data(build([tmp_path / "run"], tmp_path / "s").folder)["models"]
    }
    assert models["somebodys"]["trained_on"] == models["somebodys"]["geometry"] == "unknown"
    assert models["meru-redcaps-vit-b"]["trained_on"] == "RedCaps"
    assert models["meru-redcaps-vit-b"]["licence"] == "CC-BY-NC"


def test_strangers_names_are_text_and_nothing_else(site):
    for path, page in pages(site).items():
        scripts = [attributes for tag, attributes in page.tags if tag == "script"]
        assert all("src" in attributes for attributes in scripts), path
        assert not any(
            tag == "img" or any(a.startswith("on") for a in attributes) for tag, attributes in page.tags
        )
    assert HOSTILE in pages(site)[site / "index.html"].text
    assert "<" not in (site / "data.js").read_text(encoding="utf-8")


def test_paths_of_the_machine_are_not_published(site):
    for path in site.rglob("*"):
        if path.is_file() and "vendor" not in path.parts:
            assert "/home/somebody" not in path.read_text(encoding="utf-8"), path


def test_the_site_is_small_and_libraries_bring_their_licences(run_folder, tmp_path):
    built = build([run_folder], tmp_path / "site")
    files = [path for path in built.folder.rglob("*") if path.is_file() and path.name != MARKER]
    assert built.files == len(files)
    assert built.bytes == sum(path.stat().st_size for path in files) < 3_000_000
    vendor = {path.name for path in (built.folder / "assets" / "vendor").iterdir()}
    assert {"LICENSE-d3", "LICENSE-plot", "LICENSE-tabulator"} <= vendor


def test_the_same_results_give_the_same_bytes(run_folder, tmp_path):
    def content(folder):
        return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    assert content(build([run_folder], tmp_path / "a").folder) == content(
        build([run_folder], tmp_path / "b").folder
    )


def test_a_site_is_renewed_and_foreign_files_in_it_stay(run_folder, site):
    (site / "CNAME").write_text("example.org")
    old = site / "models" / "alpha.html"
    assert old.exists()
    (run_folder / "results" / "alpha").rename(run_folder.parent / "alpha")
    build([run_folder], site)
    assert not old.exists()
    assert (site / "models" / "beta.html").exists()
    assert (site / "CNAME").read_text() == "example.org"


def test_a_folder_of_others_is_left_alone(run_folder, tmp_path):
    other = tmp_path / "thesis"
    other.mkdir()
    (other / "chapter.tex").write_text("long work")
    with pytest.raises(OutputError, match="is no site of hierbench's"):
        build([run_folder], other)
    assert [path.name for path in other.iterdir()] == ["chapter.tex"]
    (tmp_path / "file").write_text("x")
    with pytest.raises(OutputError, match="is a file"):
        build([run_folder], tmp_path / "file")
    assert not list(tmp_path.glob(".*.tmp"))


def test_a_foreign_file_with_the_name_of_one_of_ours_is_not_overwritten(run_folder, site):
    write_record(run_folder, record("gamma"))
    (site / "models" / "gamma.html").write_text("mine")
    before = (site / "index.html").read_bytes()
    with pytest.raises(OutputError, match=r"gamma\.html is not from hierbench"):
        build([run_folder], site)
    assert (site / "models" / "gamma.html").read_text() == "mine"
    assert (site / "index.html").read_bytes() == before


@pytest.mark.parametrize(
    "marker", ["{", "[]", '{"files": ["../../escape"]}', '{"files": ["/etc/passwd"]}', '{"files": 3}']
)
def test_a_damaged_marker_stops_the_build(run_folder, site, marker):
    (site / MARKER).write_text(marker)
    with pytest.raises(OutputError, match="choose another folder with -o"):
        build([run_folder], site)


def test_nothing_is_touched_when_the_records_are_damaged(run_folder, site):
    before = {path: path.read_bytes() for path in site.rglob("*") if path.is_file()}
    (run_folder / "results" / "alpha" / "zero-shot__imagenet.json").write_text('{"schema": 2}')
    with pytest.raises(OutputError, match="cannot be used"):
        build([run_folder], site)
    assert {path: path.read_bytes() for path in site.rglob("*") if path.is_file()} == before


def test_names_that_differ_by_case_have_pages_of_their_own(tmp_path):
    for model in ("Model", "model", "a/b", "a__b", "é", "con.x"):
        write_record(tmp_path / "run", record(model))
    site = build([tmp_path / "run"], tmp_path / "site").folder
    names = [path.name.lower() for path in (site / "models").glob("*.html")]
    assert len(set(names)) == 6
