"""Tables of lines are decoded as the interpreter does; damaged ones end early."""

import ast
import inspect
import json.decoder
import random
import re._parser
import types

import pytest

from taupy.record.line_table import positions


def codes_of(module):
    todo = [compile(inspect.getsource(module), "f.py", "exec")]
    while todo:
        code = todo.pop()
        yield code
        todo += [const for const in code.co_consts if isinstance(const, types.CodeType)]


@pytest.mark.parametrize("module", [ast, json.decoder, re._parser, inspect])
def test_as_the_interpreter_decodes_them(module):
    for code in codes_of(module):
        found = [
            (None,) * 4
            if place is None
            else tuple(None if number < 0 else number for number in place)
            for place in positions(code.co_linetable, code.co_firstlineno)
        ]
        assert found == list(code.co_positions()), code.co_qualname


def test_without_columns_there_are_lines(tmp_path):
    import subprocess
    import sys

    source = (
        "def f():\n    return [\n        len('') ]\nc = f.__code__\nprint((c.co_linetable.hex()))"
    )
    run = [sys.executable, "-X", "no_debug_ranges", "-c", source]
    table = bytes.fromhex(subprocess.run(run, capture_output=True, text=True).stdout)
    places = [place for place in positions(table, 1) if place is not None]
    assert {place.line for place in places} >= {2, 3}
    assert {place.column for place in places} == {-1}


def test_a_damaged_table_ends_early():
    (code, *_) = codes_of(json.decoder)
    whole = positions(code.co_linetable, 1)
    chance = random.Random(3)
    for end in range(0, len(code.co_linetable), 7):
        cut = positions(code.co_linetable[:end], 1)
        assert cut == whole[: len(cut)]
    for _ in range(2000):
        table = chance.randbytes(chance.randrange(60))
        for place in positions(table, 1):
            assert place is None or all(-1 <= number < 1 << 31 for number in place)
