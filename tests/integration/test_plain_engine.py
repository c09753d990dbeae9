"""What the plain-Python engine says of its own limits."""


def test_a_trial_of_the_plain_engine_says_which_counts_are_lower_bounds(runs):
    done = runs.run("def f(): pass\nf()\n", "--engine", "python")
    text = runs.metadata("taupy.health.plain_engine")
    assert "lower bounds" in text
    assert f"note: {text}" in done.stderr
    assert runs.calls()["f"] == 1
