"""The table of `taupy layers`."""

from __future__ import annotations

import pytest

from taupy.answers import layers
from taupy.model.profile import Timer
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from tests.builders import call, host, profile_of

NET = Timer("Net [Net]", groups=("LAYER",))
VALIDATE = Timer("validate", "train.py", 3, ("PYTHON", "PHASE_VALIDATION"))


@pytest.mark.parametrize("inside", [1000, 0])
def test_a_row_validation_beside_a_column_validation_is_explained(tmp_path, inside):
    """The row has 40 ns where the column has 1,000."""
    validation = call(VALIDATE, 1, 40, [call(NET, 1, inside)] if inside else [])
    main = call(Timer("main", "train.py", 1), 1, 5, [call(NET, 2, 500), validation])
    with ProfileDB.open(str(tmp_path / "t.db"), create=True) as db:
        add_profile(db, profile_of(host(main, name="MainThread")))
        (view,) = layers.views(db, db.latest().id, layers.Options())
    told = [note for note in view.notes if note.startswith("row (validation): outside of layers")]
    assert len(told) == (1 if inside else 0)
