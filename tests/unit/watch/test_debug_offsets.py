"""What a Python of another version says about its fields, and what is refused."""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from taupy.watch.debug_offsets import _STRUCTURES, COMPILED, READABLE, is_free_threaded, offsets

RUNTIME, MAIN, SECOND = 0x1000, 0x8000, 0x9000


def memory(minor, cookie=b"xdebugpy", version=None, is_free_threaded=0):
    """A process of this version: each field lies ten times its position into its structure."""
    structures = _STRUCTURES[minor]
    numbers = [10 * at for names in structures for at, _ in enumerate(names)]
    head = struct.pack("<8sQQ", cookie, version or (0x300 | minor) << 16 | 0xF0, is_free_threaded)
    data = head + struct.pack(f"<{len(numbers)}Q", *numbers)
    interpreter = structures[1]
    words = {
        RUNTIME + 20: SECOND,
        SECOND + 10 * interpreter.index("id"): 1,
        SECOND + 10 * interpreter.index("next"): MAIN,
        MAIN + 10 * interpreter.index("id"): 0,
        MAIN + 10 * interpreter.index("ceval_gil"): 0x7000,
    }
    return (lambda at, size: data[at - RUNTIME :][:size]), words.__getitem__


@pytest.mark.parametrize("minor", _STRUCTURES)
def test_a_python_says_where_its_fields_are(minor):
    told = offsets(RUNTIME, minor, *memory(minor))
    assert told is not None
    _, interpreter, thread, frame, code = _STRUCTURES[minor]
    assert (told.interpreter, told.gil) == (MAIN, 0x7000)
    assert told.threads == 10 * interpreter.index("threads_head")
    assert told.next == 10 * thread.index("next")
    assert told.layout[6] == 10 * thread.index("current_frame")
    assert told.layout[10] == 10 * frame.index("instr_ptr")
    assert told.layout[19] == 10 * code.index("linetable")


def test_what_says_nothing_that_is_known_is_none():
    assert offsets(RUNTIME, 13, *memory(13, cookie=b"nonsense")) is None
    assert offsets(RUNTIME, 13, *memory(13, is_free_threaded=1)) is None
    assert offsets(RUNTIME, 13, *memory(13, version=0x030E00F0)) is None
    assert offsets(RUNTIME, 12, *memory(13)) is None
    assert offsets(RUNTIME, 16, *memory(13)) is None


def test_a_free_threaded_python_says_so():
    """Also to a taupy of its own version, whose fields lie elsewhere."""
    assert is_free_threaded(RUNTIME, memory(13, is_free_threaded=1)[0])
    assert not is_free_threaded(RUNTIME, memory(13)[0])
    assert not is_free_threaded(RUNTIME, memory(13, cookie=b"nonsense", is_free_threaded=1)[0])


@pytest.mark.skipif(sys.version_info[1] not in COMPILED, reason="it says so itself")
def test_this_python_has_its_fields_where_another_expects_them():
    engine = pytest.importorskip("taupy._native.engine", reason="needs the compiled core")
    layout, *rest = engine.interpreter_layout()
    (version, *numbers), *expected = COMPILED[sys.version_info[1]]
    assert version == 0
    assert list(struct.unpack(f"<{len(layout) // 8}Q", layout))[1:] == numbers
    assert rest == expected


OTHERS = [f"python3.{minor}" for minor in (9, 10, *READABLE) if minor != sys.version_info[1]]


@pytest.mark.parametrize("name", OTHERS)
def test_another_python_is_read_if_it_is_known_where_its_fields_are(name, tmp_path):
    pytest.importorskip("taupy._native.engine", reason="needs the compiled core")
    of_pyenv = sorted(Path.home().glob(f".pyenv/versions/{name[6:]}.*/bin/{name}"))
    pythons = [*of_pyenv, *filter(None, [shutil.which(name)])]
    if not pythons or subprocess.run([pythons[0], "-c", ""], capture_output=True).returncode:
        pytest.skip(f"no {name} here")
    program = tmp_path / "prog.py"
    program.write_text(
        "import time\ndef rest():\n    print('rests', flush=True)\n    time.sleep(60)\nrest()\n"
    )
    with subprocess.Popen([pythons[0], program], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "rests\n"
            done = subprocess.run(
                [sys.executable, "-m", "taupy", "dump", str(process.pid)],
                capture_output=True, text=True,
            )  # fmt: skip
        finally:
            process.kill()
    if int(name.partition(".")[2]) in READABLE:
        assert done.returncode == 0, done.stderr
        assert "rest (" in done.stdout and "prog.py:4)" in done.stdout
    else:
        assert done.returncode != 0
        (line,) = done.stderr.strip().split("\n")
        assert "can read only processes of Python 3.11 to 3.15" in line
