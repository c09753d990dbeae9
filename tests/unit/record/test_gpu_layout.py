"""The structures of a GPU part lie in its file as Python reads them: the C compiler is asked."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from taupy.collectors import gpu_layout
from taupy.collectors.gpu_layout import DeviceFacts, Live, Work

NATIVE = Path(__file__).parents[3] / "taupy" / "_native"
HEADER = re.sub(r"/\*.*?\*/", "", (NATIVE / "gpu_part.h").read_text(), flags=re.S)
LAYOUTS = {
    "GpuWork": gpu_layout.WORK_ITEM,
    "GpuCall": gpu_layout.CALL,
    "GpuThread": gpu_layout.THREAD,
    "GpuDevice": gpu_layout.DEVICE_ITEM,
    "GpuLive": gpu_layout.LIVE_ITEM,
    "GpuModule": gpu_layout.MODULE_ITEM,
    "GpuTraceBlock": gpu_layout.TRACE_HEAD,
    "GpuTraceRecord": gpu_layout.TRACE_ITEM,
    "GpuCounters": gpu_layout.COUNTER_VALUES,
}
CODES = {"uint64_t": "Q", "int64_t": "q", "uint32_t": "I", "double": "d"}
SIGNED = str.maketrans("iq", "IQ")
"""Whether a number may be below 0 does not move it."""


def fields(name: str) -> list[tuple[str, str, int]]:
    """Name, type and length of each field of a structure of the header."""
    (body,) = re.findall(rf"typedef struct {name} \{{(.*?)\}} {name};", HEADER, re.S)
    found = []
    for declaration in body.split(";"):
        if words := declaration.split(None, 1):
            for field in words[1].split(","):
                plain, _, length = field.strip().partition("[")
                found.append((plain, words[0], int(length.rstrip("]") or 1)))
    return found


def cells(name: str) -> list[tuple[str, str]]:
    """Where each cell of the structure stands, in C, and its code in Python."""
    answer = []
    for field, kind, length in fields(name):
        if kind in ("char", "uint8_t"):
            answer.append((f"offsetof({name}, {field})", f"{length}s"))
        else:
            at = [f"[{number}]" for number in range(length)] if length > 1 else [""]
            answer += [(f"offsetof({name}, {field}{one})", CODES[kind]) for one in at]
    return answer


def in_python(layout: struct.Struct) -> list[tuple[int, str]]:
    """Offset and code of each cell."""
    codes = []
    for count, code in re.findall(r"(\d*)([a-zA-Z])", layout.format):
        codes += [count + code] if code == "s" else [code] * int(count or 1)
    offsets = [struct.calcsize("<" + "".join(codes[:at])) for at in range(len(codes))]
    return list(zip(offsets, (code.translate(SIGNED) for code in codes), strict=True))


@pytest.fixture(scope="module")
def offsets(tmp_path_factory):
    """What a C expression of the header is, as the compiler works it out."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler here")
    folder = tmp_path_factory.mktemp("layout")
    asked = [one for name in LAYOUTS for one, _ in cells(name)]
    asked += [f"sizeof({name})" for name in LAYOUTS]
    program = '#include <stddef.h>\n#include <stdio.h>\n#include "gpu_part.h"\nint main(void) {\n'
    program += "".join(f'printf("%zu ", (size_t)({one}));\n' for one in asked) + "return 0; }\n"
    (folder / "x.c").write_text(program)
    subprocess.run([compiler, f"-I{NATIVE}", "-o", folder / "x", folder / "x.c"], check=True)
    answer = subprocess.run([folder / "x"], check=True, capture_output=True, text=True).stdout
    return dict(zip(asked, map(int, answer.split()), strict=True))


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_structure_of_gpu_part_h_is_read_where_it_lies(offsets, name):
    in_c = [(offsets[where], code.translate(SIGNED)) for where, code in cells(name)]
    assert in_python(LAYOUTS[name]) == in_c
    assert LAYOUTS[name].size == offsets[f"sizeof({name})"]


def test_fields_have_the_same_names_on_both_sides():
    def names(structure):
        return [name for name, _, _ in fields(structure) if not name.startswith("unused")]

    assert names("GpuCounters") == gpu_layout.COUNTER_NAMES
    assert names("GpuDevice") == list(DeviceFacts._fields)
    assert names("GpuLive") == ["used", *Live._fields]
    called = {"count": "launches"}
    own = [name for name in Work._fields if name != "peers"]  # `unused`, but for copies
    assert [called.get(name, name) for name in names("GpuWork")] == own
