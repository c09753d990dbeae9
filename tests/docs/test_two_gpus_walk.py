"""What docs/gpu.md shows of two GPUs is what the commands print, of traces and of recordings."""

from __future__ import annotations

import json
import os
import re
import shlex
import tarfile
from datetime import datetime
from pathlib import Path

import pytest

from taupy.analysis import gpu_idle
from taupy.catalog.datasheets import datasheet
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from tests import builders, in_process
from tests.gpu import calls
from tests.unit.collectors.rebuilt import rebuilt
from tests.unit.collectors.test_cupti_fixtures import read_fixture
from tests.unit.collectors.test_cupti_records import collector

TRACES = Path(os.environ.get("TAUPY_SHARED_DATA") or "/nonexistent") / "traces"
PAGE = Path(__file__).parents[2] / "docs" / "gpu.md"
AMD, RECORDED = "## Two GPUs, from beginning to end", "## H100 and H200, from beginning to end"
RECORDINGS = Path(__file__).parents[1] / "data" / "cupti"
DAYS = {"h100": "2026-11-27", "h200": "2026-11-26"}

__all__ = ["collector"]


def section(title: str) -> str:
    return PAGE.read_text().partition(f"{title}\n")[2].partition("\n## ")[0]


def shown(title: str) -> dict[str, list[str]]:
    """Each command of the section, with the lines below it."""
    commands: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in re.findall(r"^ {4}(.*)$", section(title), re.MULTILINE):
        if line.startswith("$ taupy "):
            lines = commands.setdefault(line.removeprefix("$ taupy "), [])
        else:
            lines.append(line)
    return commands


def check(title: str, folder: Path) -> None:
    """Run the commands of a section in a folder."""
    for command, lines in shown(title).items():
        done = in_process.taupy(*shlex.split(command), cwd=folder)
        refused = any(line.startswith("taupy: ") for line in lines)
        assert (done.returncode != 0) == refused, done.stderr
        printed = [line.rstrip() for line in (done.stdout + done.stderr).splitlines()]
        for line in lines:  # a row may be cut: the page leaves out the names of kernels
            assert any(real.startswith(line) for real in printed), f"taupy {command}: {line}"


@pytest.mark.slow
@pytest.mark.skipif(not TRACES.exists(), reason="TAUPY_SHARED_DATA has no traces")
def test_the_commands_print_what_the_page_shows_of_two_traces(tmp_path):
    for name in ("qwen_h100", "qwen_mi300"):
        (tmp_path / f"{name}.json.gz").symlink_to(TRACES / f"{name}.json.gz")
    assert sum(map(len, shown(AMD).values())) > 15
    check(AMD, tmp_path)


def test_the_commands_print_what_the_page_shows_of_two_recordings(collector, tmp_path):
    with ProfileDB.open(tmp_path / "taupy.db", create=True, readonly=False) as db:
        for number, (gpu, day) in enumerate(DAYS.items()):
            with tarfile.open(RECORDINGS / f"{gpu}_torch_steps.tar.xz") as packed:
                packed.extractall(tmp_path, filter="data")
            (scratch := tmp_path / f"{gpu}_replayed").mkdir()
            records = read_fixture(tmp_path / f"{gpu}_torch_steps")
            profile = rebuilt(collector, scratch, records, calls.Host({}, []))
            gpu_idle.note(profile)
            profile.uuid, profile.name = builders.UUID.format(number), gpu
            profile.application, profile.experiment = "torch_steps", "recorded"
            profile.started_at = datetime.fromisoformat(f"{day}T00:00+00:00").timestamp()
            add_profile(db, profile)
    assert sum(map(len, shown(RECORDED).values())) >= 10
    check(RECORDED, tmp_path)


@pytest.mark.parametrize("title", [AMD, RECORDED])
def test_the_words_have_the_numbers_of_the_output(title):
    output = "\n".join(line for lines in shown(title).values() for line in lines)
    prose = re.sub(r"^ {4}.*$", "", section(title), flags=re.MULTILINE)
    numbers = re.findall(r"\d+\.\d+ (?:ms|s\b|%)", prose)
    assert len(numbers) >= 2
    for number in numbers:
        assert re.search(rf"(?<![\d.]){re.escape(number.removesuffix(' %'))}", output), number


def test_the_ratios_in_the_words_are_those_of_kernels_and_data_sheets():
    ratios = re.findall(r"\b0\.\d{3}\b", section(RECORDED).partition("    $")[0])
    rows = re.findall(r" (0\.\d{4}) +\d+\.\d +\d+\.\d ", section(RECORDED))
    one, other = (datasheet(name) for name in ("NVIDIA H100 80GB HBM3", "NVIDIA H200"))
    assert one is not None and other is not None
    assert f"{one.dram / 1e9:.0f} and {other.dram / 1e9:.0f} GB/s" in section(RECORDED)
    assert {*ratios} <= {f"{float(row):.3f}" for row in [*rows, one.dram / other.dram]}


def test_both_recordings_have_the_same_launches_of_the_same_kernels():
    launches = []
    for gpu in DAYS:
        with tarfile.open(RECORDINGS / f"{gpu}_torch_steps.tar.xz") as packed:
            text = packed.extractfile(f"{gpu}_torch_steps/expected.json").read()
        launches.append({name: count for name, (count, _) in json.loads(text).items()})
    assert launches[0] == launches[1]
