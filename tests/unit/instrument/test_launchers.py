"""Which rank of which job a process is, from the variables of each launcher."""

from __future__ import annotations

import pytest

from taupy.instrument.launchers import job

# Two ranks of one job on two hosts, and what another job has instead.
LAUNCHERS = {
    "torchrun": (
        {"WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "a"},
        "RANK",
        {"TORCHELASTIC_RUN_ID": "b"},
    ),
    "torchrun without --rdzv-id": (
        {"WORLD_SIZE": "4", "TORCHELASTIC_RUN_ID": "none", "MASTER_ADDR": "h", "MASTER_PORT": "1"},
        "RANK",
        {"MASTER_PORT": "2"},
    ),
    "torchrun under srun": (
        {"WORLD_SIZE": "4", "TORCHELASTIC_RUN_ID": "a", "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0"},
        "RANK",
        {"SLURM_STEP_ID": "1"},
    ),
    "OpenMPI": (
        {"OMPI_COMM_WORLD_SIZE": "4", "PMIX_NAMESPACE": "prterun-host-15503@1"},
        "OMPI_COMM_WORLD_RANK",
        {"PMIX_NAMESPACE": "prterun-host-15600@1"},
    ),
    "PMI": ({"PMI_SIZE": "4", "PMI_JOBID": "7"}, "PMI_RANK", {"PMI_JOBID": "8"}),
    "MPICH in a batch job": ({"PMI_SIZE": "4", "PBS_JOBID": "7"}, "PMI_RANK", {"PBS_JOBID": "8"}),
    "srun": (
        {"SLURM_STEP_NUM_TASKS": "4", "SLURM_NTASKS": "9", "SLURM_JOB_ID": "7",
         "SLURM_STEP_ID": "0"},
        "SLURM_PROCID",
        {"SLURM_JOB_ID": "8"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_ranks_of_a_job_have_one_identity_and_those_of_another_job_another(launcher):
    common, rank, other = LAUNCHERS[launcher]
    first, second = job({**common, rank: "0"}), job({**common, rank: "3"})
    assert [(one.rank, one.size, one.attempt) for one in (first, second)] == [(0, 4, 1), (3, 4, 1)]
    assert first.uuid == second.uuid is not None
    assert job({**common, rank: "0", **other}).uuid not in (None, first.uuid)
    named = [job({**common, **more, rank: "1"}, "mine").uuid for more in ({}, other)]
    assert named[0] == named[1] not in (None, first.uuid)


def test_who_is_started_again_is_another_attempt_of_the_same_job():
    common = {"RANK": "1", "WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "a"}
    first = job({**common, "TORCHELASTIC_RESTART_COUNT": "0"})
    again = job({**common, "TORCHELASTIC_RESTART_COUNT": "2", "MASTER_PORT": "other"})
    assert (first.attempt, again.attempt) == (1, 3)
    assert first.uuid == again.uuid


def test_ranks_of_one_host_are_recognised_by_their_parent():
    """MPICH has no name for a job; the number of a file descriptor is the same in every one."""
    common = {"PMI_SIZE": "2", "HYDI_CONTROL_FD": "7"}
    assert job({**common, "PMI_RANK": "0"}).uuid is None
    here = {**common, "MPI_LOCALNRANKS": "2"}
    assert job({**here, "PMI_RANK": "0"}).uuid == job({**here, "PMI_RANK": "1"}).uuid is not None


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"RANK": "0", "WORLD_SIZE": "1"},
        {"RANK": "2", "WORLD_SIZE": "2"},
        {"RANK": "-1", "WORLD_SIZE": "2"},
        {"RANK": "0", "WORLD_SIZE": "two"},
        {"SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_JOB_ID": "7"},  # a batch job's script
    ],
)
def test_a_lone_process_is_no_rank(environment):
    alone = job(environment)
    assert (alone.rank, alone.size, alone.uuid, alone.attempt) == (0, 1, None, 0)
