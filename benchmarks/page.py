"""The page of a report: its size, how soon it paints, and how long a frame takes while zooming.

    python benchmarks/page.py [--paths 1000000] [--browser chromium]

The call paths are a random tree of 20,000 routines, the worst case for its compression. The times
are of headless Chromium without a GPU; they need Playwright (`pip install playwright`).
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from taupy.model.rows import ThreadRow, TimerRow
from taupy.model.table import Column, Table
from taupy.report.contents import Contents
from taupy.report.page import html_page

ROUTINES = 20_000

CLICK = """(row) => {
  const canvas = document.querySelector("canvas");
  const box = canvas.getBoundingClientRect();
  const before = performance.now();
  const place = { clientX: box.left + box.width * 0.3, clientY: box.top + row * 18 + 9 };
  canvas.dispatchEvent(new MouseEvent("click", { ...place, bubbles: true }));
  return performance.now() - before;
}"""


def tree(paths: int) -> Table:
    """Random call paths of one thread, up to 60 deep, with times over five decades."""
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


def in_browser(path: Path, browser: str) -> None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(
            executable_path=browser, args=["--no-sandbox", "--disable-gpu"]
        )
        page = opened.new_page(viewport={"width": 1400, "height": 900})
        before = time.perf_counter()
        page.goto(f"file://{path}#tab=flame")
        page.wait_for_selector("html[data-ready=yes]", timeout=120_000)
        drawn = time.perf_counter() - before
        paint = page.evaluate("performance.getEntriesByType('paint')[0].startTime")
        rows = (2, 4, 6, 8, 10, 1, 3, 5, 12, 0)
        first = [page.evaluate(CLICK, row) for row in rows]
        again = [page.evaluate(CLICK, row) for _ in range(5) for row in rows]
        opened.close()
    print(f"first paint {paint:.0f} ms, flame graph drawn after {drawn:.2f} s")
    print(f"zoom, first time: median {statistics.median(first):.1f} ms, most {max(first):.1f} ms")
    print(f"zoom, later: median {statistics.median(again):.1f} ms, most {max(again):.1f} ms")


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
