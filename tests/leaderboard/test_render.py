"""Tables as text: what a terminal of any width shows, golden Markdown and CSV, escapes."""

import csv
import io
import json
import re

import pytest

from hierbench.contracts import Estimate
from hierbench.leaderboard import render
from hierbench.leaderboard.columns import Column, Specs, layout
from hierbench.leaderboard.tables import Cell, Row, Table

ACC = Column("Classification", "INet", "top1", "percent", "zero-shot/imagenet", better="higher")
TIE = Column("WordNet", "TIE", "tie", "raw", "hierarchy/imagenet", better="lower")
AUC = Column("PEP", "AUC", "auc", "fraction", "pep-v2", better="higher", variant="corrected, limit 5")

FIRST = (
    Cell(Estimate(38.84, 37.6, 40.0), 1000, best=True),
    Cell(Estimate(3.4), 1000),
    Cell(Estimate(0.913, 0.9, 0.92), 5),
)
SECOND = (Cell(Estimate(30.0, 29.0, 31.0), 1000), Cell(Estimate(3.2), 1000, best=True), Cell(notes=(0,)))
TABLE = Table(
    title="A table",
    columns=(ACC, TIE, AUC),
    rows=(Row("first", "meru", FIRST), Row("se|cond_", "clip", SECOND)),
    footnotes=("pep-v2: skipped: no *cones*",),
    remarks=("n = 1,000: all.",),
)


def test_markdown_golden():
    assert render.markdown(TABLE) == (
        "**A table**\n"
        "\n"
        "| Model | Classification: INet ↑ | WordNet: TIE ↓ | PEP: AUC ↑ (corrected, limit 5) |\n"
        "| :-- | --: | --: | --: |\n"
        "| first | **38.8** ±1.2 | 3.40 | 91.3 ±1.0 |\n"
        "| se\\|cond\\_ | 30.0 ±1.0 | **3.20** | –[^1] |\n"
        "\n"
        "± half the 95 % bootstrap interval; ↑ higher is better; ↓ lower is better; bold: best of its column.\n"
        "\n"
        "n = 1,000: all.\n"
        "\n"
        "[^1]: pep-v2: skipped: no \\*cones\\*\n"
    )


def test_csv_golden():
    head, first, second = render.csv(TABLE).splitlines()
    assert head.split(",")[:8] == [
        "model",
        "family",
        "source",
        "zero-shot/imagenet:top1",
        "zero-shot/imagenet:top1 low",
        "zero-shot/imagenet:top1 high",
        "zero-shot/imagenet:top1 n",
        "zero-shot/imagenet:top1 standing",
    ]
    assert next(csv.reader([head]))[15] == "pep-v2:auc (corrected, limit 5)"
    assert first == "first,meru,measured,38.84,37.6,40.0,1000,best,,3.4,,,1000,,,0.913,0.9,0.92,5,,"
    assert second == (
        "se|cond_,clip,measured,30.0,29.0,31.0,1000,,,3.2,,,1000,best,,,,,,,pep-v2: skipped: no *cones*"
    )


def test_csv_survives_commas_quotes_and_newlines():
    odd = 'a,"b"\nc'
    table = Table("t", (ACC,), (Row(odd, "", (Cell(Estimate(1.0)),)),))
    assert list(csv.reader(io.StringIO(render.csv(table))))[1][0] == odd


def test_terminal_golden():
    assert render.terminal(TABLE, 80) == (
        "A table\n"
        "\n"
        "           Classification   WordNet       PEP\n"
        "           ──────────────   ───────   ───────────\n"
        "                                            AUC ↑\n"
        "                                      (corrected,\n"
        "Model              INet ↑     TIE ↓      limit 5)\n"
        "─────────────────────────────────────────────────\n"
        "first               *38.8      3.40          91.3\n"
        "                     ±1.2                    ±1.0\n"
        "se|cond_             30.0     *3.20            –¹\n"
        "                     ±1.0\n"
        "\n"
        "± half the 95 % bootstrap interval; ↑ higher is better; ↓ lower is better; *:\n"
        "  best of its column.\n"
        "n = 1,000: all.\n"
        "¹ pep-v2: skipped: no *cones*\n"
    )


def test_styles_make_the_best_bold_and_drop_the_star():
    text = render.terminal(TABLE, 80, style=True)
    assert re.search(r"\x1b\[1m38\.8\x1b\[0m", text)
    assert "*38.8" not in text
    assert "bold: best of its column" in render.terminal(TABLE, 120, style=True)


def wide(rows=3):
    columns = tuple(map(Specs().applied, layout("argent").columns))
    cells = tuple(Cell(Estimate(50.0, 48.0, 52.0), 10) for _ in columns)
    return Table(
        "wide", columns, tuple(Row(f"some-model-with-a-name-{i}" * 2, "", cells) for i in range(rows))
    )


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 160, 250])
def test_no_line_is_wider_than_the_terminal_and_no_column_is_lost(width):
    text = render.terminal(wide(), width)
    assert max(map(len, text.splitlines())) <= width
    heads = "".join(line for line in text.splitlines() if line.startswith("Model"))
    assert heads.count("↑") + heads.count("↓") == sum(bool(column.better) for column in wide().columns)
    assert heads.count(" zero") == sum(column.title == "zero" for column in wide().columns)


def test_a_group_that_fits_is_not_split():
    assert all(
        line.count("R@5 ↑") % 2 == 0 for line in render.terminal(wide(), 80).splitlines()
    )  # COCO and Flickr of a direction stay together


def test_json_holds_values_as_recorded():
    document = json.loads(render.json(TABLE))
    first, second = document["rows"]
    assert first["cells"]["pep-v2:auc (corrected, limit 5)"] == {
        "value": 0.913, "low": 0.9, "high": 0.92, "n": 5, "best": False, "second": False, "sd": None, "gain": None,
        "notes": [],
    }  # fmt: skip
    assert second["cells"]["pep-v2:auc (corrected, limit 5)"]["value"] is None
    assert second["cells"]["pep-v2:auc (corrected, limit 5)"]["notes"] == [0]
    assert document["footnotes"] == list(TABLE.footnotes)
    assert document["source"] == "measured"


def test_a_figure_that_is_not_a_number():
    table = Table("t", (ACC,), (Row("a", "", (Cell(Estimate(float("nan"))),)),))
    assert json.loads(render.json(table))["rows"][0]["cells"][ACC.key]["value"] is None
    for form in ("terminal", "markdown", "latex", "html"):
        assert "nan" not in render.text(form, [table], 80)
        assert "–" in render.text(form, [table], 80) or "--" in render.text(form, [table], 80)


def test_a_table_without_columns_says_so():
    assert "(no figures)" in render.terminal(
        Table("t", (), (Row("a", "", ()),), remarks=("Skipped: x: y",)), 80
    )


@pytest.mark.parametrize(
    ("raw", "escaped"),
    [
        ("a|b", r"a\|b"),
        ("vit_b_16", "vit_b_16"),
        ("_x_", r"\_x\_"),
        ("<b>", r"\<b\>"),
        ("two\nlines", "two lines"),
    ],
)
def test_markdown_escapes(raw, escaped):
    assert render.escape(raw) == escaped


def test_rich_markup_in_names_is_not_interpreted():
    table = Table("[bold]t[/bold]", (ACC,), (Row("[red]a", "", (Cell(Estimate(1.0)),)),))
    text = render.terminal(table, 80, style=True)
    assert "[red]a" in text
    assert "[bold]t[/bold]" in text
