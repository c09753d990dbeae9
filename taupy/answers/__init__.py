"""Answers about one trial: the same tables on the terminal, in a notebook and on the page.

One module for each question, with

    a docstring                    the description of the command
    Options                        a frozen dataclass; its fields are options (`options.option`)
    PAGES                          the options with which the page shows the answer
    views(db, trial, options)      the tables; raises `Nothing` if there are none

and an entry in `ANSWERS`. `commands/answering.py` is its command, `notebook.Trial` a method,
`report/contents.py` a tab. The modules of `ranks` and `candidates` are in
rooms of their own.
"""

ANSWERS = {
    "places": ("", "where the time went in the program's own code"),
    "lines": ("Lines", "which lines took the time, and what they called"),
    "phases": ("Phases", "a training's phases: data, forward, backward, optimizer"),
    "layers": ("Layers", "a network's layers: time, flop, memory"),
    "steps": ("Steps", "a training's steps: time, phases, loss, samples/s"),
    "ranks": ("Ranks", "a job's ranks, and which one the others waited for"),
    "kernels": ("GPU", "what ran on the GPUs, and who launched it"),
    "kernel": ("", "one GPU kernel with its launch sites"),
    "memory": ("Memory", "when memory was largest, and where it grew"),
    "waiting": (
        "Waiting",
        "what threads did: compute, sleep, wait for a CPU or disk",
    ),
    "routines": ("All routines", ""),
    "events": ("User events", "user events: statistics of values that were noted"),
    "candidates": ("", "routines ranked by what tuning could gain"),
}
"""In the order of the page's tabs: the title of the tab, and what the command does."""

EXCEPTIONS = {
    ("places", "page"): "the page's overview and source have its places, with their text",
    ("candidates", "page"): "the page's findings say what to tune, each with its gain",
    ("kernel", "page"): "a page cannot be asked for a kernel by its name",
    ("kernel", "command"): "commands/kernel.py: stored code of a kernel that no trial has",
    ("routines", "command"): "commands/pprof.py: the same rows, thread by thread, and sums",
}
"""What has no tab, and whose command is another module than `commands/answering.py`; and why.

A page, which cannot be asked, shows an answer with the options of its `PAGES`. Programs, such as
notebooks, get all rows: they have no `whole`.
"""

_GATE = "db.gate(CONDITION) of a notebook gives the rulings, which are no rows of compare"
_EXIT_CODE = "it changes the exit code alone; a notebook sees rulings, and `not_comparable`"
_RUNS = "it runs programs; db.gate judges trials that are stored"
_BLOCKS = "it ranks block sizes of stored code, and is no sweep of trials"

COMMANDS_ONLY = {
    ("compare", "--fail-on"): _GATE,
    ("compare", "--undecided"): _EXIT_CODE,
    ("compare", "--allow"): _EXIT_CODE,
    ("compare", "--junit"): "it writes a file for CI",
    ("gate", "--undecided"): _EXIT_CODE,
    ("gate", "--allow"): _EXIT_CODE,
    ("gate", "--junit"): "it writes a file for CI",
    ("gate", "--budget"): _RUNS,
    ("gate", "--max-pairs"): _RUNS,
    ("gate", "--quiet"): _RUNS,
    ("sweep", "--show"): "frame(NAME) of the sweep in a notebook",
    ("sweep", "--plot"): "plot(FILE) of the sweep in a notebook",
    ("sweep", "--block"): _BLOCKS,
    ("sweep", "--kernel"): _BLOCKS,
}
"""Of commands about several trials, the options that methods of `notebook.Database` lack; and why.

No command lacks an option of a method. A gate takes none of compare's options that no condition
heeds: a condition has its own metric, rows and least change.
"""
