"""What kinds of files `taupy static` reads, and what it says of those that it cannot."""

from __future__ import annotations

import io
import json
import os
import stat
import subprocess
import tarfile
from pathlib import Path

import pytest

from taupy.cuda import libraries
from taupy.errors import FormatError, TaupyError
from taupy.static import elf, facts, listing, reading, tools
from taupy.static.reading import Request
from taupy.static.tools import ToolError, Tools
from tests.in_process import taupy

KERNELS = Path(__file__).parents[2] / "data/kernels"
NEEDED = pytest.mark.skipif(
    next(libraries.programs("nvdisasm"), None) is None, reason="needs NVIDIA's disassembler"
)


@pytest.fixture(scope="module")
def cubin(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cubin")
    with tarfile.open(KERNELS / "cubins.tar.xz") as archive:
        archive.extract("sm_80.cubin", folder, filter="data")
    return folder / "sm_80.cubin"


def library(folder: Path) -> Path:
    """A shared library with a fatbin in it, as nvcc makes them."""
    (folder / "fat.s").write_text(
        f"""
        .section .nv_fatbin,"a"
        .align 8
data:   .incbin "{KERNELS / "saxpy.fatbin"}"
        .section .nvFatBinSegment,"aw"
        .align 8
        .long 0x466243b1, 1
        .quad data, 0
        .section .note.GNU-stack,""
        """
    )
    file = folder / "libsaxpy.so"
    subprocess.run(["cc", "-shared", "-o", file, folder / "fat.s"], check=True)
    return file


def told(*files, **more):
    return [
        (code.name, code.chip) for code in reading.kernels(list(map(str, files)), Request(**more))
    ]


BOTH = [("saxpy", "8.0"), ("saxpy", "9.0")]


@pytest.mark.slow
@NEEDED
def test_fatbins_libraries_and_folders_are_read(tmp_path):
    assert told(KERNELS / "saxpy.fatbin") == BOTH
    assert told(library(tmp_path)) == BOTH
    (tmp_path / "cache/ab").mkdir(parents=True)
    (tmp_path / "cache/ab/x.fatbin").write_bytes((KERNELS / "saxpy.fatbin").read_bytes())
    (tmp_path / "cache/ab/x.json").write_text("{}")
    launcher = ["cc", "-shared", "-xc", "/dev/null", "-o", tmp_path / "cache/ab/launcher.so"]
    subprocess.run(launcher, check=True)
    assert told(tmp_path / "cache") == BOTH
    assert told(tmp_path / "cache", chips=["9.0"]) == BOTH[1:]


@pytest.mark.slow
@NEEDED
def test_a_cubin_on_which_the_tool_crashes_is_named_and_the_others_are_read(tmp_path):
    whole = tools.find()
    fragile = tmp_path / "nvdisasm"
    fragile.write_text(
        f'#!/bin/sh\ncase "$*" in *sm_90*) kill -SEGV $$;; esac\nexec {whole.nvdisasm} "$@"\n'
    )
    fragile.chmod(0o700)
    request = Request()
    given = [str(KERNELS / "saxpy.fatbin")]
    codes = reading.kernels(given, request, Tools(fragile, whole.cuobjdump, whole.ptxas))
    assert [(code.name, code.chip) for code in codes] == BOTH[:1]
    (remark,) = request.remarks
    assert remark.startswith("omitted: ") and "saxpy.fatbin" in remark and "SIGSEGV" in remark
    request = Request(chips=["9.0"])
    with pytest.raises(FormatError, match="SIGSEGV"):
        list(reading.kernels(given, request, Tools(fragile, whole.cuobjdump, whole.ptxas)))


@pytest.mark.slow
@NEEDED
def test_a_damaged_file_of_a_folder_is_named_and_the_others_are_read(cubin, tmp_path):
    whole, short = tmp_path / "b.cubin", tmp_path / "a.cubin"
    whole.write_bytes(cubin.read_bytes())
    short.write_bytes(cubin.read_bytes()[:5000])
    request = Request()
    assert [*reading.kernels([str(tmp_path)], request)] == [
        *reading.kernels([str(whole)], Request())
    ]
    (remark,) = request.remarks
    assert remark.startswith(f"omitted: {short} is damaged or truncated")
    whole.unlink()
    with pytest.raises(FormatError, match=r"a\.cubin is damaged"):
        told(tmp_path)


@pytest.mark.slow
@NEEDED
def test_ptx_is_assembled_where_ptxas_is_at_hand(tmp_path):
    ptx = tmp_path / "x.ptx"
    ptx.write_text(".version 8.0\n.target sm_80\n.visible .entry f() { ret; }\n")
    if next(libraries.programs("ptxas"), None) is None:
        with pytest.raises(FormatError, match="PTX, which ptxas makes code of; there is none"):
            told(ptx)
    else:
        assert told(ptx) == [("f", "8.0")]


def test_a_library_that_holds_ptx_only_is_assembled(tmp_path, cubin):
    calls = tmp_path / "calls"
    taking = f'echo "$1" >> {calls}; case $1 in -xptx) echo .target sm_80 > k.1.sm_80.ptx;; esac'
    known = Tools(
        tool(tmp_path, "nvdisasm", "echo \"'SM80'\""),
        tool(tmp_path, "cuobjdump", taking),
        tool(tmp_path, "ptxas", f'test "$1" = -arch=sm_80 && cp {cubin} "$3"'),
    )
    with reading._cubins(KERNELS / "saxpy.fatbin", known) as cubins:
        assert [file.read_bytes() for file in cubins] == [cubin.read_bytes()]
    assert calls.read_text().split() == ["-xelf", "-xptx"]
    without = Tools(known.nvdisasm, known.cuobjdump, None)
    with (
        pytest.raises(
            FormatError, match=r"k\.1\.sm_80\.ptx of .*saxpy\.fatbin is PTX.*there is none"
        ),
        reading._cubins(KERNELS / "saxpy.fatbin", without),
    ):
        pass


@NEEDED
@pytest.mark.parametrize("cut", [20, 64, 100, 5000, 100_000])
def test_a_truncated_cubin_is_one_line(cubin, tmp_path, cut):
    short = tmp_path / "short.cubin"
    short.write_bytes(cubin.read_bytes()[:cut])
    with pytest.raises(FormatError, match=r"short\.cubin is damaged or truncated"):
        told(short)


@NEEDED
@pytest.mark.parametrize("missing", [1, 100, 200])
def test_a_cubin_without_its_last_bytes_is_one_line_in_a_folder_too(cubin, tmp_path, missing):
    short = tmp_path / "short.cubin"
    short.write_bytes(cubin.read_bytes()[:-missing])
    with pytest.raises(FormatError, match=r"short\.cubin is damaged or truncated"):
        told(tmp_path)


@NEEDED
def test_files_without_gpu_code_are_one_line_each(tmp_path):
    (tmp_path / "a.txt").write_text("hello")
    with pytest.raises(FormatError, match="is not a cubin, fatbin, library, program or PTX file"):
        told(tmp_path / "a.txt")
    with pytest.raises(FormatError, match="contains no GPU code"):
        told("/bin/sh")
    with pytest.raises(FormatError, match="there is no file"):
        told(tmp_path / "nothing")
    with pytest.raises(FormatError, match="holds no GPU kernel"):
        told(tmp_path)
    (tmp_path / "cut.fatbin").write_bytes((KERNELS / "saxpy.fatbin").read_bytes()[:300])
    with pytest.raises(FormatError, match=r"cut\.fatbin: cuobjdump cannot read it: Invalid"):
        told(tmp_path / "cut.fatbin")


def test_a_chip_is_recognised_by_old_and_new_flags(cubin):
    assert elf.read(cubin).chip == "8.0"
    assert elf._chip(7, 0x500550) == "8.0"
    assert elf._chip(8, 0x6007802) == "12.0"


def test_a_cubin_without_names_says_so(cubin, tmp_path):
    data = bytearray(cubin.read_bytes())
    start, count = int.from_bytes(data[40:48], "little"), int.from_bytes(data[60:62], "little")
    for at in range(start, start + 64 * count, 64):
        if data[at + 4] == 2:  # the table of symbols
            data[at + 4] = 1
    stripped = tmp_path / "stripped.cubin"
    stripped.write_bytes(data)
    with pytest.raises(FormatError, match="its names were stripped"):
        elf.read(stripped)


@pytest.mark.parametrize("number", [1 << 40, (1 << 64) - 1])
def test_places_and_sizes_beyond_the_file_are_one_line(cubin, tmp_path, number):
    """Also of a section that has nothing in the file, whose size means nothing."""
    data, wrong = cubin.read_bytes(), tmp_path / "wrong.cubin"
    start, count = int.from_bytes(data[40:48], "little"), int.from_bytes(data[60:62], "little")
    headers = range(start, start + 64 * count, 64 * 4)
    refused = 0
    for at in (32, 40, *(header + field for header in headers for field in (24, 32))):
        for kind in (None, 8) if at > 40 else (None,):
            changed = bytearray(data)
            changed[at : at + 8] = number.to_bytes(8, "little")
            if kind is not None:
                header = at - (at - start) % 64
                changed[header + 4 : header + 8] = kind.to_bytes(4, "little")
            wrong.write_bytes(changed)
            try:
                elf.read(wrong)
            except FormatError as problem:
                refused += "damaged or truncated" in str(problem)
    assert refused > count / 4


def test_without_the_tools_one_line_says_how_to_get_them(monkeypatch, cubin):
    monkeypatch.setattr(libraries, "programs", lambda name: iter(()))
    with pytest.raises(TaupyError, match=r"there is no nvdisasm .* pip install 'taupy-profiler"):
        told(cubin)
    result = taupy("static", cubin)
    assert result.returncode == 1 and result.stderr.count("\n") == 1 and not result.stdout


# --- tools that misbehave -----------------------------------------------------------------------


def tool(folder: Path, name: str, script: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def pretended(folder: Path, listed: str, chips: str = "'SM80'") -> Tools:
    usage = "echo ' Function saxpy:'; echo '  REG:10 STACK:0 SHARED:0 LOCAL:0 CONSTANT[0]:380'"
    return Tools(
        tool(folder, "nvdisasm", f'case "$*" in *--help) echo "{chips}";; '
             f"*--version) echo V13.2.51;; *-lrm*) exit 1;; *) {listed};; esac"),
        tool(folder, "cuobjdump", usage),
        None,
    )  # fmt: skip


def test_a_chip_newer_than_the_tool_is_one_line(tmp_path, cubin):
    known = pretended(tmp_path, "true", chips="'SM75','SM90a'")
    with pytest.raises(
        FormatError,
        match=r"compute capability 8\.0 cannot be read: nvdisasm 13\.2\.51 knows 7\.5, 9\.0",
    ):
        list(reading.kernels([str(cubin)], Request(), known))


def test_a_tool_that_fails_or_breaks_off_is_one_line(tmp_path, cubin):
    known = pretended(tmp_path, "echo 'nvdisasm fatal   : Out of ideas' >&2; exit 3")
    with pytest.raises(ToolError, match=r"sm_80\.cubin: nvdisasm cannot read it: Out of ideas"):
        list(reading.kernels([str(cubin)], Request(), known))
    known = pretended(tmp_path, "kill -SEGV $$")
    with pytest.raises(ToolError, match=r"nvdisasm cannot read it: it was ended by SIGSEGV"):
        list(reading.kernels([str(cubin)], Request(), known))
    begun = '[{},[{\\"function-name\\":\\"saxpy\\",\\"length\\":16,\\"sass-instr'
    known = pretended(tmp_path, f'printf "%s" "{begun}"')
    with pytest.raises(FormatError, match="breaks off"):
        list(reading.kernels([str(cubin)], Request(), known))


@pytest.mark.parametrize(
    ("printed", "why"),
    [
        ("ptxas x.ptx, line 9; fatal   : Unsupported .version 9.5\nptxas fatal   : Ptx assembly "
         "aborted due to errors", "line 9: Unsupported .version 9.5"),
        ("nvdisasm warning : old\nnvdisasm fatal   : Unknown image", "Unknown image"),
        ("cuobjdump info    : File 'x' does not contain device code",
         "File 'x' does not contain device code"),
        ("Segmentation fault", "Segmentation fault"),
        ("", ""),
    ],
)  # fmt: skip
def test_the_first_error_is_the_reason(printed, why):
    assert tools._why(printed.encode()) == why


def test_a_tool_that_never_ends_is_ended(tmp_path):
    slow = tool(tmp_path, "nvdisasm", "exec sleep 600")
    with (
        pytest.raises(ToolError, match="nvdisasm cannot read it: took longer than 1 s"),
        tools.Run([str(slow)], Path("x.cubin"), seconds=1) as run,
    ):
        run.output()


@NEEDED
def test_a_damaged_cubin_of_a_library_is_named_by_the_library(tmp_path):
    fatbin = bytearray((KERNELS / "saxpy.fatbin").read_bytes())
    second = fatbin.rindex(b"\x7fELF")
    fatbin[second + 40] ^= 0xFF  # its table of sections is elsewhere
    damaged = tmp_path / "lib.fatbin"
    damaged.write_bytes(fatbin)
    failed = taupy("static", damaged)
    assert failed.returncode == 1 and failed.stderr.count("\n") == 1
    assert str(damaged) in failed.stderr and "taupy-static-" not in failed.stderr


@pytest.mark.slow
@NEEDED
def test_progress_ends_at_the_size_of_the_files(tmp_path):
    (tmp_path / "a.fatbin").write_bytes((KERNELS / "saxpy.fatbin").read_bytes())
    (tmp_path / "b.fatbin").write_bytes((KERNELS / "saxpy.fatbin").read_bytes())
    steps = []
    told(tmp_path, advance=steps.append)
    assert (
        sum(steps) == pytest.approx(reading.size([str(tmp_path)]), rel=0.01)
        and sum(map(bool, steps)) == 4
    )
    steps.clear()
    told(tmp_path, advance=steps.append, chips=["9.0"])  # what is passed over counts as done
    assert sum(steps) == pytest.approx(reading.size([str(tmp_path)]), rel=0.01)


def test_one_part_is_listed_while_another_is_read():
    events = []

    class Part:
        def __init__(self, name):
            self.name = name
            events.append(f"begin {name}")

        def close(self):
            events.append(f"close {self.name}")

    begun = (reading._Begun(Part(name), None, 0) for name in "abc")
    for one in reading._started_ahead(begun):
        events.append(f"read {one.part.name}")
    assert events == ["begin a", "begin b", "read a", "close a", "begin c", "read b", "close b",
                      "read c", "close c"]  # fmt: skip
    events.clear()
    stopped = reading._started_ahead(reading._Begun(Part(name), None, 0) for name in "abc")
    next(stopped)
    stopped.close()
    assert events == ["begin a", "begin b", "close a", "close b"]


def test_a_tool_that_prints_without_end_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(tools, "PRINTED", 3 << 20)
    endless = tool(tmp_path, "nvdisasm", "exec yes")
    with (
        pytest.raises(ToolError, match="nvdisasm cannot read it: prints more than 3 MiB"),
        tools.Run([str(endless)], Path("x.cubin")) as run,
    ):
        run.output()


def test_what_the_tool_does_not_know_leaves_the_rest():
    told_of = facts.resources(
        "Function fib:\n REG:24 STACK:UNKNOWN SHARED:1024 LOCAL:0 CONSTANT[0]:536 TEXTURE:0\n"
    )
    assert told_of == {"fib": facts.Resources(24, None, 1024, 0, ((0, 536),))}


# --- the listing ----------------------------------------------------------------------------------


def listed(number: int) -> bytes:
    functions = [
        {"function-name": f"k{at}", "start": 0, "length": 32, "sass-instructions": [
            {"predicate": "@!P0", "opcode": "LDG.E.64", "operands": "R2,[R4.64+0x10]"},
            {"opcode": "BRA", "operands": "0x10", "other-attributes": {"control-flow": "True"}}]}
        for at in range(number)
    ]  # fmt: skip
    return json.dumps([{"SM": {}}, functions], separators=(",", ":")).encode()


def test_functions_come_one_by_one_however_the_text_is_cut():
    told_before = listing.Listed()
    whole = list(listing.functions(io.BytesIO(listed(3)), told_before))
    assert [one.name for one in whole] == ["k0", "k1", "k2"]
    first = whole[0].instructions[0]
    assert (first.name, first.modifiers, first.predicate) == ("LDG", ("E", "64"), "!P0")
    assert first.arguments == ("R2", "[R4.64+0x10]")

    class Slow(io.BytesIO):
        def read(self, size=-1):
            return super().read(7)

    assert list(listing.functions(Slow(listed(3)), listing.Listed())) == whole


@pytest.mark.slow
def test_many_kernels_need_the_memory_of_one():
    import tracemalloc

    class Endless(io.RawIOBase):
        """The listing of so many functions, made as it is read."""

        def __init__(self, number):
            self.left = number
            self.text = b'[{"SM":{}},['

        def read(self, size=-1):
            while self.left and len(self.text) < size:
                one = listed(1)[len(b'[{"SM":{}},[') : -2]
                self.text += one + (b"," if self.left > 1 else b"]]")
                self.left -= 1
            given, self.text = self.text[:size], self.text[size:]
            return given

    tracemalloc.start()
    count = sum(1 for _ in listing.functions(Endless(10_000), listing.Listed()))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 10_000
    assert peak < 16 << 20


# --- the command ----------------------------------------------------------------------------------


@pytest.mark.slow
@NEEDED
def test_the_command_shows_a_kernel_from_all_sides():
    shown = taupy("static", KERNELS / "saxpy.fatbin", "--kernel", "saxpy", "--chip", "sm_90",
                  "--gpu", "H100 SXM5", "--threads", 1_000_000)  # fmt: skip
    assert shown.returncode == 0, shown.stderr
    for part in ("INSTRUCTION MIX of saxpy on 9.0", "MEMORY:", "CONTROL FLOW:", "OCCUPANCY:",
                 "ESTIMATED TIME BOUND on H100 SXM5", "an estimate from the code"):  # fmt: skip
        assert part in shown.stdout
    # 12 bytes a thread: x and y are read, y is written. 12e6 / 3352e9 s = 3.58 us.
    assert "dram, if nothing is cached  3.58 us" in shown.stdout


@pytest.mark.slow
@NEEDED
def test_the_command_writes_csv_and_json():
    shown = taupy("static", KERNELS / "saxpy.fatbin", "--json")
    (view,) = json.loads(shown.stdout)
    assert [(row["name"], row["chip"], row["fp32"], row["load"]) for row in view["rows"]] == [
        ("saxpy", "8.0", 1, 3),
        ("saxpy", "9.0", 1, view["rows"][1]["load"]),
    ]
    assert taupy("static", KERNELS / "saxpy.fatbin", "--csv").stdout.count("\n") == 3


@NEEDED
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--gpu", "H100"], "--gpu needs --kernel NAME and --threads N"),
        (
            ["--gpu", "Z80", "--kernel", "saxpy", "--threads", "5"],
            "there is no datasheet for 'Z80'",
        ),
        (["--chip", "Z80"], "there is no chip 'Z80'"),
        (["--chip", "7.5"], "holds no GPU kernel for 7.5"),
        (["--kernel", "none"], "holds no GPU kernel of that name"),
        (["--trips", "a"], "'a' is not a list of numbers such as 100,8"),
    ],
)
def test_wrong_questions_are_one_line(arguments, says):
    shown = taupy("static", KERNELS / "saxpy.fatbin", *arguments)
    assert shown.returncode in (1, 2) and says in shown.stderr
    assert not shown.stdout and os.linesep not in shown.stderr.rstrip()
