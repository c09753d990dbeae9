"""Runs the programs by others, and counts what the first screen of `taupy report` names.

    python -m tests.findings.judge                    the faulty and the healthy ones
    python -m tests.findings.judge --twins            the mended twins of the faulty ones
    python -m tests.findings.judge order_desk ...     some

The first screen is 80 columns wide. Of a faulty program it counts as

first     that the line stands in its first place, or in its first finding;
screen    that the line stands anywhere, by number or as text;
routine   that the routine's name stands anywhere;
reason    that one of the words of the key stands anywhere but in the program's own name and command
          (`in words`: in a finding, other than as source text).

Of healthy programs and twins it counts the findings, none of which should be there.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent / "programs" / "by_others"
TIMEOUT_S = 300
SHOWN = 20
"""Characters of a line's text that tell it from others, if the screen cuts it."""

_FINDING = re.compile(r"^[▲◆●] ")
_PLACE = re.compile(r"^ *(\d+ min )?[\d.]+ [mun]?s +<?\d+ %")


def keys() -> dict[str, Mapping[str, Any]]:
    """What the authors say of each program."""
    return {
        key["name"]: key
        for path in sorted(HERE.glob("keys_*.json"))
        for key in json.loads(path.read_text())
        if key["kind"] == "faulty"
    }


def healthy() -> list[str]:
    return sorted(path.stem for path in HERE.glob("ok_*"))


def files(name: str) -> dict[str, str]:
    """The texts of a program, by file: a module, or a folder with a `main.py`."""
    place = HERE / name
    paths = sorted(place.glob("*.py")) if place.is_dir() else [HERE / f"{name}.py"]
    return {path.name: path.read_text() for path in paths}


def places(key: Mapping[str, Any]) -> list[tuple[str, int]]:
    """(file, line) of each line that names the fault; a number alone is of the program's file."""
    marks = [str(mark).rpartition(":") for mark in (key["line"], *key["also"])]
    return [(file or key["file"], int(line)) for file, _, line in marks]


@dataclass
class Screen:
    """A first screen in its parts, each row with what is indented below it."""

    places: list[str]
    findings: list[str]
    whole: str

    @classmethod
    def of(cls, text: str) -> Screen:
        """Without the first line, which has the program's name."""
        parts: list[list[str]] = []
        for line in text.splitlines()[1:]:
            if _PLACE.match(line) or not line.startswith("  "):
                parts.append([line])
            elif parts:
                parts[-1].append(line)
        joined = [" ".join(line.strip() for line in part) for part in parts]
        places = [part for part, lines in zip(joined, parts, strict=True) if _PLACE.match(lines[0])]
        findings = [part for part in joined if _FINDING.match(part)]
        return cls(places, findings, "\n".join(joined))


@dataclass
class Told:
    first: bool
    screen: bool
    routine: bool
    reason: str
    in_words: bool
    findings: Sequence[str]


def judged(text: str, key: Mapping[str, Any], sources: Mapping[str, str]) -> Told:
    """What a screen says of a faulty program, whose texts these are, by file."""
    screen = Screen.of(text)
    lines = places(key)
    texts = [sources[file].splitlines()[line - 1].strip() for file, line in lines]
    routine = key["routine"].split(".")[-1].split("(")[0]

    def has_line(part: str) -> bool:
        by_number = any(
            re.search(rf"({re.escape(file)}:|\bline )({line})\b", part) for file, line in lines
        )
        by_text = any(len(one) > SHOWN // 2 and one[:SHOWN] in part for one in texts)
        return by_number or by_text

    findings = " ".join(screen.findings)
    for one in texts:
        findings = findings.replace(one, "")
    said = [word for word in key["words"] if word.lower() in screen.whole.lower()]
    return Told(
        any(has_line(part) for part in (*screen.places[:1], *screen.findings[:1])),
        has_line(screen.whole),
        re.search(rf"\b{re.escape(routine)}\b", screen.whole) is not None,
        ", ".join(said),
        any(word.lower() in findings.lower() for word in said),
        screen.findings,
    )


def measured(name: str, folder: Path) -> str:
    """The first screen of a program that `taupy run` ran, as a person sees it."""
    there = folder / name
    there.mkdir()
    alone = f"{name.removesuffix('_mended')}.py"
    for file, text in files(name).items():
        program = there / (file if (HERE / name).is_dir() else alone)
        program.write_text(text)
        os.utime(program, (1e9, 1e9))
    started = "main.py" if (HERE / name).is_dir() else alone
    here = Path(__file__).parents[2]
    environment = {
        **os.environ, "PYTHONPATH": str(here), "COLUMNS": "80", "OMP_NUM_THREADS": "1",
        "TAUPY_STATE_DIR": os.environ.get("TAUPY_STATE_DIR", str(folder / "state")),
    }  # fmt: skip
    taupy = [sys.executable, "-m", "taupy"]
    done = subprocess.run(
        [*taupy, "run", "--db", "t.db", started],
        cwd=there, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{name}: {done.stderr[-2000:]}")
    return subprocess.run(
        [*taupy, "report", "--db", "t.db"],
        cwd=there, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=True,
    ).stdout  # fmt: skip


def _row(name: str, text: str, told: Told) -> Iterator[str]:
    def said(is_so: bool) -> str:
        return "yes" if is_so else "-"

    yield (
        f"{name:20s} {said(told.first):6s} {said(told.screen):6s} {said(told.routine):7s} "
        f"{told.reason or '-'}{' (in words)' if told.in_words else ''}"
    )


def main(arguments: Sequence[str]) -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--twins", action="store_true", help="the mended twins")
    options.add_argument("--screens", action="store_true", help="print the screens")
    options.add_argument("names", nargs="*")
    asked = options.parse_args(arguments)
    faulty = keys()
    names = asked.names or [*faulty, *healthy()]
    if asked.twins:
        names = [f"{name}_mended" for name in asked.names or faulty]
    told: dict[str, Told] = {}
    without: dict[str, list[str]] = {}
    print(f"{'program':20s} first  screen routine reason")
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            text = measured(name, Path(folder))
            if name in faulty:
                key = faulty[name]
                told[name] = judged(text, key, files(name))
                print(*_row(name, text, told[name]), sep="\n", flush=True)
            else:
                without[name] = Screen.of(text).findings
                print(f"{name:20s} {len(without[name])} findings", *without[name], sep="\n    ")
            if asked.screens:
                print(text, flush=True)
    if told:
        counts = [
            sum(told.first for told in told.values()), sum(told.screen for told in told.values()),
            sum(told.routine for told in told.values()),
            sum(bool(told.reason) for told in told.values()),
            sum(told.in_words for told in told.values()),
        ]  # fmt: skip
        print(
            "of {} faulty: {} first, {} on the screen, {} routine, {} reason ({} in words)".format(
                len(told), *counts
            )
        )
    if without:
        false = sum(map(bool, without.values()))
        print(f"of {len(without)} without a fault: {false} with findings")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
