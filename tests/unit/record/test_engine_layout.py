"""The engine's structures lie in memory as NumPy reads them."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

from taupy.record.engine_layout import (
    COLLECTIVE,
    COLLECTIVE_SUM,
    COMMUNICATOR,
    HIDDEN_BYTES,
    MEASURED_NODE,
    NODE,
    STRETCH,
    THREAD,
)
from taupy.record.part_blocks import GROWTH_BYTES, OPERATION_BYTES, SUSPENSION_BYTES

NATIVE = Path(__file__).parents[3] / "taupy" / "_native"


def fields(layout, *names: str) -> list[int]:
    return [layout.fields[name][1] for name in names]


def test_nodes_and_threads_have_the_layout_of_calltree_h(tmp_path):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler here")
    source = (NATIVE / "calltree.h").read_text()
    structures = [
        source[source.index(f"typedef struct {name} {{") :].split(f"}} {name};")[0] + f"}} {name};"
        for name in ("Node", "Thread")
    ]
    node = list(NODE.names)
    thread = ["cursor", "hide", "index", "native_id", "ended_ticks", "cpu_start_ns", "cpu_ns"]
    thread += ["due_ticks", "looked_ticks", "name"]
    asked = [f"offsetof(Node, {name})" for name in node]
    asked += ["sizeof(Node)", "offsetof(Thread, root_metrics)", "offsetof(Thread, hidden)"]
    asked += [f"offsetof(Thread, {name})" for name in thread]
    program = "#include <pthread.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <stdio.h>\n"
    program += "typedef struct { void *x[9]; } Table; typedef struct CounterGroup CounterGroup;\n"
    program += "\n".join(structures) + "\nint main(void) {\n"
    program += "".join(f'printf("%zu ", (size_t)({one}));\n' for one in asked) + "return 0; }\n"
    (tmp_path / "x.c").write_text(program)
    include = sysconfig.get_paths()["include"]
    subprocess.run([compiler, f"-I{include}", "-o", tmp_path / "x", tmp_path / "x.c"], check=True)
    answer = subprocess.run([tmp_path / "x"], check=True, capture_output=True, text=True).stdout
    assert list(map(int, answer.split())) == [
        *fields(NODE, *node),
        NODE.itemsize,
        *fields(MEASURED_NODE, "metrics"),
        HIDDEN_BYTES,
        *fields(THREAD, *thread),
    ]


def test_collectives_have_the_layout_of_collectives_h(tmp_path):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler here")
    layouts = {
        "CommunicatorRecord": COMMUNICATOR,
        "CollectiveRecord": COLLECTIVE,
        "CollectiveSum": COLLECTIVE_SUM,
        "StretchRecord": STRETCH,
    }
    asked = [f"offsetof({name}, {field})" for name in layouts for field in layouts[name].names]
    asked += [f"sizeof({name})" for name in (*layouts, "OperationRecord")]
    program = '#include <stdio.h>\n#include "collectives.h"\n#include "stretches.h"\n'
    program += "int main(void) {\n"
    program += "".join(f'printf("%zu ", (size_t)({one}));\n' for one in asked) + "return 0; }\n"
    (tmp_path / "x.c").write_text(program)
    include = sysconfig.get_paths()["include"]
    subprocess.run(
        [compiler, f"-I{include}", f"-I{NATIVE}", "-o", tmp_path / "x", tmp_path / "x.c"],
        check=True,
    )
    answer = subprocess.run([tmp_path / "x"], check=True, capture_output=True, text=True).stdout
    assert list(map(int, answer.split())) == [
        *(at for layout in layouts.values() for at in fields(layout, *layout.names)),
        *(layout.itemsize for layout in layouts.values()),
        OPERATION_BYTES,
    ]


def test_suspensions_have_the_layout_of_suspensions_h(tmp_path):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler here")
    asked = [f"offsetof(SuspensionRecord, {name})" for name in ("node", "outer", "line")]
    asked += [f"offsetof(SuspensionRecord, {name})" for name in ("begun", "ended", "ticks")]
    program = '#include <stdio.h>\n#include "suspensions.h"\nint main(void) {\n'
    program += "".join(
        f'printf("%zu ", (size_t)({one}));\n' for one in (*asked, "sizeof(SuspensionRecord)")
    )
    (tmp_path / "x.c").write_text(program + "return 0; }\n")
    include = sysconfig.get_paths()["include"]
    subprocess.run(
        [compiler, "-c", f"-I{include}", f"-I{NATIVE}", "-o", tmp_path / "x.o", tmp_path / "x.c"],
        check=True,
    )
    subprocess.run([compiler, "-o", tmp_path / "x", tmp_path / "x.o"], check=True)
    answer = subprocess.run([tmp_path / "x"], check=True, capture_output=True, text=True).stdout
    assert list(map(int, answer.split())) == [0, 8, 16, 32, 40, 48, SUSPENSION_BYTES]


def test_notes_of_growth_have_the_layout_of_growth_h(tmp_path):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler here")
    asked = [f"offsetof(GrowthRecord, {name})" for name in ("node", "count", "notes")]
    asked += [f"offsetof(GrowthNote, {name})" for name in ("calls", "ticks")]
    asked += ["sizeof(GrowthNote)", "offsetof(GrowthRecord, arguments)"]
    counts = ("call", "compared", "different", "others")
    asked += [f"offsetof(ArgumentCounts, {name})" for name in counts]
    asked += ["sizeof(ArgumentCounts)", "sizeof(GrowthRecord)"]
    program = '#include <stdio.h>\n#include "growth.h"\nint main(void) {\n'
    program += "".join(f'printf("%zu ", (size_t)({one}));\n' for one in asked)
    (tmp_path / "x.c").write_text(program + "return 0; }\n")
    include = sysconfig.get_paths()["include"]
    subprocess.run(
        [compiler, "-c", f"-I{include}", f"-I{NATIVE}", "-o", tmp_path / "x.o", tmp_path / "x.c"],
        check=True,
    )
    subprocess.run([compiler, "-o", tmp_path / "x", tmp_path / "x.o"], check=True)
    answer = subprocess.run([tmp_path / "x"], check=True, capture_output=True, text=True).stdout
    whole = [0, 8, 16, 0, 8, 16, 16 + 31 * 16, 0, 8, 16, 24, 32, GROWTH_BYTES]
    assert list(map(int, answer.split())) == whole
