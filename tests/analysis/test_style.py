"""Pictures: the same bytes twice in every form, text that stays text, colours told apart, legends beside the data."""

import itertools
import re

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb

from hierbench.analysis import style
from hierbench.analysis.figures import groups
from hierbench.cli._asked import Form
from hierbench.errors import UsageError

LONG = "runs/2026-01-01/a-model-with-a-name-as-long-as-a-sentence/checkpoint_final_ema.safetensors"
BEGIN = {"png": b"\x89PNG\r\n\x1a\n", "pdf": b"%PDF-", "svg": b"<?xml"}

# Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB
DEFICIENT = {
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}  # fmt: skip


def drawn(names=("a $model of $", LONG), sizes=(40, 1)):
    generator = np.random.default_rng(0)
    values = {
        group: generator.normal(level, 0.2, size)
        for size in sizes
        for level, group in enumerate(("level 1", "level 2", "images"), 1)
    }
    found = [groups.Distribution(name, values, "distance", "a note") for name in names]
    return groups.distributions(found, "title", from_zero=True)


def disc(names=("one", LONG), radius=0.2):
    points = radius * np.random.default_rng(0).uniform(-0.7, 0.7, (30, 2))
    labels = ["level 1"] * 10 + ["level 2"] * 10 + ["images"] * 10
    return groups.discs([groups.Disc(name, points, labels, np.zeros(2), "9 %") for name in names], "title")


def test_the_command_line_knows_the_forms():
    assert set(Form) == set(style.METADATA)


@pytest.mark.parametrize("form", style.METADATA)
@pytest.mark.parametrize("make", [drawn, disc])
def test_the_same_bytes_twice(tmp_path, form, make):
    first = style.save(make(), tmp_path / "a", "x", form).read_bytes()
    second = style.save(make(), tmp_path / "b", "x", form).read_bytes()
    assert first.startswith(BEGIN[form])
    assert first == second
    assert not re.search(
        rb"matplotlib|20\d\d-\d\d-\d\dT", first.partition(b"<style")[0] if form == "svg" else first
    )


def test_text_stays_text(tmp_path):
    text = style.save(drawn(), tmp_path, "x", "svg").read_text(encoding="utf-8")
    assert "a $model of $" in text
    assert "level 1 (" in text
    content = style.save(drawn(), tmp_path, "x", "pdf").read_bytes()
    assert b"/Subtype /Type3" not in content
    assert b"/FontFile2" in content  # TrueType


def test_another_form_is_one_line_and_no_file(tmp_path):
    with pytest.raises(UsageError, match="'gif': choose pdf, png, svg"):
        style.save(drawn(), tmp_path, "x", "gif")
    assert not list(tmp_path.iterdir())


def test_settings_of_the_machine_do_not_show(tmp_path, monkeypatch):
    import matplotlib

    plain = style.save(drawn(), tmp_path, "x", "svg").read_bytes()
    with matplotlib.rc_context({"font.size": 20, "axes.facecolor": "red", "svg.fonttype": "path"}):
        assert style.save(drawn(), tmp_path, "y", "svg").read_bytes() == plain


@pytest.mark.parametrize("make", [drawn, disc])
@pytest.mark.parametrize("count", [1, 2, 4, 6])
def test_nothing_lies_over_the_panels_or_beyond_the_figure(make, count):
    figure = make(names=(LONG,) * count)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    (legend,) = figure.legends
    box = legend.get_window_extent(renderer)
    whole = figure.bbox
    for axes in figure.axes:
        assert not box.overlaps(axes.get_window_extent(renderer))
        for title in (axes._left_title, axes._right_title):
            extent = title.get_window_extent(renderer)
            assert whole.x0 <= extent.x0
            assert extent.x1 <= whole.x1
        left, right = (t.get_window_extent(renderer) for t in (axes._left_title, axes._right_title))
        assert left.x1 < right.x0 + 1
    for one, other in itertools.combinations(figure.axes, 2):
        assert not one.get_tightbbox(renderer).padded(-1).overlaps(other.get_tightbbox(renderer).padded(-1))
    assert whole.x0 <= box.x0
    assert box.x1 <= whole.x1


@pytest.mark.parametrize("kind", ["", *DEFICIENT])
def test_colours_are_told_apart_with_every_colour_vision(kind):
    levels = style.of_groups(["level 1", "level 2", "level 3", "level 4", "images"])
    for colours, least in ((levels.values(), 14), (style.CATEGORICAL[:6], 12)):
        seen = [lab(colour, kind) for colour in colours]
        apart = [np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2)]
        assert min(apart) > least  # 2.3 is what an eye just notices
    lightness = [lab(levels[f"level {n}"], kind)[0] for n in (1, 2, 3, 4)]
    assert lightness == sorted(lightness, reverse=True)


def lab(colour, kind):
    """CIE L*a*b* (D65) of a colour as an eye of a kind sees it."""
    rgb = np.array(to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    if kind:
        linear = np.clip(np.array(DEFICIENT[kind]) @ linear, 0, 1)
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ linear
    f = np.cbrt(xyz / [0.9505, 1.0, 1.089])
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def test_many_models_have_marks_of_their_own():
    marks = style.of_models(str(number) for number in range(40))
    assert len(set(marks.values())) == 40


def test_names_are_shortened_in_the_middle():
    short = style.shortened(LONG, 100)
    assert style.text_width(short) <= 100
    assert short.startswith("runs")
    assert short.endswith("tensors")
    assert style.shortened("short", 100) == "short"
    lines = style.wrapped("a small red dog beside a large blue cat on a hill at night", 60, lines=3)
    assert len(lines) == 3
    assert all(style.text_width(line) <= 60 for line in lines)
    assert lines[-1].endswith("…")
