"""Backward passes are divided by layer, as far as the nodes of the graph say where they come from.

Here with a library that plays PyTorch's; the one that hears of nodes is the real one, compiled
against it. Against PyTorch itself at the end.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engine.conftest import has_native
from tests.engine.played import compiler, environment_of, put_torch
from tests.engine.test_layers import HEAD as LAYERS
from tests.in_process import set_up_torch

HEAD = (
    LAYERS
    + """
from torch import Node, run
class Makes(Module):  # a module of one node, or of several
    def __init__(self, *names):
        super().__init__()
        self.__dict__["names"] = names
    def forward(self):
        made.extend(Node(name) for name in self.names)
made = []
def backward(inside=None):
    run(made[::-1], inside)
    made.clear()
"""
)
pytestmark = [
    pytest.mark.skipif(not has_native, reason="the compiled engine is not built"),
    pytest.mark.skipif(compiler is None, reason="no C++ compiler"),
]


@pytest.fixture
def run(runner, shared):
    runner.environment |= environment_of(shared)

    def run(source: str, *options: str, engine: str = "native"):
        return runner.run(HEAD + source, engine, *options)

    return run


@pytest.fixture
def torch(runner, played) -> Path:
    """A PyTorch of the program's own, for which there is no library yet."""
    return put_torch(runner.folder, played)


@pytest.fixture
def run_alone(runner, torch):
    runner.environment |= environment_of(runner.folder)
    return lambda source: runner.run(HEAD + source, "native")


def passes(trial) -> dict[str, int]:
    """Layers' passes and the nodes in them, from the outermost in -> calls."""
    found: dict[str, int] = {}
    for path in trial.paths():
        if path.groups in (("LAYER", "PHASE_BACKWARD"), ("AUTOGRAD",)) and path.calls:
            steps = zip(path.names, path.files, strict=True)
            text = " > ".join(name for name, file in [*steps][1:] if file is None)
            found[text] = found.get(text, 0) + path.calls
    return found


@pytest.mark.slow
def test_each_node_runs_in_the_pass_of_its_layer(run):
    trial = run(
        """
class Net(Module):
    def __init__(self):
        super().__init__()
        self.first = Makes("MulBackward0", "AddBackward0")
        self.second = Makes("ExpBackward0")
    def forward(self):
        self.first()
        made.append(Node("ReluBackward0"))
        self.second()
net = Net()
for _ in range(3):
    net()
    made.append(Node("LossBackward0"))
    made.insert(1, Node("torch::autograd::AccumulateGrad", numbered=False))
    backward()
"""
    )
    assert passes(trial) == {
        "LossBackward0": 3,
        "backward of second": 3,
        "backward of second > ExpBackward0": 3,
        "backward of Net": 3,
        "backward of Net > ReluBackward0": 3,
        "backward of first": 3,
        "backward of first > AddBackward0": 3,
        "backward of first > MulBackward0": 3,
        "backward of first > AccumulateGrad": 3,
    }
    assert trial.metadata()["Autograd Nodes"] == "15 numbered, 12 of a layer, 0 too old to tell"
    assert trial.metadata()["taupy.autograd"] == "by layer: PyTorch 2.99.0"
    total = trial.under("backward", "run", "backward of first")
    inner = [p for p in trial.paths() if p.names[-2:-1] == ("backward of first",)]
    assert total.inclusive == pytest.approx(total.exclusive + sum(p.inclusive for p in inner))


@pytest.mark.slow
def test_what_a_node_creates_belongs_to_its_layer(run):
    trial = run(
        """
class Again(Makes): pass
net, again = Makes("MulBackward0", "ExpBackward0"), Again("TanhBackward0")
def creates():
    made.append(Node("FirstBackward0"))
    again()
    made.append(Node("SecondBackward0"))
net()
made.append(Node("LossBackward0"))
gradients = [*made]
made.clear()
run([gradients.pop()], lambda: made.append(Node("OfLossBackward0")))
run(gradients[::-1], creates)
made.append(Node("OutsideBackward0"))
backward()
"""
    )
    assert (
        passes(trial).items()
        >= {
            **{"LossBackward0": 1, "OfLossBackward0": 1, "OutsideBackward0": 1},
            **{"backward of Makes > FirstBackward0": 2, "backward of Makes > SecondBackward0": 2},
            **{"backward of Again": 2, "backward of Again > TanhBackward0": 2},
        }.items()
    )
    assert trial.metadata()["Autograd Nodes"].startswith("11 numbered, 8 of a layer")


def test_python_in_a_node_hangs_below_it_and_so_do_layers(run):
    trial = run(
        """
net = Sequential(Makes("MulBackward0"))
net()
def hook():
    work()
    net()
backward(hook)
"""
    )
    hook = ("backward of 0", "MulBackward0", "hook")
    assert trial.under(*hook, "work").calls == 1
    assert trial.under(*hook, "Sequential", "Sequential.forward", "0", "Makes.forward").calls == 1
    assert passes(trial)["backward of 0"] == 1


def test_a_graph_that_was_made_again_in_a_pass(run):
    trial = run(
        """
net = Sequential(Makes("MulBackward0"))
net()
def again():
    before = [*made]
    made.clear()
    net()
    backward()
    made.extend(before)
backward(again)
"""
    )
    assert trial.under("backward of 0", "MulBackward0", "again", "backward", "run",
                       "backward of 0", "MulBackward0").calls == 1  # fmt: skip


@pytest.mark.slow
def test_threads_make_and_run_nodes(run):
    trial = run(
        """
def task(net):
    net()
    nodes = [*made]
    made.clear()
    return nodes
nets = Sequential(Makes("MulBackward0")), Sequential(Makes("ExpBackward0"))
found = []
for net in nets:
    thread = threading.Thread(target=lambda: found.append(task(net)))
    thread.start()
    thread.join()
def all_of_them():
    for nodes in found:
        for node in nodes:
            node.run()
thread = threading.Thread(target=all_of_them)
thread.start()
thread.join()
"""
    )
    assert passes(trial) == {
        "backward of 0": 1,
        "backward of 0 > MulBackward0": 1,
        "backward of Sequential (2).0": 1,
        "backward of Sequential (2).0 > ExpBackward0": 1,
    }


@pytest.mark.slow
def test_memory_is_looked_at_while_nodes_run_without_the_gil(run):
    """No look asks the interpreter for anything; `torch.cuda` is there to be asked."""
    trial = run(
        """
import sys, time, types
sys.modules["torch.cuda"] = types.ModuleType("torch.cuda")
layer = Makes("MulBackward0", "AddBackward0")
until = time.monotonic() + 1
passes = 0
while time.monotonic() < until:
    layer()
    backward()
    passes += 1
    memory = bytearray(1 << 20)
print(passes)
"""
    )
    assert passes(trial)["backward of Makes"] == int(trial.stdout)


@pytest.mark.slow
def test_code_is_freed_and_made_anew_while_nodes_run_without_the_gil(run):
    trial = run(
        """
import torch, ctypes
net = Sequential(*[Makes("MulBackward0") for _ in range(5)])
net()
over = False
def churn():
    names = {}
    while not over:
        exec("def a(): pass\\ndef b(): a()\\nb(); [(lambda: a())() for _ in range(3)]", names)
thread = threading.Thread(target=churn)
thread.start()
sys.setswitchinterval(1e-5)
for _ in range(4000):
    for node in made:
        node.run()
over = True
thread.join()
"""
    )
    found = passes(trial)
    assert [found[f"backward of {i}"] for i in range(5)] == [4000] * 5
    assert [found[f"backward of {i} > MulBackward0"] for i in range(5)] == [4000] * 5


@pytest.mark.slow
def test_long_passes_look_at_no_memory_without_the_gil(run):
    """Windows of memory end at entries; what is done then may call Python."""
    trial = run(
        """
net = Makes(*["MulBackward0"] * 200)
import time, _thread
_thread.start_new_thread(lambda: [len(bytearray(1 << 20)) for _ in range(2000)], ())
end = time.monotonic() + 0.5
passes = 0
while time.monotonic() < end:
    net()
    backward()
    passes += 1
print(passes)
"""
    )
    assert sum(passes(trial).values()) == 201 * int(trial.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["throws", "deep", "unknown thread", "forgotten", "anew"])
def test_odd_nodes_break_nothing(run, what):
    programs = {
        "throws": ("backward(lambda: 1 / 0)", {"backward of 0": 1}),
        "deep": (
            """
node = made[0]
depth = 0
def deeper():
    global depth
    depth += 1
    if depth < 100:
        node.run(deeper)
sys.setrecursionlimit(5000)
node.run(deeper)
""",
            None,
        ),
        "unknown thread": ("made[0].thread = 99; backward()", {}),
        "forgotten": ("for _ in range(140_000): net()\nmade[0].run()", {}),
        "anew": (
            "import torch\nfor _ in range(9): net()\ntorch._C.played_number(0); made.clear()\n"
            "net()\nbackward()",
            {"backward of 0": 1},
        ),
    }
    program, wanted = programs[what]
    trial = run("net = Sequential(Makes('MulBackward0'))\nnet()\n" + program + "\nprint('over')")
    assert trial.stdout == "over\n"
    found = passes(trial)
    if wanted is not None:
        assert {name: n for name, n in found.items() if ">" not in name and "of" in name} == wanted
        assert found
    if what == "forgotten":
        assert trial.metadata()["Autograd Nodes"] == "1 numbered, 0 of a layer, 1 too old to tell"


@pytest.mark.slow
def test_groups_depth_and_limits(run):
    source = """
net = Sequential(Makes("MulBackward0"))
net()
backward()
"""
    assert passes(run(source, "--depth", "3")) == {}
    assert passes(run(source, "--cpu-time"))["backward of 0 > MulBackward0"] == 1
    off = run(source, "--no-autograd")
    assert passes(off) == {}
    assert "taupy.autograd" not in off.metadata()
    assert passes(run(source, "--no-layers")) == {}
    assert passes(run(source, engine="python")) == {}


@pytest.mark.slow
def test_beyond_the_limit_of_call_paths_known_nodes_are_still_counted(run):
    trial = run(
        """
net = Sequential(Makes("MulBackward0"))
net()
backward()
for number in range(1000):
    exec(f"def made_{number}(): pass\\nmade_{number}()")
net()
made.append(Node("ExpBackward0"))
backward()
""",
        "--max-callpaths",
        "500",
    )
    assert passes(trial) == {"backward of 0": 2, "backward of 0 > MulBackward0": 2}
    assert "call paths" in trial.metadata()["taupy.health.callpaths"]


@pytest.mark.slow
def test_a_child_process_has_its_own_passes(run):
    trial = run(
        """
net = Sequential(Makes("MulBackward0"))
net()
if os.fork() == 0:
    backward()
    os._exit(0)
os.wait()
backward()
backward()
"""
    )
    assert passes(trial)["backward of 0 > MulBackward0"] == 2


PROGRAM = "net = Sequential(Makes('MulBackward0'))\nnet()\nbackward()"


def kept_files(runner) -> list[Path]:
    state = Path(runner.environment["TAUPY_STATE_DIR"])
    return sorted(state.glob("autograd-*"))


@pytest.mark.slow
def test_setup_builds_a_library_once_and_keeps_it_in_the_state_folder(run_alone, runner):
    assert "built and tested" in set_up_torch(runner.environment).stdout
    (library,) = kept_files(runner)
    assert re.fullmatch(r"autograd-2\.99\.0-[0-9a-f]{8}\.so", library.name)
    before = library.stat()
    assert before.st_mode & 0o077 == 0
    assert (
        f"{library.name} was there, and passes its test" in set_up_torch(runner.environment).stdout
    )
    assert library.stat().st_mtime_ns == before.st_mtime_ns
    trial = run_alone(PROGRAM)
    assert passes(trial) == {"backward of 0": 1, "backward of 0 > MulBackward0": 1}
    assert trial.metadata()["taupy.autograd"] == "by layer: PyTorch 2.99.0"
    other = library.with_name("other")
    library.rename(other)
    library.symlink_to(other)
    trial = run_alone(PROGRAM)
    assert passes(trial) == {}
    assert "is a symbolic link" in trial.metadata()["taupy.autograd"]


@pytest.mark.slow
def test_a_library_that_was_exchanged_after_the_launch_is_not_loaded(run_alone, runner):
    set_up_torch(runner.environment)
    (library,) = kept_files(runner)
    mark = runner.folder / "mark"
    (runner.folder / "evil.c").write_text(
        "#include <fcntl.h>\n"
        f'__attribute__((constructor)) static void run(void) {{ creat("{mark}", 0600); }}\n'
    )
    exchange = f"""
import subprocess
subprocess.run(["cc", "-shared", "-fPIC", "evil.c", "-o", "evil.so"], check=True)
os.chmod("evil.so", 0o700)
os.rename("evil.so", {str(library)!r})
"""
    trial = run_alone("import os\n" + exchange + PROGRAM)
    assert passes(trial) == {} and not mark.exists()
    note = "its file has changed since the run was launched"
    assert note in trial.metadata()["taupy.health.autograd"]


@pytest.mark.slow
def test_a_library_that_fails_its_test_now_is_built_again(run_alone, runner):
    set_up_torch(runner.environment)
    (library,) = kept_files(runner)
    library.write_bytes(b"")
    assert f"{library.name} built and tested" in set_up_torch(runner.environment).stdout
    assert passes(run_alone(PROGRAM)) != {}


COMPILERS = (
    "c++", "g++", "clang++", "cc", "gcc", "clang", "c99", "icpx", "tcc", "nvcc", "nvc++", "ptxas",
    "cicc", "hipcc", "as", "ld", "ld.lld", "ninja", "make", "cmake",
)  # fmt: skip


@pytest.fixture
def compiled(runner):
    """A file into which compilers write their names: those on PATH, in the current folder, and
    where variables say that one is."""
    mark = runner.folder / "compiled"
    tools = runner.folder / "cuda" / "bin"
    tools.mkdir(parents=True)
    for folder in (tools, runner.folder):
        for name in COMPILERS:
            (folder / name).write_text(f"#!/bin/sh\necho {name} >>{mark}\n")
            (folder / name).chmod(0o755)
    variables = {"CC": "cc", "CXX": "c++", "LD": "ld", "CUDAHOSTCXX": "g++", "NVCC": "nvcc"}
    runner.environment |= {
        **{name: str(tools / value) for name, value in variables.items()},
        **dict.fromkeys(("CUDA_HOME", "CUDA_PATH"), str(tools.parent)),
        "PATH": f".:{tools}::{runner.environment['PATH']}",
    }
    for name in ("gcc", "nvcc"):
        subprocess.run([name], env=runner.environment, cwd=runner.folder, check=True)
    assert mark.read_text() == "gcc\nnvcc\n"
    mark.unlink()
    return mark


@pytest.mark.slow
def test_without_setup_no_compiler_is_started_and_every_answer_names_the_command(
    run_alone, runner, compiled
):
    trial = run_alone(PROGRAM + "\nimport time; time.sleep(0.1)")
    assert not compiled.exists()
    assert {path.groups for path in trial.paths() if "AUTOGRAD" in path.groups} == set()
    assert kept_files(runner) == []
    remark = (
        "shapes, parameters and flop of layers: not recorded, since `taupy setup torch` has "
        "not been run for PyTorch 2.99.0"
    )
    assert f"taupy: note: {remark}" in trial.stderr.splitlines()
    for command in ("layers", "phases"):
        done = subprocess.run(
            [sys.executable, "-m", "taupy", command, "--db", str(trial.database)],
            env=runner.environment, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stdout.splitlines()[-1] == f"note: {remark}"
    # Not in PyTorch's folder: commands find nothing in the current one.
    doctor = subprocess.run(
        [sys.executable, "-m", "taupy", "doctor"],
        env=runner.environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    (line,) = [line for line in doctor.stdout.splitlines() if "PyTorch" in line]
    assert line.startswith("note") and "`taupy setup torch` has not been run" in line
    for command in ("pprof", "report", "roofline", "compare"):
        subprocess.run(
            [sys.executable, "-m", "taupy", command, "--db", str(trial.database)],
            env=runner.environment, cwd=runner.folder, capture_output=True, check=False,
        )  # fmt: skip
    assert not compiled.exists()


@pytest.mark.slow
def test_a_program_without_pytorch_lacks_nothing(runner, torch):
    trial = runner.run("def f(): pass\nf()", "native")
    assert "setup" not in trial.stderr
    assert "taupy.health.torch" not in trial.metadata()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("broken", "why"),
    [
        ("names", "the library failed its test: it heard of"),
        ("headers", "the headers of PyTorch are missing"),
        ("abi", "the ABI of PyTorch's libraries is not known"),
        ("another", "the library does not compile"),
    ],
)
def test_setup_says_what_cannot_be_built_and_runs_without_it(run_alone, runner, torch, broken, why):
    header = torch / "include" / "ATen" / "record_function.h"
    libc10 = torch / "lib" / "libc10.so"
    if broken == "names":
        with (torch / "__init__.py").open("a") as file:
            file.write("\nNAMES['ExpBackward0'] = 'LogBackward0'\n")
    elif broken == "headers":
        header.unlink()
    elif broken == "abi":
        libc10.write_bytes(libc10.read_bytes().replace(b"jRKNSt7__cxx11", b"jRKNSt7__other"))
    else:
        header.write_text(header.read_text().replace("scopes", "of_scopes"))
    done = set_up_torch(runner.environment)
    assert done.returncode == 1
    assert f"taupy: backward passes by layer: not available: {why}" in done.stderr
    assert kept_files(runner) == []
    assert passes(run_alone(PROGRAM)) == {}


def test_setup_without_pytorch_says_which_python_it_looked_at(runner):
    runner.environment["PYTHONPATH"] = str(Path(__file__).parents[2])
    if importlib.util.find_spec("torch") is not None:
        pytest.skip("PyTorch is installed")
    done = set_up_torch(runner.environment)
    assert done.returncode == 2
    assert done.stderr.startswith("taupy: setup: PyTorch is not installed for ")
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
def test_pytorchs_own_nodes(torch_runner):
    trial = torch_runner.run(
        """
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2)
        self.head = nn.Linear(8, 3)
    def forward(self, x):
        x = checkpoint(self.body.layers[0], x, use_reentrant=True)
        x = checkpoint(self.body.layers[1], x, use_reentrant=False)
        return self.head(x)
net = Net()
for _ in range(2):
    x = torch.rand(3, 1, 8, requires_grad=True)
    nn.CrossEntropyLoss()(net(x)[:, 0], torch.zeros(3, dtype=torch.long)).backward()
""",
        "native",
    )
    assert trial.metadata()["taupy.autograd"].startswith("by layer: PyTorch ")
    numbered, owned, old = map(int, re.findall(r"\d+", trial.metadata()["Autograd Nodes"]))
    assert owned >= 0.9 * numbered > 0
    assert old == 0
    found = passes(trial)
    assert found["backward of head > AddmmBackward0"] == 2
    for i in range(2):
        linear = f"backward of body.layers.{i}.linear1 > AddmmBackward0"
        assert sum(count for name, count in found.items() if name.endswith(linear)) == 2
