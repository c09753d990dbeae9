"""The examples: the same output under `taupy run`, and counts worked out from their arguments."""

from __future__ import annotations

import math
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
TRAINING_IMAGES = 1437  # 1797 digits, every fifth kept for testing

needs_digits = pytest.mark.skipif(find_spec("numpy") is None, reason="numpy is not installed")
needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")


def steps(epochs: int, batch_size: int) -> int:
    return epochs * math.ceil(TRAINING_IMAGES / batch_size)


def plain(runs, name, *arguments, **environment) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, str(EXAMPLES / name), *map(str, arguments)],
        cwd=runs.folder,
        env=runs.environ() | environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


def profiled(runs, name, *arguments) -> dict[str, int]:
    """Run an example plain and profiled; calls of its own routines over all threads.

    Routines of the example have their qualified names, those of others are left out.
    """
    expected = plain(runs, name, *arguments)
    assert expected.returncode == 0
    unmeasured = "taupy: this process is not being profiled"  # an example that names its phases
    assert all(line.startswith(unmeasured) for line in expected.stderr.splitlines())
    done = runs.taupy(
        *("run", "--db", str(runs.database)),
        *(str(EXAMPLES / name), *map(str, arguments)),
    )
    assert (done.returncode, done.stdout) == (0, expected.stdout), done.stderr
    assert all(line.startswith("taupy: ") for line in done.stderr.splitlines())
    assert runs.one("SELECT state, exit_code FROM trial") == ("complete", 0), done.stderr
    return dict(
        runs.sql(
            """SELECT timer.short_name, sum(timer_call.calls) FROM timer_call
                 JOIN timer ON timer.id = timer_call.timer_id
                WHERE timer.file = ? GROUP BY timer.short_name""",
            name,
        )
    )


@needs_digits
@pytest.mark.slow
def test_mnist_in_numpy_counts_layers_times_batches(runs):
    epochs, batch_size = 2, 100
    calls = profiled(runs, "mnist.py", "--epochs", epochs, "--batch-size", batch_size)
    trained = steps(epochs, batch_size)
    forward = trained + epochs  # each epoch ends with one pass over the test images
    assert trained == 30
    assert calls["NumpyNetwork.train_step"] == calls["Adam.step"] == trained
    assert calls["Linear.forward"] == 3 * forward
    assert calls["Linear.backward"] == 3 * trained
    assert calls["Relu.forward"] == 2 * forward
    assert calls["Relu.backward"] == 2 * trained
    assert calls["Adam.update"] == 6 * trained  # a weight and a bias in each linear layer
    assert calls["train_epoch"] == calls["evaluate"] == epochs


@needs_digits
@pytest.mark.slow
def test_mnist_learns_to_read_at_its_defaults(runs):
    done = plain(runs, "mnist.py")
    assert float(done.stdout.split()[-1]) > 0.95


@needs_digits
@needs_torch
@pytest.mark.slow
def test_mnist_in_torch_counts_its_steps(runs):
    calls = profiled(runs, "mnist.py", "--framework", "torch", "--epochs", 2, "--batch-size", 100)
    assert calls["TorchNetwork.train_step"] == 30
    assert calls["TorchNetwork.predict"] == 2


@pytest.mark.slow
def test_threads_are_counted_one_by_one(runs, native):
    calls = profiled(runs, "threads.py", "--threads", 3, "--blocks", 12)
    assert calls["compress_block"] == calls["make_block"] == calls["make_words"] == 12
    assert calls["checksum"] == 1
    names = runs.sql("SELECT name FROM thread ORDER BY thread")
    assert names[0] == ("MainThread",)
    assert 2 <= len(names) <= 4  # a pool starts a thread only when none is idle
    main_blocks = runs.sql(
        """SELECT * FROM timer_call JOIN timer ON timer.id = timer_id
             JOIN thread ON thread.id = thread_id
            WHERE short_name = 'compress_block' AND thread.thread = 0"""
    )
    assert main_blocks == []


def test_coroutines_count_their_starts_and_not_their_resumptions(runs, native):
    calls = profiled(runs, "async_pipeline.py", "--lines", 700, "--workers", 3)
    assert calls["parse"] == calls["log_line"] == calls["Summary.add"] == 700
    assert calls["worker"] == 3
    assert calls["read_lines"] == calls["reader"] == calls["collector"] == calls["pipeline"] == 1


@pytest.mark.parametrize(
    "start_method",
    [
        "fork",
        pytest.param("spawn", marks=pytest.mark.slow),
        pytest.param("forkserver", marks=pytest.mark.slow),
    ],
)
def test_processes_deliver_into_one_trial(runs, native, start_method):
    calls = profiled(runs, "processes.py", "--queens", 6, "--start-method", start_method)
    nodes = placements(6)
    assert nodes[-1] == 4  # solutions
    assert calls["first_row"] == 6
    assert calls["solutions"] == sum(nodes)
    assert calls["safe"] == 6 * sum(nodes[:-1])
    assert runs.one("SELECT count(*) FROM trial") == 1
    assert runs.one("SELECT count(DISTINCT node) FROM thread") == 3


def placements(size: int) -> list[int]:
    """How many ways there are to place 1, 2, ... queens in as many rows."""
    boards: list[tuple[int, ...]] = [()]
    counts = []
    for row in range(size):
        boards = [
            (*board, column)
            for board in boards
            for column in range(size)
            if all(
                column != other and abs(column - other) != row - above
                for above, other in enumerate(board)
            )
        ]
        counts.append(len(boards))
    return counts


@pytest.mark.slow
def test_phases_stand_beside_the_routines(runs, native):
    epochs, points = 4, 60
    calls = profiled(runs, "phases.py", "--epochs", epochs, "--points", points)
    assert calls["nearest"] == epochs * points
    # Two comparisons of two distances a point, and one distance for the spread.
    assert calls["squared_distance"] == epochs * points * 5
    marked = dict(
        runs.sql(
            """SELECT timer.name, sum(calls) FROM timer_call JOIN timer ON timer.id = timer_id
                WHERE timer.file IS NULL AND timer.name NOT LIKE 'import %'
                GROUP BY timer.name"""
        )
    )
    del marked[".taupy application"]
    assert marked.pop("exit") == 1
    assert marked == {
        "setup": 1,
        "assign points": epochs,
        "move centres": epochs,
        **{f"epoch {number}": 1 for number in range(1, epochs + 1)},
    }
    assert runs.one("SELECT sum(count) FROM user_events WHERE event = 'spread'") == epochs
    assert runs.metadata("points") == str(points)


@needs_digits
@needs_torch
@pytest.mark.slow
@pytest.mark.parametrize("amp", [[], ["--amp"]], ids=["single", "mixed"])
def test_a_torch_network_counts_its_modules(runs, amp):
    calls = profiled(runs, "torch_cnn.py", "--epochs", 1, "--batch-size", 200, "--width", 4, *amp)
    trained = steps(1, 200)
    assert trained == calls["Trainer.train_step"] == 8
    assert calls["Cnn.forward"] == trained + 1
    assert calls["ConvBlock.forward"] == 2 * (trained + 1)


@needs_digits
@needs_torch
@pytest.mark.slow
def test_a_recurrent_cell_is_called_once_a_row(runs):
    calls = profiled(runs, "torch_lstm.py", "--epochs", 1, "--batch-size", 200)
    assert calls["train_step"] == 8
    assert calls["ScratchLstm.forward"] == 8 + 1
    assert calls["Cell.forward"] == 8 * (8 + 1)  # images have 8 rows


@needs_digits
@needs_torch
@pytest.mark.slow
@pytest.mark.parametrize(
    ("depth", "block", "blocks"),
    [(18, "BasicBlock", 8), (50, "Bottleneck", 16)],
)
def test_a_residual_network_has_the_blocks_of_its_depth(runs, depth, block, blocks):
    calls = profiled(
        *(runs, "resnet.py", "--depth", depth, "--width", 4, "--size", 8),
        *("--epochs", 1, "--batch-size", 500),
    )
    assert calls["Trainer.train_step"] == 3
    assert calls[f"{block}.forward"] == blocks * (3 + 1)
    assert calls[f"{block}.__init__"] == blocks


def test_a_missing_package_is_reported_in_one_line(runs):
    (runs.folder / "numpy.py").write_text(
        "raise ModuleNotFoundError('it is not here', name='numpy')"
    )
    done = plain(runs, "mnist.py", PYTHONPATH=str(runs.folder))
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "mnist.py: numpy is missing; install it with: pip install numpy"
    ]


@needs_digits
@pytest.mark.slow
@pytest.mark.parametrize("name", ["mnist.py", "torch_cnn.py", "torch_lstm.py", "resnet.py"])
def test_a_missing_pytorch_is_reported_in_one_line(runs, name):
    (runs.folder / "torch.py").write_text("raise ModuleNotFoundError('no torch', name='torch')")
    arguments = ["--framework", "torch"] if name == "mnist.py" else []
    done = plain(runs, name, *arguments, PYTHONPATH=str(runs.folder))
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"{name}: PyTorch is missing; install it with: pip install torch"
    ]
