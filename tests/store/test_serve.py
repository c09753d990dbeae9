"""`taupy serve` shows of a store what it shows of a file."""

from __future__ import annotations

import json
import re
import signal
from urllib.parse import quote, urlencode

import pytest

from taupy.profiledb import pages
from tests.in_process import taupy
from tests.integration.conftest import Runs
from tests.integration.test_serve import QUESTIONS, fetch, fill, served, status, unpacked

pytest.importorskip("datasette", reason="Datasette is an extra")
pytestmark = pytest.mark.slow


def shown(runs, name):
    """What every page says, and what no page may."""
    answers = {}
    with served(runs, name) as (process, address):
        root = re.match("http://[^/]+", address)[0]
        start = fetch(address)
        base = re.search(r'href="(/[^"/]+/[^"/]+)/top_routines', start)[1]
        answers["trials"] = re.findall(r"<td>(.*?)</td>", start)
        for page, parameters in QUESTIONS.items():
            place = f"{root}{base}/{page}"
            answers[page] = json.loads(fetch(f"{place}.json?_shape=array&{urlencode(parameters)}"))
        for table in pages.TABLES:
            assert pages.TABLES[table].split("'")[0] in fetch(f"{root}{base}/{quote(table)}"), table
        narrowed = f"{root}{base}/callpaths.json?_shape=array&trial_id=2"
        answers["callpaths"] = json.loads(fetch(narrowed))
        assert "launch" in fetch(f"{root}{base}/trial/2")
        report = re.search(r'href="(/[^"]+/-/report/\d+)"', start)[1]
        answers["report"] = len(unpacked(fetch(root + report)))
        deleting = f"{root}{base}?{urlencode({'sql': 'delete from trial'})}"
        assert status(deleting)[0] == 400
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=120) == 0
        assert process.stderr.read() == ""
    return answers


def test_a_store_is_served_as_a_file_is(tmp_path, address):
    runs = Runs(tmp_path)
    fill(runs.folder / "a.db")
    for words in (
        ("store", "create", "--db", address, "--files", "files"),
        ("push", "--to", address),
    ):
        more = ("--db", "a.db") if words[0] == "push" else ()
        assert taupy(*words, *more, cwd=runs.folder).returncode == 0
    of_store, of_file = shown(runs, address), shown(runs, "a.db")
    assert of_store.keys() == of_file.keys() and all(of_store[name] for name in ("trials", "sweep"))
    for name in of_file:
        assert of_store[name] == of_file[name], name
