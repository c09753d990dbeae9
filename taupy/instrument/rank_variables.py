"""The variables in which torchrun, accelerate, mpirun and srun tell a process its place in a job.

Read in the measured program, too: nothing is imported.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

LAUNCHERS = (
    ("RANK", ("WORLD_SIZE",), "LOCAL_WORLD_SIZE", ("TORCHELASTIC_RUN_ID",)),
    (
        "OMPI_COMM_WORLD_RANK",
        ("OMPI_COMM_WORLD_SIZE",),
        "OMPI_COMM_WORLD_LOCAL_SIZE",
        ("PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_hnp_uri"),
    ),
    ("PMI_RANK", ("PMI_SIZE",), "MPI_LOCALNRANKS", ("PMI_JOBID",)),
    ("SLURM_PROCID", ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"), "", ()),
)
"""Variables of each launcher: rank, number of ranks, number of ranks on this host, and those that
identify the job."""
RESTARTS = ("TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT")
NOTE = "taupy.rank"
"""Metadata of a process that the program of a run started as a rank: `place` in one text."""


def number(environment: "Mapping[str, str]", name: str) -> "int | None":
    text = environment.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def attempt(environment: "Mapping[str, str]") -> int:
    """Which attempt of the job it is, from 1."""
    return 1 + max(number(environment, name) or 0 for name in RESTARTS)


def place(environment: "Mapping[str, str]", launcher: int) -> "tuple[int, int] | None":
    """Rank and number of ranks, as one of the launchers says; None if it says nothing."""
    rank_name, size_names, _, _ = LAUNCHERS[launcher]
    rank = number(environment, rank_name)
    size = next((n for name in size_names if (n := number(environment, name))), 0)
    return None if rank is None or not 0 <= rank < size else (rank, size)


def note(environment: "Mapping[str, str]") -> str:
    """Rank, number of ranks and attempt, as the first launcher says that says anything; or ""."""
    for launcher in range(len(LAUNCHERS)):
        if at := place(environment, launcher):
            return f"{at[0]} {at[1]} {attempt(environment)}"
    return ""
