"""The prompt returns when a run is stored: the storer imports what the run needs, and no more."""

import os
import subprocess
import sys

HEAVY = {
    "_hashlib", "argparse", "ast", "base64", "bisect", "dataclasses", "datetime", "enum",
    "gettext", "inspect", "numpy", "pathlib", "platform", "re", "shlex", "signal", "sqlite3",
    "struct", "subprocess", "sysconfig", "tempfile", "threading", "typing", "urllib.parse",
    "weakref", "zipfile",
    "taupy.analysis.places", "taupy.live", "taupy.model.host_clocks",
    "taupy.model.secret_words", "taupy.profiledb.dimensions", "taupy.profiledb.layers",
    "taupy.profiledb.metrics_merge", "taupy.profiledb.reader", "taupy.profiledb.steps",
    "taupy.record.gpus", "taupy.record.lines", "taupy.record.looks", "taupy.record.part_steps",
    "taupy.record.snapshots", "taupy.session", "taupy.state.lines", "taupy.state.rescue",
}  # fmt: skip
STORER = """
import sys
from taupy.commands.storer import store
store(sys.argv[1])
print(*sorted(sys.modules))
"""


def test_an_empty_run_is_stored_without_what_few_runs_need(tmp_path):
    state, database = tmp_path / "state", tmp_path / "taupy.db"
    script = tmp_path / "empty.py"
    script.write_text(
        "def unused():\n    pass\n\n\ndef job(): pass\n\n\nimport os\n\nos.kill(os.getpid(), 9)\n"
    )
    environment = {**os.environ, "TAUPY_STATE_DIR": str(state), "HOME": str(tmp_path)}
    environment |= {"TMPDIR": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}  # no other runs there
    run = [sys.executable, "-m", "taupy", "run", "--no-watch", "--db", database, script]
    subprocess.run(run, env=environment, capture_output=True, timeout=100)
    (folder,) = state.glob("run-*")  # killed, and not watched: nobody has stored it
    # -S: what an editable install imports to find us is not the storer's doing.
    code = f"import sys\nsys.path += {sys.path!r}\n{STORER}"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code, folder],
        env=environment, capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    loaded = set(done.stdout.split())
    assert database.exists() and not folder.exists(), done.stderr
    assert "taupy.profiledb.writer" in loaded
    assert sorted(loaded & HEAVY) == []
