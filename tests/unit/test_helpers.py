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
