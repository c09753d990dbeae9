"""Snapshots that a program took of its profile, in its run folder: each is a trial."""

from __future__ import annotations

from collections.abc import Iterator

from taupy.instrument.runfolder import RunSettings, derived_uuid
from taupy.model.job import node_of
from taupy.model.profile import Profile
from taupy.record.children import take_notes
from taupy.record.host_part import read_part
from taupy.record.host_profile import HostPlaces, profile_of
from taupy.record.part_files import GPU_COPY_SUFFIX, SNAPSHOT_SUFFIX
from taupy.state.folder import File, Folder


def read(
    folder: Folder, settings: RunSettings, trial: str, clock_now: tuple[int, int] | None
) -> Iterator[tuple[File, Profile]]:
    """The snapshots that are not stored yet, in the order in which each process took them: of the
    host, and of the GPUs if their part was copied.

    Args:
        trial: the name of the run's trial; theirs are `TRIAL@LABEL`.
        clock_now: as for `read_part`.
    """
    for file in sorted(folder.files(SNAPSHOT_SUFFIX), key=lambda file: (len(file.name), file.name)):
        part = read_part(file, clock_now)
        if part is None:
            continue
        take_notes([part])  # they are the whole trial's
        places: dict[int, HostPlaces] = {}
        node = node_of(settings.rank, settings.attempt)
        profile = profile_of(settings, {node: part}, finished=True, places=places)
        copy = file.with_suffix(GPU_COPY_SUFFIX)
        if copy.exists():
            from taupy.record.gpus import add_gpu_copy

            add_gpu_copy(profile, copy, node, places[node])
        label = part.metadata.get("taupy.snapshot", file.stem)
        profile.uuid = derived_uuid(f"{settings.trial_uuid}/{file.name}")
        profile.name = f"{trial}@{label}"
        profile.metadata["taupy.snapshot"] = label
        yield file, profile
