"""What XLA's trials of kernels took is said where the time of a training is."""

from __future__ import annotations

import pytest

from taupy.commands import main
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from tests.builders import gpu_profile


@pytest.mark.parametrize(
    ("file", "name", "is_said"),
    [
        ("/v/site-packages/jax/_src/compiler.py", "backend_compile_and_load", True),
        ("/v/site-packages/jax/_src/compiler.py", "backend_compile", True),  # before JAX 0.7
        ("/v/site-packages/jax/_src/compiler.py", "compile_or_get_cached", False),
        ("/u/compiler.py", "backend_compile", False),
    ],
)
def test_gpu_time_below_a_compilation_is_autotuning(tmp_path, capsys, file, name, is_said):
    profile = gpu_profile()
    known = {
        "<module>": {"groups": ("PYTHON", "PHASE_COMPILE")},
        "step": {"name": name, "file": file},
    }
    profile.timers = [timer._replace(**known.get(timer.name, {})) for timer in profile.timers]
    path = str(tmp_path / "a.db")
    with ProfileDB.open(path, create=True) as db:
        add_profile(db, profile)
    said = f"7.80 us of GPU time: kernels that XLA tried while JAX compiled, below {name}"
    for command in (["report", "-v"], ["phases"], ["report", "--json"]):
        assert main([*command, "--db", path]) == 0
        printed = " ".join(capsys.readouterr().out.split())
        assert (said in printed) == is_said, command
