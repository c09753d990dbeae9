"""Which rank of which job this process is, as torchrun, accelerate, mpirun and srun say in the
environment."""

from __future__ import annotations

import os

from taupy.instrument import rank_variables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_SCHEDULERS = ("SLURM_JOB_ID", "SLURM_STEP_ID", "PBS_JOBID", "LSB_JOBID")
_ADDRESS = ("MASTER_ADDR", "MASTER_PORT")
_NO_NAME = ("", "none")
"""`torchrun` without --rdzv-id calls every job `none`."""


class Job:
    """A rank's place in its job.

    Attributes:
        rank, size: its number, from 0, and the number of ranks.
        uuid: the same on all ranks, so that they become one trial; None if the job has no name.
        attempt: from 1; a launcher may start all ranks again after a failure. 0: not in a job.
    """

    def __init__(self, rank: int, size: int, uuid: str | None, attempt: int) -> None:
        self.rank, self.size, self.uuid, self.attempt = rank, size, uuid, attempt

    def called(self, uuid: str | None) -> Job:
        """The same place in a trial with another identity."""
        return Job(self.rank, self.size, uuid, self.attempt)


ALONE = Job(0, 1, None, 0)


def job(environment: Mapping[str, str], run_id: str | None = None) -> Job:
    """The job of this process.

    Args:
        run_id: name of the job, which overrides the launcher's.
    """
    for launcher, (rank_name, _, local_name, job_names) in enumerate(rank_variables.LAUNCHERS):
        rank, size = rank_variables.place(environment, launcher) or (0, 0)
        if size < 2:
            continue
        if rank_name == "SLURM_PROCID" and not _is_step(environment):
            continue  # a batch job's script, which runs once for the job and not once per rank
        attempt = rank_variables.attempt(environment)
        if run_id is not None:
            return Job(rank, size, _uuid("run id", run_id), attempt)
        names = _names(environment, rank_name, job_names)
        if rank_variables.number(environment, local_name) == size:
            names += _parent()
        return Job(rank, size, _uuid(rank_name, *names) if any(names) else None, attempt)
    return ALONE if run_id is None else Job(0, 1, _uuid("run id", run_id), 1)


def _is_step(environment: Mapping[str, str]) -> bool:
    return "SLURM_STEP_ID" in environment or "SLURM_STEPID" in environment


def _names(environment: Mapping[str, str], rank_name: str, job_names: tuple[str, ...]) -> list[str]:
    names = [environment.get(name, "") for name in job_names]
    names = ["" if name in _NO_NAME else name for name in names]
    if rank_name == "RANK" and not any(names):
        names = [environment.get(name, "") for name in _ADDRESS]
    return names + [environment.get(name, "") for name in _SCHEDULERS]


def _parent() -> list[str]:
    """The identity of the parent process, which all ranks of the job on this host share."""
    from taupy.instrument.runfolder import boot_id, process_start

    parent = os.getppid()
    return [str(parent), str(process_start(parent)), boot_id()]


def _uuid(*names: str) -> str:
    from taupy.instrument.runfolder import derived_uuid

    return derived_uuid("\0".join(names))
