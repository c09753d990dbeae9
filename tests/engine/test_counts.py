"""Both engines count what really happened, on every call path."""

from __future__ import annotations

import pytest

from tests.engine.programs import PROGRAMS

# Bodies that the source has no place for, where the reference could count.
NO_BODY = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>", "__annotate__")


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_calls_are_those_worked_out_by_hand(corpus_trial, program):
    counted = corpus_trial.calls(f"{program.name}.py")
    assert counted == {"<module>": 1, **program.calls}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_call_paths_are_those_of_an_independent_count(corpus_trial, reference, program):
    file = f"{program.name}.py"
    counted = {
        path: calls
        for path, calls in corpus_trial.counts(file).items()
        if not path.endswith(NO_BODY)
    }
    expected = dict(reference[file])
    if program.name in ("evaluated_code", "same_code_many_objects"):
        # What is compiled at run time is not in the source that the reference has changed.
        counted = {path: n for path, n in counted.items() if path in expected}
    assert counted == expected


def test_the_independent_count_agrees_with_the_hand(reference):
    """The judge is judged: where every body is in the source, its sums are the hand's."""
    for program in PROGRAMS:
        if program.name in ("evaluated_code", "same_code_many_objects"):
            continue
        sums: dict[str, int] = {}
        for path, calls in reference[f"{program.name}.py"].items():
            name = path.rpartition(" > ")[2]
            sums[name] = sums.get(name, 0) + calls
        by_hand = {n: c for n, c in program.calls.items() if not n.endswith(NO_BODY)}
        assert sums == {"<module>": 1, **by_hand}, program.name
