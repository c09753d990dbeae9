"""taupy's layouts of CUPTI's records, callbacks, launches and parameters, against NVIDIA's headers.

`tests/fake_gpu/layouts.json` holds what the headers of CUPTI 12.6 to 13.5 say of all that is used.
What is recorded is compared with the headers that are here (those that the tests install, of a
toolkit, of every version in the folder that TAUPY_CUPTI_HEADERS names), and ours with what is
recorded of every version, whichever headers are here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

from taupy.collectors.cupti_errors import cupti_version
from tests import fake_gpu
from tests.fake_gpu.headers import REASON, Headers, compiler, installed
from tests.fake_gpu.layouts import measured, printed, recorded
from tests.fake_gpu.pairs import (
    ARRAYS,
    NUMBERS,
    PARAMETERS,
    PYTHON,
    PYTHON_NUMBERS,
    RECORDS,
    SINCE,
    STRUCTURES,
)

NATIVE = Path(__file__).parents[3] / "taupy" / "_native"
OURS = Headers("", (NATIVE,))
INCLUDES = "".join(
    f'#include "{name}"\n' for name in ("cupti_records.h", "cupti_range.h", "launch_parameters.h")
)
LAYOUTS = recorded()
KINDS = {
    "Kernel": 10, "Memcpy": 1, "MemcpyPtoP": 22, "Memset": 2, "API": 5, "Synchronization": 38,
    "Memory": 49, "MemoryPool": 50, "UnifiedMemoryCounter": 25, "Device": 8, "Context": 9,
    "Stream": 37, "Overhead": 17, "ExternalCorrelation": 39,
}  # fmt: skip

needs_compiler = pytest.mark.skipif(compiler() is None, reason="no C++ compiler")
each_version = pytest.mark.parametrize("version", LAYOUTS)
each_installed = pytest.mark.parametrize(
    "headers",
    installed() or [pytest.param(None, marks=pytest.mark.skip(reason=REASON))],
    ids=lambda headers: headers.version if headers else "none",
)


def test_the_versions_that_are_promised_are_on_record():
    assert {"12.6", "13.0", "13.1", "13.5"} <= set(LAYOUTS)


@needs_compiler
@each_installed
def test_what_is_recorded_of_the_headers_is_what_they_say(headers: Headers):
    if headers.version not in LAYOUTS:
        pytest.fail(
            f"nothing is recorded of CUPTI {headers.version} ({headers.folders[0]}); recorded are "
            f"{', '.join(LAYOUTS)}: add it to scripts/record_cupti_layouts.py and run that",
            pytrace=False,
        )
    layouts = LAYOUTS[headers.version]
    newest = {what: structure for what, (structure, *_) in layouts["records"].items()}
    assert measured(headers, newest) == layouts


def test_headers_of_a_version_that_is_not_recorded_are_one_line():
    newer = Headers("99.1", (Path("/usr/local/cuda/include"),))
    with pytest.raises(pytest.fail.Exception) as problem:
        test_what_is_recorded_of_the_headers_is_what_they_say(newer)
    assert str(problem.value).startswith("nothing is recorded of CUPTI 99.1 (/usr/local/cuda")


def test_the_played_gpu_needs_headers_that_are_recorded(monkeypatch):
    newer = Headers("99.1", (Path("/usr/local/cuda/include"),))
    monkeypatch.setattr(fake_gpu, "installed", lambda: [newer])
    assert "nothing is recorded of CUPTI 99.1" in fake_gpu.missing()


def test_the_played_gpu_is_compiled_with_no_header_of_ours():
    """Else both could be wrong together."""
    folder = Path(fake_gpu.__file__).parent
    generated = {"names.h", "sizes.h", "records.h"}  # of NVIDIA's headers and of what is recorded
    for source in (*folder.glob("*.c"), *folder.glob("*.cc"), *folder.glob("*.h")):
        included = set(re.findall(r'#include "([^"]+)"', source.read_text()))
        assert included <= generated | {path.name for path in folder.glob("*.h")}, source
    assert "_native" not in Path(fake_gpu.__file__).read_text()  # no such folder is searched


@cache
def ours() -> dict[str, dict[str, tuple[int, int]]]:
    """Our structures -> fields -> (offset, size); of the structure itself, "" -> (0, size)."""
    fields = {(pair.ours, mine) for pair in pairs() for mine in pair.fields}
    body = [
        f'printf("{structure} {field} %zu %zu\\n", offsetof({structure}, {field}), '
        f"sizeof((({structure} *)0)->{field}));"
        for structure, field in sorted(fields)
    ]
    body += [f'printf("{name}  0 %zu\\n", sizeof({name}));' for name in ARRAYS]
    found: dict[str, dict[str, tuple[int, int]]] = {}
    for line in c_program(body):
        structure, field, offset, size = line.split(" ")
        found.setdefault(structure, {})[field] = int(offset), int(size)
    return found


def c_program(body: Iterable[str]) -> list[str]:
    """What a program of these statements prints, compiled with our headers and none of NVIDIA's."""
    lines = "\n".join([INCLUDES, "#include <stdio.h>", "int main() {", *body, "}"])
    return printed(OURS, lines, "-D_Static_assert=static_assert", includes="")


def pairs():
    return (*RECORDS.values(), *STRUCTURES, *PARAMETERS)


@needs_compiler
@each_version
def test_our_records_are_nvidias(version: str):
    for what, pair in RECORDS.items():
        _, _, theirs = LAYOUTS[version]["records"][what]
        for mine, other in pair.fields.items():
            assert ours()[pair.ours][mine][0] == theirs[other][0], (pair.ours, mine)


@needs_compiler
@each_version
def test_our_callbacks_launches_and_parameters_are_nvidias(version: str):
    for pair in (*STRUCTURES, *PARAMETERS):
        _, theirs = LAYOUTS[version]["structures"][pair.theirs]
        missing = [mine for mine, other in pair.fields.items() if other not in theirs]
        assert all((pair.ours, mine) in SINCE for mine in missing), (pair.ours, missing)
        for mine, other in pair.fields.items():
            if other in theirs:
                assert ours()[pair.ours][mine][0] == theirs[other][0], (pair.ours, mine)


@needs_compiler
@each_version
def test_what_follows_each_other_is_as_long_as_nvidias(version: str):
    for pair in STRUCTURES:
        if pair.ours in ARRAYS:
            size, _ = LAYOUTS[version]["structures"][pair.theirs]
            assert ours()[pair.ours][""] == (0, size)


@needs_compiler
@each_version
def test_the_size_ends_with_the_last_field_that_the_version_has(version: str):
    for pair in PARAMETERS:
        _, theirs = LAYOUTS[version]["structures"][pair.theirs]
        *_, last = (mine for mine, other in pair.fields.items() if other in theirs)
        offset, size = ours()[pair.ours][last]
        assert offset + size == LAYOUTS[version]["parameters"][pair.theirs], pair.ours


@needs_compiler
def test_fields_are_reported_from_the_version_that_introduced_them():
    since = dict(
        line.split() for line in c_program([f'printf("{n} %d\\n", {n});' for n in SINCE.values()])
    )
    for pair in PARAMETERS:
        for mine, other in pair.fields.items():
            if (pair.ours, mine) in SINCE:
                first = int(since[SINCE[pair.ours, mine]])
                for layouts in LAYOUTS.values():
                    has_it = other in layouts["structures"][pair.theirs][1]
                    assert has_it == (layouts["api"] >= first), (pair.ours, mine)


@needs_compiler
@each_version
def test_our_numbers_are_nvidias(version: str):
    lines = c_program([f'printf("{mine} %zu\\n", (size_t){mine});' for mine in NUMBERS])
    found = {NUMBERS[line.split()[0]]: int(line.split()[1]) for line in lines}
    theirs = LAYOUTS[version]["numbers"]
    assert {**found, **PYTHON_NUMBERS} == theirs


@needs_compiler
@each_version
def test_sizes_of_records_are_nvidias(version: str):
    """The table that serves the replay of saved buffers where there is no CUPTI."""
    records = LAYOUTS[version]["records"]
    assert set(RECORDS) < set(KINDS) == set(records)
    major, minor = map(int, version.split("."))
    lines = c_program(
        f'printf("{what} %zu\\n", record_size({kind}, {100 * major + minor}));'
        for what, kind in KINDS.items()
    )
    assert dict(line.split() for line in lines) == {
        what: str(size) for what, (_, size, _) in records.items()
    }


@needs_compiler
def test_cuptis_own_numbers_are_those_of_cuda():
    """Of NVIDIA's wheels: 27 is CUDA 12.9, 28 its first update."""
    known = {18: 1200, 21: 1203, 22: 1204, 23: 1205, 24: 1206, 26: 1208, 27: 1209, 28: 1209}
    known |= {layouts["api"]: number(version) for version, layouts in LAYOUTS.items()}
    known |= {130000: 1300, 130100: 1301}
    lines = c_program(f'printf("%d\\n", cuda_version_of({api}));' for api in known)
    assert [int(line) for line in lines] == list(known.values())
    assert [number(cupti_version(api)) for api in known] == list(known.values())


def number(version: str) -> int:
    """1300 for 13.0."""
    major, minor = map(int, version.split("."))
    return 100 * major + minor


@each_version
def test_the_parameters_that_python_makes_are_nvidias(version: str):
    """Fields lie where NVIDIA's do, and the size told is one that this version knows."""
    for theirs, made in PYTHON.items():
        _, fields = LAYOUTS[version]["structures"][theirs]
        for name, (offset, size) in fields.items():
            if hasattr(made, name):
                place = getattr(made, name)
                assert (place.offset, place.size) == (offset, size), (theirs, name)
        assert LAYOUTS[version]["parameters"][theirs] in {made().structSize, *made.older_sizes}
