"""The tests' own helpers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.growth import is_linear

ROOT = Path(__file__).parents[2]


def test_linear_work_is_distinguished_from_quadratic_work():
    assert is_linear(lambda size: sum(range(size)), 20_000)
    assert not is_linear(lambda size: sum(range(size * size // 1000)), 4_000)


def test_signals_that_the_parent_ignores_or_blocks_reach_the_programs_under_test():
    program = """
import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
import subprocess, sys
import tests.conftest
shows = '''
import signal
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
print(signal.getsignal(signal.SIGHUP) is signal.SIG_DFL)
print(signal.pthread_sigmask(signal.SIG_BLOCK, []))
'''
subprocess.run([sys.executable, "-c", shows], check=True)
"""
    shown = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert shown.stdout == "True\nTrue\nset()\n"


def test_examples_of_a_property_do_not_depend_on_what_is_imported(tmp_path):
    """Nor therefore on which tests ran before: a constant of a program is no example."""
    (tmp_path / "imported.py").write_text('NAME, NUMBER = "an unusual text", 987_654_321_123\n')
    program = f"""
import sys
import tests.conftest
from hypothesis import given, settings, strategies
sys.path.append({str(tmp_path)!r})
examples = []
@settings(database=None)
@given(strategies.text(max_size=30), strategies.integers())
def note(text, number):
    examples.append((text, number))
note()
before, examples = examples, []
import imported
note()
print(len(before) > 50, examples == before)
"""
    shown = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert shown.stdout == "True True\n"
