"""Write taupy/catalog/recorded.py from NVIDIA's metric database.

    pip install nvidia-cuda-cupti==13.0.85
    python scripts/record_counters.py

Needs neither a GPU nor a driver. Run it after changing the catalogue's spellings or sets.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "taupy" / "catalog" / "recorded.py"
EMPTY = """\
from __future__ import annotations

CHIPS: tuple[str, ...] = ()
METRICS: dict[str, int] = {}
COUNTER_PASSES: dict[str, str] = {}
SET_PASSES: dict[str, str] = {}
"""
HEAD = '''"""Which chip has which PerfWorks metric, and how many passes it takes. Made by a program.

`scripts/record_counters.py` wrote this from NVIDIA's own database ({source}); the tests
compare it with that database where the library is installed. Nothing here is written by hand.
"""

from __future__ import annotations

SOURCE = "{source}"

CHIPS: tuple[str, ...] = (
{chips})
"""The chips in the order of the bits and columns below."""

UNANSWERED: tuple[str, ...] = ({unanswered},)
"""Chips that the library lists but has no metrics for."""

METRICS: dict[str, int] = {{
{metrics}}}
"""A spelling's metric -> the chips that have it: bit n is CHIPS[n]."""

COUNTER_PASSES: dict[str, str] = {{
{counters}}}
"""Counter -> passes needed for it alone, one column per chip; `-` if the chip lacks it."""

SET_PASSES: dict[str, str] = {{
{sets}}}
"""A set -> passes by chip, without the counters that the chip lacks."""
'''


def main() -> int:
    if not TARGET.exists():
        TARGET.write_text(EMPTY)
    sys.path.insert(0, str(ROOT))
    from taupy.catalog import spelling as spellings
    from taupy.catalog.counters import COUNTERS
    from taupy.catalog.sets import SETS
    from taupy.collectors.cupti_host import CuptiError, CuptiHost

    host = CuptiHost.open()
    wanted = sorted(
        {
            term.metric
            for counter in COUNTERS
            for spelling in counter.spellings
            for term in spellings.terms(spelling)
        }
    )
    chips, unanswered = host.chips(), []
    masks = dict.fromkeys(wanted, 0)
    counter_passes = {counter.name: [] for counter in COUNTERS}
    set_passes = {counter_set.name: [] for counter_set in SETS}
    for at, name in enumerate(chips):
        try:
            chip = host.chip(name)
        except CuptiError:
            unanswered.append(name)
            for columns in (*counter_passes.values(), *set_passes.values()):
                columns.append("-")
            continue
        with chip:
            available = {metric for metric in wanted if chip.has(metric)}
            for metric in available:
                masks[metric] |= 1 << at
            spelled = {}
            for counter in COUNTERS:
                for spelling in counter.spellings:
                    metrics = [term.metric for term in spellings.terms(spelling)]
                    if available.issuperset(metrics):
                        spelled[counter.name] = metrics
                        break
                passes = chip.passes(spelled[counter.name]) if counter.name in spelled else "-"
                counter_passes[counter.name].append(str(passes))
            for counter_set in SETS:
                metrics = [
                    metric
                    for counter in counter_set.counters
                    for metric in spelled.get(counter, ())
                ]
                set_passes[counter_set.name].append(str(chip.passes(list(dict.fromkeys(metrics)))))
    gone = [metric for metric, mask in masks.items() if not mask]
    if gone:
        print(f"no chip has: {', '.join(gone)}", file=sys.stderr)
        return 1
    version = re.sub(r"[^\w.]", "", host.version_text)
    text = HEAD.format(
        source=f"CUPTI {version}",
        chips="".join(f'    "{name}",\n' for name in chips),
        unanswered=", ".join(f'"{name}"' for name in unanswered),
        metrics="".join(f'    "{name}": 0x{mask:08x},\n' for name, mask in masks.items()),
        counters="".join(f'    "{n}": "{" ".join(p)}",\n' for n, p in counter_passes.items()),
        sets="".join(f'    "{n}": "{" ".join(p)}",\n' for n, p in set_passes.items()),
    )
    TARGET.write_text(text)
    subprocess.run([sys.executable, "-m", "ruff", "format", "-q", str(TARGET)], check=False)
    print(f"{TARGET}: {len(wanted)} metrics of {len(chips)} chips, {host.path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
