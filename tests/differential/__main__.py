"""Writes outputs: see `tests/differential/outputs.py`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.differential.outputs import ASKED, STORED, outputs, summary


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit(f"{__doc__}\nusage: python -m tests.differential FOLDER | --update")
    for name in ASKED:
        with tempfile.TemporaryDirectory() as folder:
            if sys.argv[1] == "--update":
                (STORED / f"{name}.txt").write_text(summary(name, Path(folder)), "utf-8")
                continue
            for command, form, text in outputs(name, Path(folder)):
                path = Path(sys.argv[1], name, f"{command} {form}".strip().replace("/", "|"))
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, "utf-8")


main()
