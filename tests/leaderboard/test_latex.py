r"""Tables as LaTeX: whatever a name holds, braces and environments balance and every row has its columns.

Where pdflatex is installed it compiles the same files, alone and by \input.
"""

import re
import shutil
import subprocess
from dataclasses import replace

import pytest

from hierbench.contracts import Estimate
from hierbench.leaderboard import papers, views
from hierbench.leaderboard.columns import Column
from hierbench.leaderboard.latex import escape, latex
from hierbench.leaderboard.tables import Cell, Row, Table, standings

COLUMNS = (
    Column("Text→Image", "COCO R@5", "t2i_r5", "percent", "retrieval/coco", better="higher"),
    Column("Text→Image", "COCO R@10", "t2i_r10", "percent", "retrieval/coco", better="higher"),
    Column("Text→Image", "Flickr R@5", "t2i_r5", "percent", "retrieval/flickr30k", better="higher"),
    Column("WordNet & co", "TIE", "tie", "raw", "hierarchy/imagenet", better="lower", variant="limit 5"),
)
NAMES = ("a_b%c&d#e$f", "g{h}~i^j\\k", "<l> \"m\" 'n' é ß 中 |o|")


def table(names=NAMES, columns=COLUMNS):
    rows = [
        Row(
            name,
            "",
            tuple(Cell(Estimate(50.0 + place + number, 49.0, 58.0)) for place in range(len(columns))),
        )
        for number, name in enumerate(names)
    ]
    gap = replace(rows[0].cells[0], estimate=None, notes=(0,))
    rows[0] = replace(rows[0], cells=(gap, *rows[0].cells[1:]))
    made = Table("100 % of_it", columns, standings(columns, rows), ("why: a_b & c^2 → 0",), ("Remark #1.",))
    return views.against(made, names[0])


def check(text):
    """Balanced braces and environments; in each tabular every row has as many columns as it declares."""
    bare = re.sub(r"\\[\\{}%&#$_]", lambda found: "@" if found[0] != "\\\\" else found[0], text)
    bare = "\n".join(line for line in bare.splitlines() if not line.startswith("%"))
    assert bare.count("{") == bare.count("}")
    begun, ended = (sorted(re.findall(rf"\\{word}{{([a-z*]+)}}", text)) for word in ("begin", "end"))
    assert begun == ended
    widths = []
    for columns, body in re.findall(r"\\begin{tabular}{(l?r*)}(.*?)\\end{tabular}", bare, re.DOTALL):
        for line in body.splitlines():
            if line.endswith("\\\\"):
                spans = sum(int(span) - 1 for span in re.findall(r"\\multicolumn{(\d+)}", line))
                assert line.count("&") + 1 + spans == len(columns), line
        widths.append(len(columns) - 1)
        for first, last in re.findall(r"\\cmidrule\(lr\){(\d+)-(\d+)}", body):
            assert 2 <= int(first) <= int(last) <= len(columns)
    return widths


def test_rows_have_their_columns_and_specials_are_escaped():
    text = latex(table())
    assert check(text) == [4]
    assert r"a\_b\%c\&d\#e\$f" in text
    assert r"g\{h\}\textasciitilde{}i\textasciicircum{}j\textbackslash{}k" in text
    assert "[U+4E2D]" in text
    assert "é" in text


def test_heads_are_those_of_a_paper():
    lines = latex(table()).splitlines()
    start = lines.index(r"\toprule")
    assert lines[start + 1] == r" & \multicolumn{3}{c}{Text$\to$Image} & \multicolumn{1}{c}{WordNet \& co} \\"
    assert lines[start + 2] == r"\cmidrule(lr){2-4}\cmidrule(lr){5-5}"
    assert lines[start + 3] == r" & \multicolumn{2}{c}{COCO} & \multicolumn{1}{c}{} & \multicolumn{1}{c}{} \\"
    assert lines[start + 5] == (
        r"Model & R@5 $\uparrow$ & R@10 $\uparrow$ & Flickr R@5 $\uparrow$ & TIE $\downarrow$ (limit 5) \\"
    )


def test_best_second_gap_and_gain():
    rows = [
        line
        for line in latex(table(("a", "b", "c"))).splitlines()
        if line.startswith(("a &", "b &", "c &", r"$\D"))
    ]
    assert rows[0] == r"a & --$^{1}$ & 51.0 & 52.0 & \textbf{53.00} \\"
    assert rows[1] == r"b & 51.0 & \underline{52.0} & \underline{53.0} & \underline{54.00} \\"
    assert rows[2] == r"$\Delta$ &  & +1.0 & +1.0 & +1.00 \\"
    assert rows[3].startswith(r"c & \textbf{52.0} & \textbf{53.0}")


def test_a_wide_table_is_broken_at_a_group():
    wide = tuple(
        Column(f"G{place // 7}", f"c{place}", f"m{place}", "percent", "t", better="higher")
        for place in range(35)
    )
    assert check(latex(table(columns=wide))) == [14, 14, 7]
    single = tuple(replace(column, group="one") for column in wide)
    assert check(latex(table(columns=single))) == [16, 16, 3]


def test_escape_leaves_nothing_that_latex_would_read():
    assert escape("a\tb\x00c") == "a bc"
    assert escape("Δ κ ± –") == r"$\Delta$ $\kappa$ $\pm$ --"


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex")
@pytest.mark.parametrize("whole", [True, False], ids=["alone", "input"])
def test_it_compiles(tmp_path, whole):
    (tmp_path / "t.tex").write_text(latex(table(), papers.published("argent")), encoding="utf-8")
    if not whole:
        paper = r"\documentclass{article}\usepackage{booktabs}\begin{document}Before. \input{t} After.\end{document}"
        (tmp_path / "p.tex").write_text(paper)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex" if whole else "p.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-2000:]
