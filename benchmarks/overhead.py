"""What measuring costs: CPU time over native for taupy, other tools and the bare hooks.

    python benchmarks/overhead.py                all tools, about ten minutes
    python benchmarks/overhead.py --quick        fewer tools, one round, about two minutes
    python benchmarks/overhead.py --workloads recursion,objects --tools native,taupy
    python benchmarks/overhead.py --steps             where the time of an event goes
    python benchmarks/overhead.py --against FOLDER    compared with another checkout

All tools run the same workloads in turns, in several sessions with fresh processes. A cell is the
median over all rounds of CPU time / native CPU time of the same round. The goals compare *added*
time (this ratio minus 1), averaged over the call-dense workloads.

`--against` compares the added times of this checkout and another, both built in place. The 95 %
intervals come from 1,000 bootstrap samples of sessions, and of the rounds in each.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
from pathlib import Path

import tools
import workloads
from tools import Session, Tool
from workloads import Workload

QUICK = ["native", "taupy", "taupy-c-calls", "cprofile", "hook", "hook-clock"]
STEPS = ["native", "hook", "hook-clock", "hook-path", "hook-count", "hook-time", "taupy"]

Ratios = dict[tuple[str, str], float]
"""(workload, tool) -> CPU time over native"""

Times = dict[str, list[list[dict[str, float]]]]
"""workload -> sessions -> rounds -> {tool: CPU seconds}"""


def measured(chosen: list[Tool], programs: list[Workload], sessions: int, rounds: int) -> Times:
    times: Times = {program.name: [] for program in programs}
    for number in range(sessions):
        with Session(chosen) as session:
            for program in programs:
                if sys.stderr.isatty():
                    print(
                        f"\r\033[Ksession {number + 1} of {sessions}: {program.name}",
                        end="",
                        file=sys.stderr,
                    )
                times[program.name].append(session.rounds(program.name, rounds))
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    return times


def ratios_of(times: Times) -> Ratios:
    """Medians over all rounds."""
    return {
        (name, tool): statistics.median(
            seconds[tool] / seconds["native"] for rounds in sessions for seconds in rounds
        )
        for name, sessions in times.items()
        for tool in sessions[0][0]
    }


def native_s(times: Times) -> dict[str, float]:
    """The median native seconds of each workload."""
    return {
        name: statistics.median(seconds["native"] for rounds in sessions for seconds in rounds)
        for name, sessions in times.items()
    }


def added(ratios: Ratios, programs: list[Workload], tool: str) -> float:
    """Mean added time over the call-dense workloads, in native times."""
    return statistics.mean(ratios[p.name, tool] - 1 for p in programs if p.call_dense)


def table(
    chosen: list[Tool], programs: list[Workload], ratios: Ratios, native: dict[str, float]
) -> None:
    shown = [tool for tool in chosen if tool.name != "native"]
    print("| workload | native, s | " + " | ".join(tool.title for tool in shown) + " |")
    print("| --- | ---: |" + " ---: |" * len(shown))
    for program in programs:
        cells = [f"{ratios[program.name, tool.name]:.2f}" for tool in shown]
        mark = "" if program.call_dense else " *"
        print(f"| {program.name}{mark} | {native[program.name]:.3f} | {' | '.join(cells)} |")
    means = [
        statistics.geometric_mean(ratios[program.name, tool.name] for program in programs)
        for tool in shown
    ]
    print("| **geometric mean** | | " + " | ".join(f"**{mean:.2f}**" for mean in means) + " |")
    if any(program.call_dense for program in programs):
        sums = [f"**{added(ratios, programs, tool.name):.2f}**" for tool in shown]
        print("| **added, call-dense** | | " + " | ".join(sums) + " |")
    if ("recursion", "native") in ratios:
        # `recursion` does nothing but call.
        per_call = native["recursion"] * 1e9 / workloads.FIBONACCI_CALLS
        costs = [f"{(ratios['recursion', tool.name] - 1) * per_call:.1f}" for tool in shown]
        print(f"| added ns a call (recursion) | {per_call:.1f} ns | {' | '.join(costs)} |")
    print("\n\\* not counted as call-dense")


def goals(chosen: list[Tool], programs: list[Workload], ratios: Ratios) -> None:
    old = sys.version_info < (3, 12)
    names = {tool.name for tool in chosen}
    print("\n| added time, mean over the call-dense workloads | ratio | goal |")
    print("| --- | ---: | ---: |")
    for numerator, denominator, text, limit in (
        ("taupy", "cprofile", "taupy / cProfile", 0.12 if old else 0.22),
        ("taupy", "hook-clock", "taupy / same hook with one clock reading", 1.5 if old else 1.4),
        ("taupy", "profile", "taupy / no-op PyEval_SetProfile", 0.25 if old else 0.40),
        ("taupy-c-calls", "cprofile", "taupy --c-calls / cProfile", 0.6 if old else 0.4),
    ):
        if numerator in names and denominator in names:
            ratio = added(ratios, programs, numerator) / added(ratios, programs, denominator)
            met = "" if ratio <= limit else " (missed)"
            print(f"| {text} | {ratio:.3f} | <= {limit}{met} |")


def steps(programs: list[Workload], ratios: Ratios) -> None:
    """Print what each step adds, relative to the hook with one clock reading."""
    costs = {name: added(ratios, programs, name) for name in STEPS}
    whole = costs["hook-clock"]
    print("\n| what an event does | added time | of the hook with one clock reading |")
    print("| --- | ---: | ---: |")
    for text, cost in (
        ("the interpreter calls the hook", costs["hook"]),
        ("read the clock", whole - costs["hook"]),
        ("find the call path, move there and back", costs["hook-path"] - costs["hook"]),
        ("count the call", costs["hook-count"] - costs["hook-path"]),
        ("read the clock, keep it, add the time up", costs["hook-time"] - costs["hook-count"]),
        ("**a bare profiler of call paths**", costs["hook-time"]),
        ("what else taupy does", costs["taupy"] - costs["hook-time"]),
        ("**taupy**", costs["taupy"]),
    ):
        print(f"| {text} | {cost:.3f} | {cost / whole:.2f} |")


def drawn_again(times: Times) -> Times:
    """A bootstrap sample. Workloads share sessions, because they share processes."""
    count = len(next(iter(times.values())))
    sessions = random.choices(range(count), k=count)
    return {
        name: [random.choices(of[number], k=len(of[number])) for number in sessions]
        for name, of in times.items()
    }


def against(programs: list[Workload], times: Times) -> None:
    """Print the ratio of this checkout's added time to the other's."""
    dense = [program for program in programs if program.call_dense]
    sets = {program.name: [program] for program in dense}
    if len(dense) > 1:
        sets["**all call-dense**"] = dense
    samples = [ratios_of(times)] + [ratios_of(drawn_again(times)) for _ in range(1000)]
    print("\n| added time | here | there | ratio (95 %) |")
    print("| --- | ---: | ---: | ---: |")
    for title, chosen in sets.items():
        here, other = (
            [added(sample, chosen, tool) for sample in samples] for tool in ("taupy", "against")
        )
        ratio = "-"  # calls are so rare that the added time may be 0
        if min(other) > 0:
            ratios = [of / to for of, to in zip(here, other, strict=True)]
            bounds = statistics.quantiles(ratios, n=40)
            ratio = f"{ratios[0]:.3f} ({bounds[0]:.3f} to {bounds[-1]:.3f})"
        print(f"| {title} | {here[0]:.3f} | {other[0]:.3f} | {ratio} |")


def main() -> None:
    parser = argparse.ArgumentParser(description="What measuring costs, beside other tools.")
    parser.add_argument("--quick", action="store_true", help="fewer tools, one session, one round")
    parser.add_argument("--sessions", type=int, help="fresh processes so many times (default: 3)")
    parser.add_argument("--rounds", type=int, help="of each workload in a session (default: 3)")
    names = [workload.name for workload in workloads.ALL]
    parser.add_argument("--workloads", type=tools.some_of(names), help="separated by commas")
    names = [tool.name for tool in tools.TOOLS]
    parser.add_argument("--tools", type=tools.some_of(names), help="separated by commas")
    parser.add_argument("--steps", action="store_true", help="what an event's time goes into")
    parser.add_argument("--against", type=Path, metavar="FOLDER", help="another checkout, built")
    arguments = parser.parse_args()
    if arguments.steps:
        arguments.tools = STEPS
    chosen = tools.available(arguments.tools or (QUICK if arguments.quick else None))
    if "native" not in {tool.name for tool in chosen}:
        chosen.insert(0, tools.by_name("native"))
    if arguments.against:
        here = tools.of_checkout("taupy", Path(__file__).parent.parent)
        chosen = [tools.by_name("native"), here, tools.of_checkout("against", arguments.against)]
    programs = workloads.available()
    if arguments.workloads:
        programs = [workloads.by_name(name) for name in arguments.workloads]
    usual = 1 if arguments.quick else 3
    sessions, rounds = arguments.sessions or usual, arguments.rounds or usual
    print(f"{tools.machine()}; {sessions} x {rounds} rounds\n")
    times = measured(chosen, programs, sessions, rounds)
    ratios = ratios_of(times)
    table(chosen, programs, ratios, native_s(times))
    if arguments.against:
        against(programs, times)
    elif any(program.call_dense for program in programs):
        goals(chosen, programs, ratios)
    if arguments.steps:
        steps(programs, ratios)


if __name__ == "__main__":
    main()
