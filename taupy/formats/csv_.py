"""Tables of a profile as CSV: the flat profile, call paths, or user events.

As in `taupy pprof --csv`, text that a spreadsheet would take for a formula is prefixed with `'`,
and control characters are escaped.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from taupy.escaping import csv_cell
from taupy.formats import tables
from taupy.formats.tables import ProfileTable
from taupy.model.profile import Profile
from taupy.model.progress import Progress


def _write(table: ProfileTable, profile: Profile, target: Path, progress: Progress) -> list[str]:
    progress.begin(target.name, sum(len(thread.tree) for thread in profile.threads))
    with open(target, "w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([name for name, _ in table.columns])
        for row in table.rows(profile, progress):
            writer.writerow([_cell(value) for value in row])
    return []


def _cell(value: Any) -> Any:
    return csv_cell(value) if isinstance(value, str) else value


FORMATS = tables.formats("csv", "CSV", _write)
