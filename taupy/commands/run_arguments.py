"""The options of `taupy run`, and where they end."""

from __future__ import annotations

import sys

from taupy.commands import options, run_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any, Self

MODULES_MIB = 1024
_ALONE = {"--trace": "gpu", "--lines": run_lines.LOOKS}
"""Options with an optional value, which must follow `=`, and the default of that value."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "taupy run [options] {script.py | -m module | -c code | -} [args ...]"
    where = parser.add_argument_group("where to store the trial")
    options.add_database_argument(where)
    where.add_argument("--app", metavar="NAME", help="application (default: the script's name)")
    where.add_argument("--experiment", metavar="NAME", help='experiment (default: "default")')
    where.add_argument("--trial", metavar="NAME", help="trial (default: the next number)")
    where.add_argument(
        "--merge-into",
        metavar="TRIAL",
        default=None,
        help="add what --metrics counts to that trial of the same program",
    )
    where.add_argument(
        "--run-id",
        metavar="ID",
        help="name of the parallel job: ranks with the same name become one trial, here or by "
        "`taupy merge` (default: the name that torchrun, mpirun or srun gives it)",
    )
    options.add_list_argument(where, "--meta", "KEY=VALUE", "metadata for the trial")
    options.add_keep_secrets_argument(where)
    options.add_switch_argument(
        where,
        "--source",
        "keep the text of the program's own files with the trial, at most 1 MiB (default: yes)",
    )
    what = parser.add_argument_group("what to measure")
    what.add_argument("--c-calls", action="store_true", help="also record C functions")
    what.add_argument(
        "--no-layers",
        action="store_true",
        help="record the calls of a network's modules as routines, not as layers",
    )
    options.add_list_argument(
        what,
        "--include",
        "PATTERN",
        "record only routines that match: a glob on name or file, or name:GLOB, "
        "file:GLOB, module:GLOB; may be repeated",
    )
    options.add_list_argument(
        what,
        "--exclude",
        "PATTERN",
        "do not record matching routines",
    )
    what.add_argument(
        "--depth", metavar="N", type=int, default=None, help="limit call paths to N routines"
    )
    what.add_argument(
        "--steps",
        metavar="A:B",
        type=options.steps,
        help="record details only in steps A to B of a training; of the other steps, only times "
        "and phases",
    )
    options.add_list_argument(
        what,
        "--trace",
        "WHAT",
        "also record individual start and end times: of layers, phases and calls of your routines "
        "from 1 ms on (--trace=host), of "
        "kernels, copies, waits and API calls (--trace=gpu, or just --trace), or of both "
        "(--trace=host,gpu)",
        options.traced,
    )
    what.add_argument(
        "--fold-libraries",
        action="store_true",
        help="count library code called by library code for its caller",
    )
    options.add_switch_argument(
        what,
        "--imports",
        "record what libraries do while they are imported (default: an import is one row)",
    )
    options.add_switch_argument(
        what,
        "--throttle",
        "stop recording short, frequent routines (TAU_THROTTLE's rule), and name them",
    )
    what.add_argument(
        "--throttle-calls",
        metavar="N",
        type=int,
        help="with --throttle: calls before a routine may be dropped (default: 100,000)",
    )
    what.add_argument(
        "--throttle-usec",
        metavar="T",
        type=float,
        help="with --throttle: drop routines that take less than T microseconds per call "
        "(default: 10)",
    )
    options.add_switch_argument(
        what,
        "--compensate",
        "also store the metric time_compensated: time minus measurement cost",
    )
    options.add_switch_argument(
        what,
        "--autograd",
        "divide the backward passes of PyTorch by layer, and count what layers compute (default: "
        "if `taupy setup torch` was run)",
    )
    options.add_switch_argument(
        what,
        "--operators",
        "record each operator of PyTorch (aten::mm) at its call path, so that kernels are compared "
        "by operator; needs `taupy setup torch` (default: no)",
    )
    options.add_switch_argument(
        what,
        "--signatures",
        "record operators with the sizes and types of their inputs, for `taupy compare --by "
        "signature`; implies --operators (default: no)",
    )
    options.add_switch_argument(
        what,
        "--collectives",
        "record the collectives of PyTorch's process groups (default: if `taupy setup torch` was "
        "run) and of MPI through mpi4py (default: yes)",
    )
    what.add_argument(
        "--cpu-time", action="store_true", help="also store the metric cpu_time for every routine"
    )
    what.add_argument(
        "--max-callpaths",
        metavar="N",
        type=int,
        default=None,
        help="maximum number of distinct call paths",
    )
    options.add_threads_argument(what)
    options.add_list_argument(
        what,
        "--metrics",
        "LIST",
        "also count these: counters and sets, such as flop,instructions or roofline "
        "(`taupy avail` lists them; default: TAU_METRICS)",
    )
    what.add_argument(
        "--counters-at",
        choices=("auto", "calls", "regions"),
        default=None,
        help="read CPU counters at every call, or at regions and phases only "
        "(default: at every call if that is cheap)",
    )
    what.add_argument(
        "--twice",
        action="store_true",
        help="run twice, once for times and once for --metrics, and store both in one trial",
    )
    gpu = parser.add_argument_group("GPUs")
    options.add_switch_argument(
        gpu,
        "--gpu",
        "measure CUDA kernels, copies and API calls (default: if the program uses "
        "CUDA; with --gpu a run fails that recorded nothing on a GPU)",
    )
    gpu.add_argument(
        "--gpu-launches",
        metavar="N",
        type=int,
        default=None,
        help="count N launches of each kernel, grid and call path (default: 3)",
    )
    options.add_list_argument(
        gpu,
        "--pm-sampling",
        "LIST",
        "sample counters of the whole GPU while the program runs, at low cost: `timeline`, "
        "or names such as sm_active,bytes_dram (`taupy avail --sampling` lists them)",
    )
    gpu.add_argument(
        "--pm-interval",
        metavar="TIME",
        default=None,
        help="sampling interval: 1ms (the default), 100us, ...",
    )
    gpu.add_argument(
        "--keep-modules", metavar="FOLDER",
        help="keep the code that the program loads onto GPUs in this folder, for "
        "`taupy static FOLDER`",
    )  # fmt: skip
    gpu.add_argument(
        "--modules-limit", type=options.count, default=MODULES_MIB, metavar="MIB",
        help=f"keep at most this many MiB of code (default: {MODULES_MIB})",
    )  # fmt: skip
    gpu.add_argument(
        "--cupti-backend",
        choices=("native", "python"),
        default=None,
        help="how to record GPU work: taupy's native collector, or, to compare the two, NVIDIA's "
        "cupti-python, which is slower and is imported into the program "
        "(default: native)",
    )
    how = parser.add_argument_group("how")
    how.add_argument(
        "--engine",
        choices=("auto", "native", "python"),
        default=None,
        help="the compiled engine or the plain-Python one (default: compiled if available)",
    )
    how.add_argument(
        "--repeat",
        metavar="N",
        type=int,
        default=None,
        help="run the program N times; each run is a trial",
    )
    options.add_list_argument(
        how,
        "--sweep",
        "NAME=VALUES",
        "run the program once for each value (16,32,64 or 1..8 or 2^0..2^6), substituted for "
        "{NAME} in its arguments; env:NAME sets an environment variable; may be repeated",
    )
    options.add_switch_argument(
        how,
        "--watch",
        "start a small process beside the program that sees when and how each process ends "
        "(default: yes)",
    )
    how.add_argument(
        "--lines",
        metavar="{exact[:TRIAL],inside}",
        type=run_lines.lines,
        help="the watch also looks at which line each thread is in, 50 times a second, at no cost "
        "for the program: `taupy lines` (default: yes). --lines=exact: also count the lines of "
        "routines that took 5 %% of the program's last trial (or of TRIAL), or that --include "
        "names, with their exact times, at a cost that is said before. --lines=inside: a thread in "
        "the program looks, where the watch may not, or there is none",
    )
    how.add_argument(
        "--no-lines", dest="lines", action="store_false", default=None, help="no times of lines"
    )
    how.add_argument("--quiet", "-q", action="store_true", help="print nothing")


def parse(parser: argparse.ArgumentParser, arguments: list[str]) -> argparse.Namespace:
    """Split at the target: argparse must not see the program's arguments."""
    values = {
        name: action.nargs is None for action in parser._actions for name in action.option_strings
    }
    arguments = list(arguments)
    at = 0
    while at < len(arguments):
        word = arguments[at]
        if _ends_options(word):
            break
        name = word.split("=", 1)[0]
        if name.startswith("--") and name not in values:
            fits = [long for long in values if long.startswith(name)]
            name = fits[0] if len(fits) == 1 else name
        if name in _ALONE and "=" not in word:
            word = arguments[at] = f"{name}={_ALONE[name]}"
        at += 2 if values.get(name) and "=" not in word else 1
    parsed = parser.parse_args(arguments[:at])
    parsed.target = _target(arguments[at:])
    return parsed


def _ends_options(word: str) -> bool:
    return word in ("-", "--") or not word.startswith("-") or word[:2] in ("-m", "-c")


def _target(rest: list[str]) -> list[str]:
    return rest[1:] if rest[:1] == ["--"] else rest


def parsed_plainly(arguments: list[str]) -> argparse.Namespace | None:
    """What `parse` returns; None for a command line that a parser has to explain, or act on.

    argparse takes longer to import than an interpreter to start, and the program waits.
    """
    given = _Options()
    add_arguments(given)  # type: ignore[arg-type]
    at = 0
    while at < len(arguments) and not _ends_options(arguments[at]):
        name, equals, value = arguments[at].partition("=")
        if not equals and name in _ALONE:
            equals, value = "=", _ALONE[name]
        at += 1
        if not equals and name in given.takers and at < len(arguments):
            equals, value = "=", arguments[at]
            if value.startswith("-"):  # a number, or a value is missing
                return None
            at += 1
        if not given.take(name, value if equals else None):
            return None
    values = {**given.values, "target": _target(arguments[at:])}
    namespace = type(sys.implementation)  # types.SimpleNamespace, without the rest of that module
    return namespace(**values)  # type: ignore[return-value]


class _Options:
    """Takes arguments as a parser does, and then options that need no explanation.

    Attributes:
        values: of all options, by the names that a parser gives them.
        flags: the name and value that an option without a value sets.
        takers: how an option with a value is declared, by its words.
    """

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.flags: dict[str, tuple[str, bool]] = {}
        self.takers: dict[str, tuple[str, dict[str, Any]]] = {}

    def add_argument_group(self, _: str) -> Self:
        return self

    def add_argument(self, *names: str, **how: Any) -> None:
        long = next((name for name in names if name.startswith("--")), names[0])
        name = how.get("dest") or long.lstrip("-").replace("-", "_")
        action = how.get("action")
        default = False if action == "store_true" else None
        self.values.setdefault(name, how.get("default", default))
        if action in (None, "append"):
            self.takers.update((word, (name, how)) for word in names)
        elif action in ("store_true", "store_false", options.SWITCH):
            self.flags.update((word, (name, action != "store_false")) for word in names)
        if action == options.SWITCH:
            self.flags[f"--no-{long[2:]}"] = name, False

    def take(self, word: str, text: str | None) -> bool:
        """Whether this option could be set. Its value is None if it has none."""
        if text is None and word in self.flags:
            name, value = self.flags[word]
            self.values[name] = value
            return True
        if text is None or word not in self.takers:
            return False
        name, how = self.takers[word]
        try:
            value = how.get("type", str)(text)
        except Exception:  # the parser says what is wrong
            return False
        if "choices" in how and value not in how["choices"]:
            return False
        is_list = how.get("action") == "append"
        self.values[name] = [*self.values[name], value] if is_list else value
        return True
