"""Python in the documents runs as it stands, page by page, with a database that has its trials."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import Path

import pytest

from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from tests.builders import call, gpu_profile, host, profile_of

pytestmark = pytest.mark.slow  # imports pandas, draws

DOCS = Path(__file__).parents[2] / "docs"
FENCED = re.compile(r"```python\n(.*?)```", re.DOTALL)
INDENTED = re.compile(r"\n\n((?: {4}.*\n(?:\n(?= {4}))?)+)")
READING = re.compile(r"^(?:import|from|db|frame|trial|trials|kernels|sweep|facts)\b", re.MULTILINE)
PAGES = {"api": 1, "steps": 1, "database": 1, "compare": 1, "sweeps": 1, "recipes": 6}


def blocks(page):
    """The blocks of Python, in order: fenced ones, and indented ones that begin like Python."""
    text = (DOCS / f"{page}.md").read_text()
    if fenced := FENCED.findall(text):
        return fenced
    candidates = [
        re.sub("^ {4}", "", block, flags=re.MULTILINE) for block in INDENTED.findall(text)
    ]
    return [block for block in candidates if READING.match(block) and is_python(block)]


def is_python(block):
    first = block.split("\n", 1)[0]
    try:
        ast.parse(first)
    except SyntaxError:
        return first.rstrip().endswith(("(", ","))  # goes on in the next line
    return True


@pytest.fixture
def stored(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with ProfileDB.open("taupy.db", create=True) as db:
        for number, threads in enumerate((1, 2, 4), 1):
            epoch = call("train_epoch", 1, 10, [call("Net.forward", 2, 4000 // threads)])
            profile = profile_of(host(call("main", 1, 5, [epoch])), number=number)
            profile.metadata["threads"] = str(threads)
            add_profile(db, profile)
        for number, (gpu, experiment) in enumerate(
            [("NVIDIA H200", "default"), ("Tesla K80", "base"), ("NVIDIA H200", "new")], 4
        ):
            profile = gpu_profile(number, application="mnist", experiment=experiment)
            profile.devices = [replace(device, name=gpu) for device in profile.devices]
            profile.metadata["batch_size"] = "64"
            id = add_profile(db, profile)
            for tag in ("main", "base") if experiment == "base" else ():
                db.tag(id, tag)


@pytest.mark.parametrize("page", PAGES)
def test_python_in_the_documents_runs_as_it_stands(page, stored):
    pytest.importorskip("pandas")
    found = blocks(page)
    assert len(found) >= PAGES[page]
    names = {}
    for block in found:
        exec(compile(block, f"{page}.md", "exec"), names)
