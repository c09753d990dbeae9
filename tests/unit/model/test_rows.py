"""What is known of how a trial ended, in words for people."""

import pytest

from taupy.model.rows import TrialRow


@pytest.mark.parametrize(
    ("exit_code", "state", "source", "said"),
    [
        (0, "complete", "taupy run", "0"),
        (3, "incomplete", "taupy run", "3"),
        (-11, "incomplete", "taupy run", "SIGSEGV"),
        (-99, "incomplete", "taupy run", "signal 99"),
        (None, "incomplete", "taupy run", "killed"),
        (None, "complete", "taupy run", "unknown"),
        (None, "incomplete", "import chrome: cut.json", ""),
        (None, "complete", "import tau: profiles", ""),
        (1, "complete", "import json: x.taupy.json", "1"),
    ],
)
def test_the_end_of_a_trial_is_reported_as_far_as_it_is_known(exit_code, state, source, said):
    trial = TrialRow(1, "u", "a", "e", "1", "", 0, exit_code, state, source, ())
    assert trial.ending == said
