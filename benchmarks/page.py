"""A report's page: its size, the time until it is painted beside that of an empty page, and the
frame time while zooming.

    python benchmarks/page.py [--paths 1000000] [--browser chromium]

The call paths are a random tree of 20,000 routines, the worst case for compression. Times are
measured in headless Chromium without a GPU, through Playwright (`pip install playwright`). A
frame's time is CPU time of the main thread, which varies less on a busy machine than elapsed time.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from taupy.model.rows import ThreadRow, TimerRow
from taupy.model.table import Column, Table
from taupy.report.contents import Contents
from taupy.report.page import html_page

ROUTINES = 20_000
PAINTS = 5


def tree(paths: int) -> Table:
    """Random call paths of one thread, up to 60 deep, with times from five orders of magnitude."""
    rng = random.Random(1)
    parent, depth = [-1], [0]
    for row in range(1, paths):
        above = rng.randrange(max(0, row - 5000), row) if rng.random() < 0.6 else row - 1
        if depth[above] > 60:
            above = rng.randrange(row // 2)
        parent.append(above)
        depth.append(depth[above] + 1)
    own = [int(rng.lognormvariate(9, 2)) for _ in range(paths)]
    whole = own[:]
    for row in range(paths - 1, 0, -1):
        whole[parent[row]] += whole[row]
    files = [f"package/module_{number % 300}.py" for number in range(ROUTINES)]
    timers = [
        TimerRow(f"routine_{n} [{{{file}}}]", f"routine_{n}", file, n, "PYTHON")
        for n, file in enumerate(files)
    ]
    return Table(
        {
            "thread": [0] * paths,
            "callpath": list(range(paths)),
            "parent": [above + 1 for above in parent],
            "timer": [rng.randrange(ROUTINES) for _ in range(paths)],
        },
        {
            "thread": [ThreadRow(0, 0, 0, "host", "main")],
            "callpath": list(range(paths)),
            "parent": [None, *range(paths)],
            "timer": timers,
        },
        {
            Column("calls"): [rng.randrange(1, 1000) for _ in range(paths)],
            Column("inclusive", "time"): whole,
            Column("exclusive", "time"): own,
        },
        paths,
    )


def first_paint(browser: Any, path: Path) -> float:
    """The time from the begin of navigation to the first paint [ms]."""
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.goto(f"file://{path}")
    page.wait_for_function("performance.getEntriesByType('paint').length > 0")
    paint: float = page.evaluate("performance.getEntriesByType('paint')[0].startTime")
    page.close()
    return paint


def in_browser(path: Path, browser: str) -> None:
    from playwright.sync_api import sync_playwright

    empty = path.with_name("empty.html")
    empty.write_text("<!doctype html><title>empty</title><p>A line of text.", "utf-8")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(
            executable_path=browser, args=["--no-sandbox", "--disable-gpu"]
        )
        page = opened.new_page(viewport={"width": 1400, "height": 900})
        before = time.perf_counter()
        page.goto(f"file://{path}#tab=flame")
        page.wait_for_selector("html[data-ready=yes]", timeout=120_000)
        drawn = time.perf_counter() - before
        ours, bare = [], []
        for _ in range(PAINTS):  # in turn: a busy machine slows both
            ours.append(first_paint(opened, path))
            bare.append(first_paint(opened, empty))
        page.mouse.move(5, 5)
        page.wait_for_timeout(1000)
        rows = (2, 4, 6, 8, 10, 1, 3, 5, 12, 0)
        first = [longest_task(opened, page, row) for row in rows]
        again = [longest_task(opened, page, row) for row in rows]
        opened.close()
    paint, least = statistics.median(ours), statistics.median(bare)
    print(
        f"first paint {paint:.0f} ms (least {min(ours):.0f}), of an empty page {least:.0f} ms "
        f"(least {min(bare):.0f}): {paint / least:.2f} times; flame graph drawn after {drawn:.2f} s"
    )
    print("longest task of the main thread after a click [ms of CPU]:")
    for when, values in (("first time", first), ("later", again)):
        print(f"  {when}: median {statistics.median(values):.1f}, most {max(values):.1f}")


def longest_task(browser: Any, page: Any, row: int) -> float:
    """Zoom into a box of this row; the longest task of the page's main thread [ms]."""
    box = page.locator("canvas").bounding_box()
    page.evaluate("scrollTo(0, 0)")
    browser.start_tracing(page=page, categories=["toplevel", "devtools.timeline"])
    page.mouse.click(box["x"] + 0.3 * box["width"], box["y"] + 22 * row + 11)
    page.wait_for_timeout(500)
    events = json.loads(browser.stop_tracing())["traceEvents"]
    main = {
        (event["pid"], event["tid"])
        for event in events
        if event["name"] == "thread_name" and event["args"]["name"] == "CrRendererMain"
    }
    return max(
        event.get("tdur", 0) / 1000
        for event in events
        if "RunTask" in event["name"] and (event["pid"], event["tid"]) in main
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--paths", type=int, default=1_000_000)
    parser.add_argument("--browser", default="/usr/bin/chromium")
    args = parser.parse_args()
    table = tree(args.paths)
    contents = Contents("benchmark", "random call paths")
    before = time.process_time()
    contents.forest.add(table, {})
    text = html_page(contents)
    cpu = time.process_time() - before
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        path.write_text(text, "utf-8")
        print(f"{args.paths} call paths: {len(text) / 1e6:.2f} MB, written in {cpu:.1f} s of CPU")
        in_browser(path, args.browser)


if __name__ == "__main__":
    main()
