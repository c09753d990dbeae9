"""The documents: their links lead somewhere, their commands and options exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from taupy.commands import COMMANDS
from tests.in_process import taupy

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.md")])
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
OTHERS_OPTIONS = {"--nproc-per-node"}  # torchrun's


def relative(page: Path) -> str:
    return str(page.relative_to(ROOT))


def prose(page: Path) -> str:
    return page.read_text("utf-8")


def anchors(page: Path) -> set[str]:
    """What GitHub makes of a page's headings."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def options_of(command: str) -> set[str]:
    return set(OPTION.findall(taupy(command, "--help").stdout))


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_every_link_leads_to_a_file_or_heading_that_is_there(page):
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if target.startswith(("http://", "https://")):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            broken.append(target)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_every_row_of_a_table_is_one_line_with_as_many_cells_as_its_header(page):
    text = re.sub(r"```.*?```", "", prose(page), flags=re.DOTALL)
    for table in re.findall(r"^\|.+\n\|[ :|-]+\|\n(?:.+\n?)*", text, re.MULTILINE):
        bars = [len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()]
        assert set(bars) == {bars[0]}, table.splitlines()[0]


def test_the_table_of_commands_is_complete():
    page = prose(ROOT / "docs/command-line.md")
    named = re.findall(r"^\| `taupy ([a-z]+)` \|", page, re.MULTILINE)
    assert named == list(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_stands_in_the_docs(command):
    told = set(OPTION.findall("\n".join(prose(page) for page in ROOT.glob("docs/*.md"))))
    untold = options_of(command) - told
    assert {option for option in untold if option.replace("--no-", "--") not in told} == set()


def test_every_option_in_the_readme_and_the_command_line_page_exists():
    told = set(OPTION.findall(prose(ROOT / "README.md") + prose(ROOT / "docs/command-line.md")))
    there = {option for command in COMMANDS for option in options_of(command)}
    # Options of the examples' own stand behind a script's name.
    for script in (ROOT / "examples").glob("*.py"):
        there |= set(OPTION.findall(script.read_text("utf-8")))
    assert told - there - OTHERS_OPTIONS == set()


def test_every_example_stands_in_the_list_of_examples():
    listed = re.findall(r"^\| `(\w+\.py)` \|", prose(ROOT / "examples/README.md"), re.MULTILINE)
    there = {script.name for script in (ROOT / "examples").glob("*.py")} - {"digits.py"}
    assert sorted(listed) == sorted(there)


def test_every_decision_states_its_choice_reason_and_price():
    decisions = sorted((ROOT / "docs/decisions").glob("*.md"))
    assert [int(page.name[:4]) for page in decisions] == list(range(1, len(decisions) + 1))
    for page in decisions:
        text = prose(page)
        assert text.startswith(f"# {int(page.name[:4])}. "), page.name
        for part in ("**The choice.**", "**Why.**", "**What it costs.**", "**Declined.**"):
            assert part in text, (page.name, part)
