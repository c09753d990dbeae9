"""The page of a report in Debian's Chromium and Firefox: what a reader does, and what they see.

`make browsers PICTURES=docs/images` also makes the pictures of the docs.
"""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from taupy.model.gpu import Activity
from taupy.model.profile import LineTime, SourceFile, Timer
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from taupy.report import contents
from taupy.report.page import html_page
from tests.builders import (
    STARTED_AT,
    call,
    collectives,
    gpu_profile,
    host,
    profile_of,
    steps,
    wide_profile,
)
from tests.findings import gpu_faults
from tests.hostile import hostile
from tests.in_process import taupy
from tests.unit.report.test_report import flat
from tests.unit.roofline.build import Kernel, gpu_trial

BROWSERS = {
    "chromium": (("chromium", "google-chrome"), {"args": ["--no-sandbox", "--disable-gpu"]}),
    # The browser's own protocol: Playwright's other way needs a Firefox of its making.
    "firefox": (("firefox-esr", "firefox"), {"channel": "moz-firefox"}),
}
WIDE, NARROW = {"width": 1400, "height": 900}, {"width": 390, "height": 800}
LONG = 60_000
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=BROWSERS)
def browser(request):
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    names, options = BROWSERS[request.param]
    path = next(filter(None, map(shutil.which, names)), None)
    if path is None:
        pytest.skip(f"there is no {names[0]}")
    with playwright.sync_playwright() as started:
        launcher = getattr(started, request.param)
        try:
            opened = launcher.launch(executable_path=path, timeout=LONG, **options)
        except playwright.Error as error:
            if "unknown command" not in error.message:
                raise
            # An ESR of Firefox may be older than what Playwright speaks.
            pytest.skip(f"{path} is too old for Playwright: {error.message.splitlines()[0]}")
        yield opened
        opened.close()


def routine(name: str, file: str, line: int, *groups: str) -> Timer:
    return Timer(name, file, line, groups=("PYTHON", *groups))


def training(number: int, slow: int = 0, more: int = 0):
    """A training whose times are lawful; `slow` is added to its loader."""
    ms = 1_000_000
    linear = routine("Linear", "site-packages/torch/linear.py", 120, "LAYER")
    layers = [call(linear._replace(name=f"Linear {n}"), 60, (40 + 9 * n) * ms) for n in range(4)]
    net = call(routine("Net", "model.py", 31, "LAYER"), 60, 30 * ms, layers)
    forward = call(routine("forward", "train.py", 44, "PHASE", "PHASE_FORWARD"), 60, 9 * ms, [net])
    decode = call(routine("decode", "data.py", 9), 960, 210 * ms + slow + more)
    load = call(routine("load", "data.py", 21, "PHASE", "PHASE_DATA"), 60, 20 * ms, [decode])
    backward = call(routine("backward", "train.py", 50, "PHASE", "PHASE_BACKWARD"), 60, 380 * ms)
    main = call(routine("main", "train.py", 60), 1, 25 * ms, [load, forward, backward])
    root = call(routine("<module>", "train.py", 1), 1, 4 * ms, [main])
    uuid = f"01900000-0000-7000-8000-0000000001{number:02}"
    profile = profile_of(host(root, name="MainThread"), metadata={"Hostname": "node7"})
    sources = [SourceFile("train.py", "train.py", 64 * "0", text=TRAIN)]
    return replace(profile, uuid=uuid, application="train", sources=sources)


TRAIN = "\n".join(
    ['"""Train."""', *(f"# {number}" for number in range(2, 44)), "def forward(x):", "    return x",
     "", "", "", "", "def backward():", "    pass", *(f"# {number}" for number in range(52, 60)),
     "def main():", "    for x in load():", "        forward(x); backward()"]
)  # fmt: skip


def looked_at():
    """A training in which the watch has looked at a line of `backward`, and rarely at another."""
    profile = training(20)
    names = [timer.name for timer in profile.timers]
    at = names.index("backward")
    profile.threads[0].lines = [
        LineTime(at, None, 51, 51, 4, 8, "cpu", 38, 370_000_000, 380, 144_000.0),
        LineTime(at, None, 50, 50, 0, 8, "cpu", 1, 10_000_000, 10, 100.0),
    ]
    return profile


def traced():
    """A GPU's streams over 60 ms, with pauses."""
    profile = gpu_profile(90, experiment="traced")
    random, at = Random(1), int(STARTED_AT * 1e9) + 2_000_000
    for number in range(900):
        took = int(random.lognormvariate(10.2, 0.8))
        for thread, row, kind in ((1, 4 + number % 2, "kernel"), (0, 3, "api")):
            begin = at if thread else at - 30_000
            end = at + took if thread else at - 24_000
            profile.threads[thread].activities.append(Activity(row, kind, begin, end, number + 1))
        at += took + (4_000_000 if number % 150 == 149 else 3_000)
    return profile


def ranks_of_steps():
    """The second of three ranks is late in each of 40 steps, and most in the last."""
    ms = 1_000_000
    profile = profile_of(
        *(host(call("main", 1, 9 * ms), number) for number in range(3)),
        number=5, experiment="ranks",
    )  # fmt: skip
    ends = [10 * ms * step for step in range(1, 41)]
    for number, measured in enumerate(profile.threads):
        early = [2 * ms if number == 1 else (5 + (end == ends[-1])) * ms for end in ends]
        asked = [end - less for end, less in zip(ends, early, strict=True)]
        measured.collectives = [collectives(asked, ends, ranks="0-2", size=3)]
        measured.steps = [steps([10 * ms] * 40)]
    return profile


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """A folder with one.html, compared.html and others."""
    folder = tmp_path_factory.mktemp("pages")
    with ProfileDB.open(folder / "a.db", create=True) as db:
        for number in range(10):
            side = number % 2
            profile = training(number, slow=150_000_000 * side, more=1_000 * (number // 2))
            add_profile(db, replace(profile, experiment="ab"[side]))
        add_profile(db, traced())
        add_profile(db, replace(hostile(wide_profile(400, number=7)), experiment="hostile"))
        add_profile(db, profile_of(host(call("main")), number=8, experiment="empty"))
        stepped = profile_of(host(call("main", 1, 9)), number=6, experiment="steps")
        stepped.threads[0].steps = [steps([n * 1_000_000 for n in range(1, 40)])]
        add_profile(db, stepped)
        add_profile(db, ranks_of_steps())
        add_profile(db, replace(gpu_faults.saved_each_step(), experiment="saved"))
        add_profile(db, replace(looked_at(), experiment="looked"))
        add_profile(
            db, replace(flat(1000), experiment="flat", uuid="01900000-0000-7000-8000-0000000002ff")
        )
        counted = {"flop_fp32": 4e9, "bytes_dram": 2e8}
        kernels = gpu_trial(Kernel("gemm", 10, 1_000_000, counted), number=9)
        add_profile(db, replace(kernels, experiment="counted"))
    for name, trials in {
        "one": ["1"],
        "compared": ["experiment=a", "experiment=b"],
        "traced": ["experiment=traced"],
        "hostile": ["12"],
        "empty": ["experiment=empty"],
        "counted": ["experiment=counted"],
        "steps": ["experiment=steps"],
        "ranks": ["experiment=ranks"],
        "looked": ["experiment=looked"],
        "flat": ["experiment=flat"],
        "saved": ["experiment=saved"],
    }.items():
        done = taupy("report", *trials, "-o", folder / f"{name}.html", "--db", folder / "a.db")
        assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def opened(browser, pages):
    """Opens a page; at the end, nothing was said on its console and nothing asked of a network."""
    said, asked, contexts = [], [], []

    def open_page(name: str, hash: str = "", **options):
        context = browser.new_context(**{"viewport": WIDE, **options})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"file://{pages}/{name}.html#{hash}")
        page.wait_for_selector("html[data-ready=yes]", timeout=LONG)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert said == []
    assert [url for url in asked if not url.startswith(f"file://{pages}/")] == []


def settled(page, pattern: str) -> str:
    """The page's address, once it says this."""
    for _ in range(LONG // 50):
        if re.search(pattern, page.evaluate("location.hash")):
            break
        page.wait_for_timeout(50)  # Playwright's own waiting needs eval, which the page forbids
    address = page.evaluate("location.hash")
    assert re.search(pattern, address), address
    return address


def chosen(page) -> str:
    return page.evaluate("document.querySelector('[aria-selected=true]').dataset.tab")


def test_tabs_are_chosen_by_arrows(opened):
    page = opened("one")
    assert chosen(page) == "overview"
    page.focus("[role=tab][aria-selected=true]")
    page.keyboard.press("ArrowRight")
    assert chosen(page) == "source"
    page.keyboard.press("ArrowRight")
    assert chosen(page) == "flame"
    assert page.evaluate("document.activeElement.dataset.tab") == "flame"
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert chosen(page) == "machine"
    assert settled(page, "tab=machine") == "#tab=machine"


def test_the_flame_graph_is_walked_by_keys(opened):
    page = opened("one", "tab=flame")
    canvas = page.locator("#tab-flame canvas")
    said = page.locator("#tab-flame .said")
    canvas.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    assert said.text_content().startswith("load, data.py:21, 230 ms")
    page.keyboard.press("Enter")
    settled(page, "zoom=.*load")
    assert page.locator("#tab-flame .path button").all_text_contents()[-1] == "load"
    page.keyboard.press("Escape")
    settled(page, "main$")


def test_a_box_is_zoomed_to_by_a_click(opened):
    page = opened("one", "tab=flame")
    box = page.locator("#tab-flame canvas").bounding_box()
    in_second_row = box["y"] + 43  # whether rows have one line of text or two
    page.mouse.click(box["x"] + 40, in_second_row)
    settled(page, "zoom=.*main")
    page.mouse.move(box["x"] + 45, in_second_row)
    assert "main" in page.locator("#tip").text_content()


def test_an_address_leads_to_what_it_says(opened):
    page = opened("one", "tab=flame&inverted=1&find=dec&theme=dark")
    assert chosen(page) == "flame"
    assert page.is_checked("[data-part=inverted]")
    assert page.input_value("[data-part=find]") == "dec"
    assert "ms" in page.locator("[data-part=share]").text_content()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_the_order_and_the_filter_of_a_table_are_in_the_address(opened):
    page = opened("one", "tab=routines")
    page.locator("#tab-routines th button").nth(4).click()
    address = settled(page, "sort.routines.0=4d")
    again = opened("one", address[1:] + "&find.routines.0=Linear")
    rows = again.locator("#tab-routines tbody tr").all_text_contents()
    assert len(rows) == 4 and all("Linear" in row for row in rows)
    assert again.locator("#tab-routines th").nth(4).get_attribute("aria-sort") == "descending"


def test_the_theme_follows_the_system_and_the_button(opened):
    def is_dark(page) -> bool:
        color = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        return max(map(int, re.findall(r"\d+", color)[:3])) < 80

    for scheme in ("light", "dark"):
        page = opened("one")
        page.emulate_media(color_scheme=scheme)
        if not page.evaluate(f"matchMedia('(prefers-color-scheme: {scheme})').matches"):
            pytest.skip("this browser's protocol emulates no color scheme")
        assert is_dark(page) == (scheme == "dark")
        page.click("#theme")
        assert is_dark(page) == (scheme == "light")


def test_the_button_changes_the_theme_and_the_address(opened):
    page = opened("one", "theme=dark")
    page.click("#theme")
    assert settled(page, "theme=light")


COLORS = """() => ["paper", "ink", "own", "wait", "line0", "hot"].map((name) =>
  getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim())"""


def test_a_printout_has_all_tabs_and_all_that_is_folded(opened):
    page = opened("one", "theme=dark")
    dark, light = (opened("one", f"theme={theme}").evaluate(COLORS) for theme in ("dark", "light"))
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    titles = page.eval_on_selector_all("#panels > *", "all => all.map((it) => it.dataset.title)")
    named = page.eval_on_selector_all("[role=tab]", "all => all.map((it) => it.firstChild.data)")
    assert titles == named
    assert dark != light == page.evaluate(COLORS)
    shown = "[...document.querySelectorAll('[role=tabpanel]')].every((it) => it.clientHeight > 0)"
    assert page.evaluate(shown)
    assert page.evaluate("[...document.querySelectorAll('details')].every((it) => it.open)")
    ink = "(() => { const canvas = document.querySelector('#tab-flame canvas');"
    ink += " return canvas.getContext('2d').getImageData(40, 8, 1, 1).data.slice(0, 3).join(); })()"
    assert page.evaluate(ink) not in ("0,0,0", "255,255,255")  # a box is drawn
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert not page.evaluate(shown)


SQUEEZED = """() => [...document.querySelectorAll("canvas")].filter((it) => it.clientWidth
  && Math.abs(it.width / it.height / (it.clientWidth / it.clientHeight) - 1) > 0.05)
  .map((it) => it.ariaLabel)"""

TALLER = """() => {
  const canvas = document.querySelector("#tab-flame canvas"), graph = canvas.parentElement;
  const drawn = graph.style.aspectRatio.split("/").map(Number);
  return Math.round(graph.clientHeight - (graph.clientWidth * drawn[1]) / drawn[0]);
}"""

BROKEN = """() => [...document.querySelectorAll("td.right")].filter((cell) => {
  const range = document.createRange();
  range.selectNodeContents(cell);
  return new Set([...range.getClientRects()].map(({ top }) => Math.round(top))).size > 1;
}).map((cell) => cell.textContent)"""


def test_on_paper_nothing_is_squeezed_and_no_number_is_broken(opened):
    page = opened("one")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    if not page.evaluate("matchMedia('print').matches"):
        pytest.skip("this browser is not told to show what it prints")
    page.evaluate("document.body.style.width = '640px'")  # of paper: nothing is drawn anew
    assert page.evaluate(SQUEEZED) == []
    assert page.evaluate(TALLER) == 0
    assert page.evaluate(BROKEN) == []


UNNAMED = """() => {
  const named = (it) => it.ariaLabel || it.getAttribute("aria-label") || it.textContent.trim()
    || it.labels?.[0]?.textContent.trim() || it.closest("label")?.textContent.trim();
  const all = [...document.querySelectorAll("button, input, select, canvas, [role=region]")];
  return all.filter((it) => !named(it) && !it.hidden).map((it) => it.outerHTML.slice(0, 99));
}"""

TABS = """() => [...document.querySelectorAll("[role=tab]")].filter((tab) => {
  const panel = document.getElementById(tab.getAttribute("aria-controls"));
  return panel?.getAttribute("role") !== "tabpanel"
    || panel.getAttribute("aria-labelledby") !== tab.id;
}).length"""


@pytest.mark.parametrize("name", ["one", "compared", "traced", "empty"])
def test_everything_has_a_role_and_a_name(opened, name):
    page = opened(name)
    assert page.evaluate(UNNAMED) == []
    assert page.evaluate(TABS) == 0
    assert page.evaluate("document.querySelectorAll('th:not([scope])').length") == 0
    assert page.evaluate("document.documentElement.lang") == "en"
    assert page.evaluate("document.querySelectorAll('h1').length") == 1


@pytest.mark.parametrize("name", ["one", "compared", "traced", "hostile", "counted"])
def test_in_a_narrow_window_nothing_is_wider_than_it(opened, name):
    page = opened(name, viewport=NARROW)
    for tab in page.locator("[role=tab]").all():
        tab.click()
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= NARROW["width"], tab.text_content()


def test_on_a_telephone_a_place_stands_below_its_numbers_and_is_whole(opened):
    place = opened("one", viewport=NARROW).locator("#tab-overview .place").first
    text, bar = place.locator(".src").bounding_box(), place.locator("b").bounding_box()
    assert text["y"] >= bar["y"] + bar["height"] and text["width"] > 300


def test_notes_below_places_leave_the_numbers_their_column(opened):
    page = opened("flat")
    note = page.locator("#tab-overview .hot > p").first
    assert note.inner_text().startswith("Publisher.publish calls: read ")
    first = page.locator("#tab-overview .place b").first.bounding_box()
    assert note.bounding_box()["width"] > 5 * first["width"]


def test_a_comparison_says_what_changed(opened):
    page = opened("compared")
    changed = page.locator("#tab-overview .bars .name").first
    assert changed.text_content().startswith("decode (data.py:9)+150 ms")
    page.click("[data-tab=flame]")
    assert page.locator("[data-part=group]").input_value() == "main"  # of both sides
    page.locator("#tab-flame canvas").focus()
    said = page.locator("#tab-flame .said")
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    said_of = {}
    for _ in range(3):
        text = said.text_content()
        said_of[text.partition(",")[0]] = text
        page.keyboard.press("ArrowRight")
    assert "(within noise)" in said_of["backward"] and "(within noise)" in said_of["forward"]
    assert said_of["load"].endswith("230 ms → 380 ms, 65.2 %")


def test_the_timeline_zooms_and_keeps_what_it_shows(opened):
    page = opened("traced", "tab=timeline")
    canvas = page.locator("#tab-timeline canvas")
    canvas.focus()
    page.keyboard.press("+")
    page.keyboard.press("ArrowRight")
    address = settled(page, "from=\\d+&to=\\d+")
    again = opened("traced", address[1:])
    again.locator("#tab-timeline canvas").focus()
    again.keyboard.press("ArrowRight")
    settled(again, f"from=(?!{address.partition('from=')[2].partition('&')[0]}&)")
    again.keyboard.press("Escape")
    settled(again, "^((?!from=).)*$")


def test_the_map_of_ranks_names_a_cell_and_keeps_what_it_shows(opened):
    page = opened("ranks", "tab=ranks")
    page.locator("#tab-ranks select").select_option("wait")
    again = opened("ranks", settled(page, "heat=wait")[1:])
    assert again.locator("#tab-ranks [data-part=high]").text_content() == "3.00 ms or more"
    canvas, said = again.locator("#tab-ranks canvas"), again.locator("#tab-ranks .said")
    canvas.focus()
    again.keyboard.press("ArrowDown")
    for _ in range(39):
        again.keyboard.press("ArrowRight")
    told = "rank 1, step 40, took 10.0 ms, without waiting 10.0 ms, waited 0 ns"
    assert said.text_content() == told
    again.keyboard.press("ArrowDown")
    told = "rank 2, step 40, took 10.0 ms, without waiting 6.00 ms, waited 4.00 ms"
    assert said.text_content() == told
    box = canvas.bounding_box()
    again.mouse.move(box["x"] + box["width"] - 4, box["y"] + box["height"] - 4)
    assert again.locator("#tip").text_content() == told.replace(", took", "took").replace(
        "ms, w", "msw"
    )


def test_a_line_says_its_values_where_one_points(opened):
    page = opened("steps", "tab=steps")
    chart = page.locator("#tab-steps .lines").first
    box = chart.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.99, box["y"] + 60)
    words = page.locator("#tab-steps figcaption").first
    name = page.locator("#tab-steps figure .legend").first
    assert name.text_content() == "time of a step of training"
    beside = name.bounding_box()
    assert beside["y"] + beside["height"] <= box["y"]  # not on the line
    assert words.text_content() == "step 39: time of a step of training: 39.0 ms"
    chart.focus()
    page.keyboard.press("ArrowLeft")
    assert words.text_content() == "step 38: time of a step of training: 38.0 ms"


def test_the_roofline_tells_the_numbers_of_a_point_and_keeps_what_it_shows(opened):
    page = opened("counted", "tab=roofline&theme=dark")
    symbol = page.locator("#tab-roofline .symbol")
    dark = symbol.get_attribute("fill")
    assert "gemm" in page.locator("#tab-roofline [data-part=legend]").text_content()
    symbol.hover()
    assert page.locator("#tip div").all_text_contents()[:3] == [
        "gemm, DRAM", "10 calls", "1.00 ms, 100.0 % of the time in kernels",
    ]  # fmt: skip
    page.mouse.move(1, 1)
    assert page.locator("#tip").is_hidden()
    symbol.focus()
    assert page.locator("#tip").is_visible()
    page.click("#theme")
    assert symbol.get_attribute("fill") != dark
    page.locator("#tab-roofline [data-part=kind]").select_option("combined")
    page.check("#tab-roofline [data-part=equal]")
    again = opened("counted", settled(page, "equal=1")[1:])
    assert again.locator("#tab-roofline .symbol").count() == 2
    assert again.locator("#tab-roofline h2").text_content().startswith("Time-based roofline")


def test_a_hostile_trial_is_text(opened):
    page = opened("hostile", "tab=routines")
    assert page.locator("#tab-routines tbody tr").count() == 200
    assert page.evaluate("document.querySelectorAll('main script, main img, main a').length") == 0
    page.click("#tab-routines .more")
    assert page.locator("#tab-routines tbody tr").count() > 200


def test_a_notebook_shows_the_page(browser, pages, tmp_path):
    import taupy as package

    frame = package.open(pages / "a.db").trial(1).report()._repr_html_()
    (tmp_path / "notebook.html").write_text(f"<!DOCTYPE html>{frame}", "utf-8")
    page = browser.new_page()
    said = []
    page.on("console", lambda message: said.append(message.text))
    page.goto(f"file://{tmp_path}/notebook.html#x")
    inside = page.frame_locator("iframe")
    inside.locator("html[data-ready=yes]").wait_for(timeout=LONG)
    inside.locator("[data-tab=flame]").click()
    page.wait_for_timeout(500)  # for the address, which a frame does not have
    assert page.evaluate("location.hash") == "#x" and said == []


@pytest.fixture(scope="module")
def digits(pages):
    """The page of a run of examples/mnist.py, whose screen the README shows, in the same folder."""
    script = Path(__file__).parents[2] / "examples/mnist.py"
    line = [sys.executable, "-m", "taupy", "run", "--db", pages / "digits.db", script]
    subprocess.run(
        [*line, "--epochs", "40"],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"}, check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    done = taupy("report", "-o", pages / "digits.html", "--db", pages / "digits.db")
    assert done.returncode == 0, done.stderr


PICTURES = {
    "report-overview": ("digits", "tab=overview", {"width": 1100, "height": 640}),
    "report-source": ("digits", "tab=source&line=100", {"width": 1100, "height": 560}),
    "report-flame": ("one", "tab=flame", {"width": 1400, "height": 520}),
    "report-compared": ("compared", "tab=flame", {"width": 1400, "height": 420}),
    "report-ranks": ("ranks", "tab=ranks&heat=own", {"width": 1400, "height": 480}),
    "report-timeline": ("traced", "tab=timeline&from=0&to=6e7", {"width": 1400, "height": 400}),
}


@pytest.mark.parametrize("picture", PICTURES)
def test_pictures_of_the_docs(opened, digits, picture, request, tmp_path):
    if request.node.callspec.params["browser"] != "chromium":
        pytest.skip("one browser makes the pictures")
    name, hash, viewport = PICTURES[picture]
    page = opened(name, hash, viewport=viewport)
    page.wait_for_timeout(300)
    folder = Path(os.environ.get("TAUPY_SCREENSHOTS", tmp_path))
    page.screenshot(path=folder / f"{picture}.png")
    assert (folder / f"{picture}.png").stat().st_size > 5_000


def lines_shown(page) -> list[str]:
    return page.locator("#tab-source .ln:not(.head)").all_text_contents()


def test_a_line_is_sent_as_a_link_and_the_next_hot_one_is_a_key_away(opened):
    page = opened("one", "tab=source")
    assert any(
        "380 ms" in line and "60\u00d7" in line and "def backward()" in line
        for line in lines_shown(page)
    )
    selected = page.locator("#tab-source [aria-selected=true]")
    assert "def backward():" in selected.text_content()
    page.focus("#tab-source .listing")
    page.keyboard.press("n")
    address = settled(page, "line=60")
    again = opened("one", address[1:])
    assert "def main():" in again.locator("#tab-source [aria-selected=true]").text_content()
    again.focus("#tab-source .listing")
    again.keyboard.press("ArrowDown")
    settled(again, "line=61")
    again.keyboard.press("Shift+N")
    settled(again, "line=60")
    assert "lines without time" in again.locator("#tab-source .gap").first.text_content()
    again.locator("#tab-source .gap button").first.click()
    assert again.locator("#tab-source .gap").count() == 0


def test_blank_lines_between_routines_take_no_room(opened):
    page = opened("one", "tab=source")
    code = page.locator("#tab-source .ln:not(.head) pre")
    assert code.count() > 4 and all(text.strip() for text in code.all_text_contents())
    page.check("#tab-source .controls input")
    assert code.all_text_contents() == TRAIN.split("\n")


def test_hot_lines_are_a_key_away_wherever_the_focus_is(opened):
    page = opened("one", "tab=source")
    page.focus("[role=tab][aria-selected=true]")
    page.keyboard.press("n")
    settled(page, "line=60")
    page.keyboard.press("Shift+N")
    settled(page, "line=50")
    page.focus("#tab-source select")
    page.keyboard.press("n")
    assert page.locator("#tab-source [aria-selected=true]").get_attribute("data-line") == "50"


def test_lines_of_a_group_of_threads_are_one_table_which_begins_with_the_line(opened):
    page = opened("looked", "tab=lines")
    headings = page.locator("#tab-lines tr > :first-child").all_text_contents()
    assert headings[0] == "Line" and headings[1].startswith("train.py:51")
    assert page.locator("#tab-lines h3").all_text_contents() == ["Lines, main thread"]


def test_the_page_of_the_demo_is_small(digits, pages):
    """At most 400 KB: it is sent by mail."""
    assert (pages / "digits.html").stat().st_size <= 400_000


def test_a_million_call_paths_add_nothing_to_the_first_view(browser, tmp_path):
    """So the first paint does not depend on them: benchmarks/page.py measures its time."""
    call_tree = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks/page.py"))["tree"]
    first = {}
    for paths in (1_000, 1_000_000):
        held = contents.Contents("random", "call paths")
        held.forest.add(call_tree(paths), {})
        path = tmp_path / f"{paths}.html"
        path.write_text(html_page(held), "utf-8")
        page = browser.new_page(viewport=WIDE)
        page.goto(f"file://{path}#tab=flame")
        page.wait_for_selector("html[data-ready=yes]", timeout=LONG)
        first[paths] = page.evaluate(
            "[document.querySelectorAll('*').length, document.body.innerText.length]"
        )
        page.close()
    assert path.stat().st_size < 12_000_000  # bytes a call path
    few, many = first.values()
    assert many[0] <= few[0] + 10 and many[1] <= few[1] + 200


@pytest.mark.parametrize("width", [1400, 700])
def test_the_line_of_a_link_is_in_view(opened, width):
    page = opened("one", "tab=source&line=60", viewport={"width": width, "height": 400})
    box = page.locator("#tab-source [aria-selected=true]").bounding_box()
    listing = page.locator("#tab-source .listing").bounding_box()
    if width == 1400:
        assert listing["y"] + 18 <= box["y"] <= listing["y"] + listing["height"] - 19
    else:
        assert 0 <= box["y"] <= 400


def test_a_box_of_the_flame_graph_tells_the_estimates_of_its_lines(opened):
    page = opened("looked", "tab=flame&find=backward")
    page.focus("#tab-flame canvas")
    said = page.locator("#tab-flame .said")
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    while not said.text_content().startswith("backward,"):
        page.keyboard.press("ArrowRight")
    assert "380 ms" in said.text_content()
    assert "line 51, ~370 ms: pass" in said.text_content()
    assert "line 50" not in said.text_content()  # seen too rarely


def test_estimates_of_lines_stand_beside_them_and_exact_times_at_the_definition(opened):
    page = opened("looked", "tab=source")
    assert "pass" in page.locator("#tab-source [aria-selected=true]").text_content()
    lines = lines_shown(page)
    assert any("~370 ms" in line and "pass" in line for line in lines)
    (defined,) = [line for line in lines if "def backward():" in line]
    assert "380 ms exact" in defined and "~" not in defined
    assert "~370 ms ±" in page.locator("#tab-source .side").text_content()
    page.click("[data-tab=overview]")
    place = page.locator("#tab-overview .place", has_text="train.py:51")
    assert "pass" in place.text_content()
    assert "this line" not in place.text_content()  # it is nearly all of the place
    place.click()
    settled(page, "line=51")


@pytest.mark.parametrize("name", ["one", "looked"])
def test_code_stands_next_to_its_times_and_is_cut_before_what_is_said_of_it(opened, name):
    page = opened(name, "tab=source", viewport={"width": 700, "height": 900})
    row = page.locator('#tab-source [data-line="50"]')
    assert row.locator("pre").bounding_box()["x"] - row.bounding_box()["x"] <= 200
    assert "60\u00d7" in row.locator(".rt").inner_text()
    row.locator("pre").evaluate("(it) => { it.textContent = 'x'.repeat(999); }")
    said = row.locator(".rt").bounding_box()
    assert said["x"] + said["width"] <= 700


def test_an_overview_with_room_shows_the_hottest_code_which_leads_to_its_line(opened):
    page = opened("looked")
    code = page.locator("#tab-overview .listing")
    assert "~370 ms" in code.locator("[aria-current]").inner_text()
    assert "pass" in code.locator("[aria-current]").inner_text()
    code.focus()
    page.keyboard.press("Enter")
    settled(page, "tab=source.*line=51")
    assert opened("steps").locator("#tab-overview .listing").count() == 0  # steps take the room


def test_a_place_of_the_overview_leads_to_its_line(opened):
    page = opened("one")
    page.locator("#tab-overview .place", has_text="backward 60x · train.py:50").click()
    assert chosen(page) == "source"
    settled(page, "tab=source.*line=50")
    page.keyboard.press("3")
    assert chosen(page) == "flame"
    page.focus("#tab-flame [data-part=find]")
    page.keyboard.press("1")  # into the field, not to a tab
    assert chosen(page) == "flame"


def seconds(text: str) -> float:
    number, unit = text.split()
    return float(number) * {"s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}[unit]


def test_places_imports_and_exit_are_sorted_by_time(opened):
    page = opened("saved")
    times = page.locator("#tab-overview .hot > div > b").all_text_contents()
    rows = page.locator("#tab-overview .hot > div")
    kinds = rows.evaluate_all("all => all.map((row) => row.className)")
    assert sorted(map(seconds, times), reverse=True) == list(map(seconds, times))
    assert "place" in kinds[kinds.index("apart") :]  # one that takes less


def test_evidence_says_what_it_is_and_leaves_out_the_only_thread(opened):
    page = opened("saved")
    table = page.locator("#tab-overview .evidence").first
    caption = table.locator("caption").text_content()
    assert caption.startswith("Evidence: ") and "routine" in caption
    assert "thread" not in table.locator("th").all_text_contents()


def test_what_is_over_time_stands_below_the_places_and_in_a_narrow_window_last(opened):
    for width in (1400, 700):
        page = opened("steps", viewport={"width": width, "height": 900})
        left, right, course = page.locator("#tab-overview .columns > *").evaluate_all(
            "all => all.map((each) => each.getBoundingClientRect().toJSON())"
        )
        above = left if width == 1400 else right
        assert course["x"] == above["x"] and course["top"] >= above["bottom"]
        assert right["top"] == left["top"] if width == 1400 else right["top"] >= left["bottom"]


def test_the_hottest_code_stands_in_the_first_view_and_leads_to_its_line(opened):
    page = opened("looked")
    code = page.locator("#tab-overview .code .listing").first
    assert code.bounding_box()["y"] < 900 - 5 * 18
    line = code.locator("[aria-current=true]")
    assert line.get_attribute("data-line") == "51" and line.locator(".bar i").count() == 1
    line.click()
    assert chosen(page) == "source"
    settled(page, "tab=source.*line=51")


def test_the_strip_over_time_shows_what_steps_did(opened):
    page = opened("steps")
    canvas = page.locator("#tab-overview .over canvas")
    assert "after the last step" in canvas.get_attribute("aria-label")
    # In the middle of the last step: its data, a tenth, below; the rest of it above.
    colors = page.evaluate(r"""() => {
      const canvas = document.querySelector("#tab-overview .over canvas");
      const data = document.createElement("i");
      data.className = "k-data";
      document.body.append(data);
      const wanted = getComputedStyle(data).backgroundColor.match(/\d+/g).slice(0, 3).join();
      const { width, height } = canvas;
      const pixels = canvas.getContext("2d").getImageData(0, 0, width, height).data;
      const at = (x, y) => pixels.slice(4 * (y * width + x), 4 * (y * width + x) + 3).join();
      const bottom = height - 1;
      const found = Array.from({ length: width }, (_, x) => at(x, bottom) === wanted);
      const x = found.lastIndexOf(true);
      return [x > 0, at(x, 1) !== wanted, at(width - 1, bottom) !== wanted];
    }""")
    assert colors == [True, True, True]


EVERY = [
    *("one", "compared", "traced", "hostile", "empty", "counted", "steps", "ranks", "looked"),
    "saved",
]

EMPTY_COLUMNS = """() => [...document.querySelectorAll("table:not(.evidence)")].flatMap((table) =>
  [...table.querySelectorAll("th")].filter((head, at) => {
    const rows = [...table.querySelectorAll("tbody tr")];
    return rows.length && rows.every((row) => !row.cells[at]?.textContent.trim());
  }).map((head) => head.textContent))"""

POOR_CONTRAST = """() => {
  const numbers = (text) => text.match(/[\\d.]+/g).map(Number);
  const weights = [.2126, .7152, .0722];
  const linear = (part) => part <= .03928 ? part / 12.92 : ((part + .055) / 1.055) ** 2.4;
  const light = (text) => numbers(text).slice(0, 3).map((part) => linear(part / 255))
    .reduce((sum, part, at) => sum + weights[at] * part, 0);
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const color = getComputedStyle(at).backgroundColor;
      if (!/, 0\\)$|transparent/.test(color)) return color;
    }
    return "rgb(255, 255, 255)";
  };
  const poor = [];
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
    if (!own || !node.offsetParent || node.closest("svg, .said")) continue;
    const both = [light(getComputedStyle(node).color), light(behind(node))];
    if ((Math.max(...both) + .05) / (Math.min(...both) + .05) < 4.5) poor.push(node.outerHTML);
  }
  return poor;
}"""

SPELLINGS = re.compile(r"PHASE_[A-Z]|\.taupy application|\}\{\d+\}|<locals>|\bundefined\b|\bNaN\b")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 700])
@pytest.mark.parametrize("name", EVERY)
def test_every_tab_can_be_read(opened, name, width, theme):
    page = opened(name, f"theme={theme}", viewport={"width": width, "height": 900})
    assert page.evaluate(EMPTY_COLUMNS) == []
    tabs = page.locator("[role=tab]").all()
    for tab in tabs:
        tab.click()
        title = tab.text_content()
        assert page.evaluate("document.documentElement.scrollWidth") <= width, title
        shown = page.locator("[role=tabpanel]:not([hidden])")
        assert shown.text_content().strip(), title  # no tab without data
        if name != "hostile":  # whose names are what they are
            assert not SPELLINGS.search(shown.inner_text()), title
        assert page.evaluate(POOR_CONTRAST) == [], title
    page.focus("[role=tab][aria-selected=true]")
    seen = set()
    for _ in tabs:
        page.keyboard.press("ArrowRight")
        seen.add(chosen(page))
    assert len(seen) == len(tabs)
