"""The programs by others: their keys, how screens are judged, and faults that twins are free of."""

from __future__ import annotations

import re
import shutil

import pytest

from tests.findings import judge, pairs
from tests.findings.cases import BY_OTHERS

SCREEN = """\
3.40 s  python prog.py                                  exit 0 · trial 1
████████▓▓▓▓
Where the time goes  your code, with what libraries and C do for it
  1 min 20 s  60 % ████████ prog.py:7   rows.sort()           40x
                            └ in Table.add
  0.20 s       1 % █        prog.py:99  return x               1x

Findings  seconds are upper bounds
▲ large   search through everything: sorted again, up to 1 min 20 s  prog.py:7
  Table.add (prog.py:7) sorts all of `rows` again
  try: bisect.insort(...)
measured completely
"""
SOURCE = "\n" * 6 + "        rows.sort()\n" + "\n" * 20 + "other line of some length\n"


def told(line=7, also=(), routine="Table.add", words=("bisect",), screen=SCREEN):
    key = {"file": "prog.py", "line": line, "also": list(also), "routine": routine, "words": words}
    return judge.judged(screen, key, {"prog.py": SOURCE, "other.py": SOURCE.upper()})


def test_what_a_screen_names():
    assert told().first and told().screen and told().routine
    assert told().reason == "bisect" and told().in_words
    assert told(line=28).first is False and told(line=28).screen is False
    assert told(line=28, also=[7]).first and told(line=28, also=["prog.py:7"]).first
    assert not told(line="other.py:28", also=["other.py:7"]).first
    assert not told(routine="Table.ad").routine
    assert told(words=("rows.sort",)).reason and not told(words=("rows.sort",)).in_words
    assert told(words=("heap", "prog.py  exit")).reason == ""
    without = SCREEN.partition("Findings")[0]
    assert told(screen=without).first and told(screen=without).findings == []


def test_every_program_has_its_key_its_twin_and_a_line():
    faulty = judge.keys()
    assert len(faulty) == 60 and len(judge.healthy()) == 30
    for name, key in faulty.items():
        texts = judge.files(name)
        (file, line), *_ = judge.places(key)
        assert texts[file].splitlines()[line - 1].strip()
        assert key["words"] and judge.files(f"{name}_mended")
    assert {*BY_OTHERS} < {*faulty}


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_OTHERS)
def test_a_fault_is_found_and_not_in_the_twin(name, tmp_path):
    pytest.importorskip("taupy._native.engine", reason="the compiled engine is not built")
    pairs.skip_without_packages(judge.HERE / f"{name}.py")

    def is_found(report):
        kinds = {re.sub(": .*", "", finding.kind) for finding in report.judgement.findings}
        return BY_OTHERS[name] in kinds

    def measured(folder):
        return pairs.measured(folder, f"{name}.py")

    for program in (name, f"{name}_mended"):
        (folder := tmp_path / program).mkdir()
        shutil.copyfile(judge.HERE / f"{program}.py", folder / f"{name}.py")
    assert is_found(pairs.measured_until(is_found, tmp_path / name, measured))
    assert not is_found(measured(tmp_path / f"{name}_mended"))
