"""Modules of the program's folder that bear names of the standard library's, or ours."""

from ..cases import WORK, Case

_OURS = "def work():\n    return 'mine'\n"
_BROKEN = "raise RuntimeError('broken on purpose')\n"
_NAMES = (
    "json", "random", "token", "sqlite3", "argparse", "subprocess", "tempfile", "threading",
    "socket", "signal", "struct", "pathlib", "dataclasses", "logging", "platform", "uuid",
    "string", "typing", "datetime", "inspect", "ctypes", "mmap", "array", "queue", "shutil",
    "traceback", "textwrap", "configparser", "tomllib", "sqlite_utils", "rich", "pandas",
)
"""Of them, those that plain Python can start with, whatever they hold."""

_BY_SCRIPT = {f"app/{name}.py": _OURS for name in _NAMES}
_BROKEN_HERE = {f"{name}.py": _BROKEN for name in _NAMES}

CASES = [
    *(
        Case(
            f"own_{name}",
            f"import {name}\nprint({name}.work(), {name}.__file__)\n",
            files={f"{name}.py": _OURS},
            says="mine",
        )
        for name in ("json", "random", "token", "sqlite3", "threading", "signal", "platform", "typing")
    ),
    Case(
        "all_in_the_scripts_folder",
        "import json, random, sqlite3\nprint(json.work(), random.work(), sqlite3.work())\n",
        target="app/prog.py",
        files=_BY_SCRIPT,
        says="mine mine mine",
    ),
    Case("all_broken_in_the_folder", WORK + "print('ran')\n", files=_BROKEN_HERE, says="ran"),
    Case(
        "all_broken_in_the_folder_beside_the_scripts",
        WORK + "import json\nprint(json.dumps([1]))\n",
        target="app/prog.py",
        files=_BROKEN_HERE,
        says="[1]",
    ),
    Case(
        "all_broken_for_a_module",
        kind="module",
        target="part",
        # What runpy itself needs must stay whole for plain Python too.
        files={"part.py": WORK, **{k: v for k, v in _BROKEN_HERE.items() if k not in ("typing.py",)}},
    ),
    Case(
        "broken_one_imported",
        WORK + "import json\n",
        files={"json.py": _BROKEN},
        status=1,
        says="broken on purpose",
    ),
    Case("syntax_error_in_shadow", WORK, files={"json.py": "a b\n", "sqlite3.py": "\0"}),
    Case(
        "own_taupy_in_the_scripts_folder",
        "import taupy\nprint(taupy.__file__, taupy.work())\n",
        target="app/prog.py",
        files={"app/taupy.py": _OURS},
        says="mine",
    ),
    Case(
        "own_boot_module",
        "import boot, hook, engine\nprint(boot.work())\n",
        files={"boot.py": _OURS, "hook.py": "", "engine.py": ""},
        says="mine",
    ),
    Case(
        "on_pythonpath_broken",
        WORK + "print('ran')\n",
        files={f"lib/{name}.py": _BROKEN for name in ("json", "random", "sqlite3", "platform", "uuid")},
        environment={"PYTHONPATH": "$WORK/lib"},
        says="ran",
    ),
]
