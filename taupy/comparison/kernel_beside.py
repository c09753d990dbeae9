"""The stored code of a trial's kernels, joined by kernel name and module, or chip."""

from __future__ import annotations

from taupy.analysis.kernel_cuts import one_spelling
from taupy.dataclass import NamedTuple
from taupy.model.kernel_code import KernelCode
from taupy.model.kernel_names import demangled, short_name
from taupy.profiledb import gpu_query, kernel_codes, modules
from taupy.profiledb.database import ProfileDB


class Joined(NamedTuple):
    """The stored code of a kernel of a trial.

    Attributes:
        doubt: why other code may have run; "" if the trial loaded that module.
    """

    codes: list[KernelCode]
    doubt: str


def codes_of(db: ProfileDB, trial_id: int, timer: str) -> Joined:
    """The kernel's stored code from modules that the trial loaded, or else all of it for the
    chips of the trial's GPUs."""
    named = _named(db, trial_id, timer)
    loaded = modules.hashes_of(db, trial_id)
    ran = [code for code in named if code.module in loaded]
    if ran or not named:
        return Joined(ran, "")
    listed = "lists none of these modules" if loaded else "lists no modules"
    doubt = (
        f"joined by kernel name and chip, since trial {trial_id} {listed}: other code may have run"
    )
    return Joined(named, doubt)


def _named(db: ProfileDB, trial_id: int, timer: str) -> list[KernelCode]:
    """The stored code of kernels of this name, for the chips of the trial's GPUs."""
    chips = {device.compute_capability for device in gpu_query.devices(db, trial_id)}
    name = one_spelling(demangled(timer))
    short = short_name(name)

    def meant(full: str, chip: str) -> bool:
        if chips and chip not in chips:
            return False
        # A kernel of C has no parameters in its name; some tools give short names only.
        return one_spelling(full) in (name, short) or (name == short == short_name(full))

    return kernel_codes.stored(db, meant)


def extent(sides: tuple[int, int, int] | None) -> int | None:
    """Threads of a block, or blocks of a grid."""
    return None if sides is None else sides[0] * sides[1] * sides[2]
