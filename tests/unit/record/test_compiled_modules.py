"""Which imported packages have modules that were compiled from Python to C."""

import _imp
from types import SimpleNamespace

import pytest

from taupy.model.profile import Timer
from taupy.record.compiled_modules import COMPILED, add_compiled
from tests.builders import call, host, profile_of

SUFFIX = _imp.extension_suffixes()[0]


@pytest.mark.parametrize(
    ("files", "imports", "packages"),
    [
        (["black/lines.py", f"black/lines{SUFFIX}", "black/files.py"], ["black"], "black"),
        (["fonts/misc/curves.py", f"fonts/misc/curves{SUFFIX}"], ["fonts.misc.curves"], "fonts"),
        (["fonts/misc/curves.py", f"fonts/misc/curves{SUFFIX}"], ["fonts"], None),
        (["quick.py", f"quick{SUFFIX}", "slow.py"], ["slow", "quick"], "quick"),
        (["quick.py", f"quick{SUFFIX}", "slow.py"], ["slow"], None),
        (["a/x.py", "a/x.abi3.so", "b/x.py", f"b/x{SUFFIX}"], ["b", "a"], "b a"),
        (["numpy/core.py", f"numpy/_core{SUFFIX}"], ["numpy"], None),
        (["black/lines.py", "black/lines.cpython-25-other.so"], ["black"], None),
        (["seen/x.py", f"seen/x{SUFFIX}"], ["seen"], None),
        (["a/__init__.py"], ["a.\0", "../a", "", "a..b", "\udc80"], None),
    ],
    ids=["package", "submodule", "package of it", "module", "other module", "several",
         "C alone", "other Python", "seen", "any text"],
)  # fmt: skip
def test_packages_with_compiled_modules_are_known_by_the_sources_beside(
    files, imports, packages, tmp_path
):
    for file in files:
        path = tmp_path / "site-packages" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    folder = str(tmp_path / "site-packages")
    rows = [call(Timer(f"import {name}", groups=("IMPORT",)), 1, 5) for name in imports]
    rows.append(call(Timer("work", "seen/x.py", 3, path=f"{folder}/seen/x.py"), 1, 5))
    profile = profile_of(host(call(Timer("main", "prog.py", 1), 1, 5, rows)))
    program = str(tmp_path / "nowhere")
    settings = SimpleNamespace(program_folder=program, module_path=[], library_folders=[folder])
    add_compiled(profile, settings)
    assert profile.metadata.get(COMPILED) == packages
