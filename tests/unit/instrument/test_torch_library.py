"""Libraries that are compiled against PyTorch are told apart by all that they are made of."""

from __future__ import annotations

from taupy.instrument.torch_library import Kind, Torch


def test_a_changed_header_makes_another_library(tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libtorch_cpu.so").touch()
    (tmp_path / "version.py").write_text("__version__ = '2.99.0'\n")
    source, header = tmp_path / "x_library.cpp", tmp_path / "shared.h"
    source.write_text('#include "shared.h"\n#include <vector>\n')
    header.write_text("one")
    (tmp_path / "unused.h").write_text("one")
    kind = Kind("x", "a test", "", "ATen/ATen.h", ("taupy.x", "done: ", "undone: "))
    kind.source = str(source)
    torch = Torch(str(tmp_path))
    first = torch.name(kind)
    assert first.startswith("x-2.99.0-")
    (tmp_path / "unused.h").write_text("two")
    assert torch.name(kind) == first
    header.write_text("two")
    assert torch.name(kind) != first
