"""What the plain-Python engine says of its own limits."""


def test_a_trial_of_the_plain_engine_says_which_counts_are_lower_bounds(runs):
    done = runs.run("def f(): pass\nf()\n", "--engine", "python")
    text = runs.metadata("taupy.health.plain_engine")
    assert "lower bounds" in text
    assert f"note: {text}" in done.stderr
    assert runs.calls()["f"] == 1


def test_an_end_by_the_recursion_limit_is_never_taken_for_a_success(runs):
    done = runs.run(
        "import atexit, gc\n"
        "@atexit.register\ndef at_exit(): gc.collect(); work()\n"
        "def work(): pass\ndef down(): down()\ndown()\n",
        "--engine",
        "python",
    )
    assert done.returncode == 1 and "RecursionError" in done.stderr
    assert runs.one("SELECT exit_code FROM trial") in (1, None)
    assert "lower bounds" in runs.metadata("taupy.health.plain_engine")
