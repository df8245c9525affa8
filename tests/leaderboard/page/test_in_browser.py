"""The site in a headless Chromium, from disk: sorting, filters, columns, provenance, themes, phone, keyboard."""

import json
import math
import random

import pytest
from browser import Browser, find
from sites import HOSTILE, record

from hierbench.leaderboard.page import build
from hierbench.results import write_record

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(find() is None, reason="no Chromium: apt-get install chromium"),
]

NAMES = "HB.table.getRows('active').map(row => row.getData().name)"


@pytest.fixture(scope="module")
def browser():
    with Browser(find()) as found:
        yield found


@pytest.fixture
def board(browser, run_folder, tmp_path):
    """The first page, opened from disk; nothing may complain, and nothing may be asked of the network."""
    site = build([run_folder], tmp_path / "site").folder
    browser.errors.clear()
    browser.requests.clear()
    browser.size(1280, 900)
    browser.open(site / "index.html")
    browser.wait("document.querySelector('#scatter figcaption')")
    browser.site = site
    yield browser
    assert browser.errors == []
    assert {address.partition(":")[0] for address in browser.requests} <= {"file", "data"}


def test_sorting_by_a_column(board):
    assert board.run(NAMES) == ["alpha", "beta", HOSTILE]
    head = "[...document.querySelectorAll('.head')].find(head => head.textContent.startsWith('INet'))"
    board.run(f"{head}.click()")
    assert board.run(NAMES) == [HOSTILE, "beta", "alpha"]  # higher is better: the best first
    board.run(f"{head}.click()")
    assert board.run(NAMES) == ["alpha", "beta", HOSTILE]
    recall = head.replace("INet", "COCO R@5")
    for _ in range(2):
        board.run(f"{recall}.click()")
        assert board.run(NAMES)[0] == "alpha"  # the gaps stay below


def test_figures_are_rounded_as_python_rounds(board):
    """Ties of all kinds (odd eighths and quarters), their neighbours, and numbers as they come."""
    generator = random.Random(0)
    numbers = [sign * odd / step for sign in (1, -1) for step in (4, 8, 16) for odd in range(1, 200, 2)]
    numbers += [math.nextafter(number, math.inf) for number in numbers] + [
        0.0,
        -0.0,
        30.25,
        99.95,
        1e6 + 0.25,
    ]
    numbers += [generator.uniform(-100, 100) for _ in range(500)]
    for unit, digits in (("percent", 1), ("raw", 2)):
        shown = board.run(f"{json.dumps(numbers)}.map(number => HB.printed({{unit: {unit!r}}}, number))")
        assert shown == [f"{round(number, digits) + 0.0:.{digits}f}" for number in numbers]
    fractions = [number / 100 for number in numbers]
    shown = board.run(f"{json.dumps(fractions)}.map(number => HB.printed({{unit: 'fraction'}}, number))")
    assert shown == [f"{round(number * 100, 1) + 0.0:.1f}" for number in fractions]


def test_filters(board):
    def choose(name, value):
        board.run(f"(e => {{ e.value = {value!r}; e.dispatchEvent(new Event('input', {{bubbles: true}})); }})"
                  f"(document.getElementById('filter-{name}'))")  # fmt: skip

    choose("family", "=clip")
    assert board.run(NAMES) == ["beta"]
    assert board.run("document.getElementById('count').textContent") == "1 of 3 models"
    choose("family", "")
    choose("least", "15")
    assert board.run(NAMES) == ["beta", HOSTILE]
    choose("most", "25")
    assert board.run(NAMES) == ["beta"]
    choose("least", "")
    choose("most", "")
    choose("name", "ALPH")
    assert board.run(NAMES) == ["alpha"]
    choose("name", "nobody")
    assert board.run(NAMES) == []
    assert "No model passes" in board.run("document.getElementById('table').textContent")
    board.run("document.querySelector('#filters [type=reset]').click()")
    board.wait("document.getElementById('count').textContent.startsWith('3')")


def test_columns_can_be_chosen_and_intervals_shown(board):
    heads = "[...document.querySelectorAll('.head')].map(head => head.textContent)"
    assert "Acc ↑" not in board.run(heads)
    board.run("document.querySelector('[data-column=parameters]').click()")
    assert "Parameters" in board.run(heads)
    assert "10.0 M" in board.run("document.getElementById('table').textContent")
    board.run("document.querySelector('[data-column=family]').click()")
    assert "Family" not in board.run(heads)
    board.run("document.getElementById('show-intervals').click()")
    assert "±1.0" in board.run("document.getElementById('table').textContent")


def test_provenance_opens_by_keyboard_and_closes_again(board):
    board.run("document.querySelector('.cell').focus()")
    assert "95 % interval 39.0 to 41.0; n = 1,000" in board.run("document.activeElement.title")
    board.press("Enter")
    board.wait("document.getElementById('provenance').open")
    said = board.run("document.getElementById('provenance').textContent")
    for fact in ("alpha", "f" * 64, "2026-01-02T03:04:05", "alpha.pth (a local file)", "lorentz"):
        assert fact in said
    board.press("Escape")
    board.wait("!document.getElementById('provenance').open")
    assert board.run("document.activeElement.className").startswith("cell")


def test_sorting_filtering_and_opening_a_model_by_keyboard_alone(board):
    def until(wanted):
        for _ in range(60):
            board.press("Tab")
            if board.run(f"document.activeElement.matches({wanted!r})"):
                return
        raise AssertionError(f"Tab never comes to {wanted}")

    until("#filter-name")
    for letter in "beta":
        board.press(letter, text=letter)
    board.wait("document.getElementById('count').textContent === '1 of 3 models'")
    board.run("document.querySelector('#filters [type=reset]').click()")
    board.wait("document.getElementById('count').textContent === '3 of 3 models'")
    until(".tabulator-col .head[title^='Sort by INet']")
    board.press("Enter")
    assert board.run(NAMES) == [HOSTILE, "beta", "alpha"]
    sorted_by = "document.querySelector('[role=columnheader][aria-sort=descending] .head').title"
    assert board.run(sorted_by) == "Sort by INet ↑"
    until(".tabulator-row a")
    board.press("Enter")
    board.wait("document.body && document.body.dataset.page === 'model' && document.querySelector('h1')")
    assert board.run("document.querySelector('h1').textContent") == HOSTILE


def test_screen_readers_are_told_what_is_there(board):
    """Roles and names that ARIA knows; each chart is one picture with a name, and its figures stand in a table."""
    for path in sorted(board.site.rglob("*.html")):
        board.open(path)
        board.run("new Promise(done => setTimeout(done, 100))")
        assert board.run("document.querySelectorAll('[role=columngroup], [aria-title]').length") == 0
        charts = "[...document.querySelectorAll('figure svg')]"
        assert board.run(f"{charts}.every(chart => chart.getAttribute('role') === 'img' && chart.ariaLabel)")
        assert (
            board.run(
                f"{charts}.flatMap(chart => [...chart.querySelectorAll('[tabindex], a[href], g[aria-label]')]).length"
            )
            == 0
        )
        assert board.run(
            "[...document.querySelectorAll('table:not(noscript table) th')].every(head => head.scope)"
        )
        assert board.run(
            "[...document.querySelectorAll('.wide')].every(box => box.tabIndex === 0 && box.ariaLabel)"
        )
        assert board.run("[...document.images].every(image => image.alt)")


def test_ranks_with_ties(board):
    """Overall all three are ranked; in retrieval nobody is, and each says why."""
    rows = "[...document.querySelectorAll('#ranking tbody tr')].map(row => [...row.children].map(e => e.textContent))"
    assert [row[0] for row in board.run(rows)] == [HOSTILE, "beta", "alpha"]
    choose = ("(name => (e => { e.value = [...e.options].find(o => o.text.includes(name)).value;"
              "e.dispatchEvent(new Event('change')); })(document.getElementById('rank-metric')))")  # fmt: skip
    board.run(f"{choose}('INet')")
    assert [row[2] for row in board.run(rows)] == ["42.0", "41.0", "40.0"]
    assert board.run("document.querySelectorAll('#ranking [data-mark=dot] circle').length") == 3
    said = board.run("document.querySelector('.cell').title")
    assert "rank 3 of 3" in said
    assert "group" in said
    board.run(f"{choose}('COCO R@5')")
    ranking = board.run("document.getElementById('ranking').textContent")
    assert "Unranked: 3" in ranking
    assert "alpha: a run kept no per-item outcomes" in ranking


def test_doubtful_figures_and_those_that_are_not_numbers_say_so(browser, run_folder, tmp_path):
    for model, value in (("alpha", 99.9), ("beta", None)):
        path = run_folder / "results" / model / "zero-shot__imagenet.json"
        content = json.loads(path.read_text())
        content["metrics"]["top1"].update(value=value, low=None, high=None)
        path.write_text(json.dumps(content))
    site = build([run_folder], tmp_path / "site").folder
    browser.errors.clear()
    browser.open(site / "index.html")
    browser.wait("document.getElementById('count').textContent")
    cells = "[...document.querySelectorAll('.cell')].filter(cell => cell.textContent.startsWith({!r}))"
    edited = cells.format("99.9")
    assert browser.run(f"{edited}.map(cell => cell.querySelector('sup').textContent)") == ["!"]
    assert "doubtful; zero-shot/imagenet: the recorded 99.9 of alpha" in browser.run(f"{edited}[0].title")
    assert browser.run(f"{edited}[0].title === {edited}[0].ariaLabel.split(': ').slice(2).join(': ')")
    gaps = browser.run(f"{cells.format('–')}.map(cell => cell.ariaLabel)")
    (said,) = [said for said in gaps if "the recorded figure is not a number" in said]
    assert "no figure; zero-shot/imagenet: the recorded nan of beta is not the 41 of its items" in said
    assert browser.errors == []


def test_charts_follow_the_choice(board):
    bars = "document.querySelectorAll('#bars [data-mark=bar] rect').length"
    assert board.run(bars) == 3
    board.run("(e => { e.value = [...e.options].find(o => o.text.includes('COCO')).value;"
              "e.dispatchEvent(new Event('change')); })(document.getElementById('bar-metric'))")  # fmt: skip
    assert board.run(bars) == 1
    assert board.run("document.querySelectorAll('#scatter [data-mark=dot] path').length") == 1


def test_every_page_opens_without_complaint_and_strangers_names_stay_text(board):
    for path in sorted(board.site.rglob("*.html")):
        board.open(path)
        assert board.run("document.querySelectorAll('h1').length") == 1
        assert board.run("window.hacked") is None
        assert board.run("document.querySelectorAll('main b b, main img').length") == 0
    board.open(board.site / "index.html")
    assert HOSTILE in board.run("document.getElementById('table').textContent")


def test_panels_of_a_model_are_drawn(browser, tmp_path):
    """Of outcomes made by hand: what is drawn is what they hold."""
    pairs = {"sample_id": ["s", "t"], "general": ["a dog", "<b>a car</b>"], "specific": ["i", "j"],
             "relation": ["l1_image", "negative_image"], "label": [1, 0], "score": [0.9, 0.1]}  # fmt: skip
    write_record(tmp_path / "run", record(task="pep-v2/x"), {"pairs": pairs})
    samples = {"image_id": ["i", "j"], "radius_l1": [0.1, 0.2], "radius_l2": [0.3, 0.4]}
    write_record(tmp_path / "run", record(task="hierarcaps/x"), {"samples": samples})
    site = build([tmp_path / "run"], tmp_path / "site").folder
    browser.errors.clear()
    browser.open(site / "models" / "alpha.html")
    text = browser.run("document.getElementById('panels').textContent")
    assert "not in this machine's cache" in text
    assert "<b>a car</b> (score 0.100)" in text
    assert (
        browser.run("document.querySelectorAll('#panels svg[aria-label]').length") == 4
    )  # radii, scores, curves
    assert browser.run("document.querySelectorAll('#panels .wide tbody tr').length") == 2
    browser.run(
        "HB.panel.tree(document.getElementById('panels'), {nodes: [['root', -1, 3, 1, 3], ['a', 0, 3, 1, 2]]})"
    )
    assert "a33.3 % right, 3 images" in browser.run("document.querySelector('.tree').textContent")
    assert browser.errors == []


def test_a_phone_sees_the_page_without_scrolling_sideways(board):
    for path in sorted(board.site.rglob("*.html")):
        board.size(360, 740)
        board.open(path)
        assert board.run("document.documentElement.scrollWidth") <= 360, path


LUMINANCE = """(() => {
  const light = colour => {
    const parts = colour.match(/[\\d.]+/g).slice(0, 3).map(v => v / 255)
      .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  const ratio = element => {
    const ink = light(getComputedStyle(element).color);
    const paper = light(getComputedStyle(document.body).backgroundColor);
    return (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
  };
  return Math.min(...[...document.querySelectorAll('a, p, .soft, .cell, .head, label, h1, figcaption')].map(ratio));
})()"""


@pytest.mark.parametrize("dark", [False, True])
def test_text_stands_out_in_both_themes(board, dark):
    """The contrast of WCAG 2, 4.5 to 1, by its own formula."""
    board.size(1280, 900, dark)
    board.open(board.site / "index.html")
    paper = board.run("getComputedStyle(document.body).backgroundColor")
    assert (paper != "rgb(255, 255, 255)") == dark
    assert board.run(LUMINANCE) >= 4.5


def test_the_theme_can_be_chosen(board):
    board.run(
        "(e => { e.value = 'dark'; e.dispatchEvent(new Event('change')); })(document.getElementById('theme'))"
    )
    assert board.run("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
    board.run(
        "(e => { e.value = ''; e.dispatchEvent(new Event('change')); })(document.getElementById('theme'))"
    )
    assert board.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_everything_to_act_on_has_a_name_and_can_be_reached_by_keyboard(board):
    nameless = (
        "[...document.querySelectorAll('button, a, input, select')].filter(e => !(e.textContent.trim() || "
        "e.getAttribute('aria-label') || e.labels?.length)).map(e => e.outerHTML)"
    )
    assert board.run(nameless) == []
    board.run("document.body.focus()")
    reached = set()
    for _ in range(60):
        board.press("Tab")
        reached.add(board.run("(e => e.id || e.getAttribute('class') || e.tagName)(document.activeElement)"))
    assert {
        "skip",
        "theme",
        "filter-name",
        "filter-family",
        "head",
        "cell",
        "bar-metric",
        "scatter-x",
    } <= reached
