"""GPU work of operators by the sizes and types of their inputs."""

from __future__ import annotations

from types import SimpleNamespace

from taupy.collectors import gpu_layout
from taupy.model.profile import OperatorInput
from taupy.record.operator_inputs import add_gpu_work, inputs_of
from taupy.record.part_data import PartThread, Places, Routine

MM, WIDE, MAIN = (
    Routine("aten::mm", "", 0, "timer", "OPERATOR", inputs="float32[2]"),
    Routine("aten::mm", "", 0, "timer", "OPERATOR", inputs="float32[3]"),
    Routine("main", "a.py", 1, "python", "PYTHON"),
)


def test_work_counts_for_the_operator_that_launched_it_with_its_inputs():
    # root > main > mm [2] and mm [3], which calls main again; both are row 2 of the tree.
    thread = PartThread(1, "", 0, routine=[-1, 2, 0, 1, 2], parent=[-1, 0, 1, 1, 3],
                        calls=[1, 1, 4, 3, 1], inclusive=[90, 80, 40, 30, 10])  # fmt: skip
    places = Places([64], [5], [64], [0], [0])
    part = SimpleNamespace(routines=[MM, WIDE, MAIN], threads=[thread], places=places)
    row_of = [0, 1, 2, 2, 3]
    measured = SimpleNamespace(inputs=inputs_of(part, thread, row_of))
    assert measured.inputs == [
        OperatorInput(2, "float32[2]", 4, 40, 0, 0), OperatorInput(2, "float32[3]", 3, 30, 0, 0)
    ]  # fmt: skip
    work = [
        SimpleNamespace(kind=gpu_layout.KERNEL, node=64 + 64 * row, launches=launches, time=time)
        for row, launches, time in ((1, 1, 7), (3, 3, 500), (4, 2, 60))
    ]
    work.append(SimpleNamespace(kind=gpu_layout.RUNTIME, node=64 + 64 * 2, launches=9, time=9))
    add_gpu_work(SimpleNamespace(work=work), part, [measured], [row_of])
    assert measured.inputs == [OperatorInput(2, "float32[3]", 3, 30, 5, 560)]
