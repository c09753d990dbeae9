"""The rule of recompilation: which templates may have been compiled before."""

from __future__ import annotations

import pytest

from taupy.analysis.findings import recompilation
from taupy.model.profile import Timer
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from taupy.report.evidence import trial_of
from tests.builders import call, host, profile_of

MS = 1_000_000
LIBRARY = ("PYTHON", "LIBRARY")


@pytest.mark.parametrize(
    ("compilations", "files", "repeated"),
    [(15, 15, 0), (15, 8, 0), (15, 7, 8), (15, 0, 14), (300, 15, 285)],
)
def test_each_file_of_templates_is_compiled_once(tmp_path, compilations, files, repeated):
    """A generator of pages uses each of its templates for a page or two. Those without a file are
    not told apart, and one of the program's own routines is no template."""
    compiled = Timer("Environment.compile", "jinja2/environment.py", 730, LIBRARY)
    root = [call(Timer("root", f"theme/page{n}.html", 4), 2, MS) for n in range(files)]
    root += [call(Timer("root", "<template>", 4), 2, MS), call(Timer("root", "site.py", 90), 1, 0)]
    render = call(Timer("Template.render", "jinja2/environment.py", 1290, LIBRARY), 20, 0, root)
    build = call(Timer("build", "site.py", 3), 20, MS, [
        call(compiled, compilations, compilations * 60 * MS), render,
    ])  # fmt: skip
    with ProfileDB.open(str(tmp_path / "t.db"), create=True) as db:
        add_profile(db, profile_of(host(build)))
        found = [*recompilation.find(trial_of(db, db.latest()))]
    assert [finding.saved_ns for finding in found] == [repeated * 60 * MS] * bool(repeated)
