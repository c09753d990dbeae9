"""Which format a file is in, and what the list of formats promises."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from taupy.errors import FormatError, UsageError
from taupy.formats import reading, registry
from taupy.model.progress import SILENT
from tests.builders import deep_profile, gpu_profile, small_profile


def test_names_are_unique_and_every_format_does_something():
    names = [format.name for format in registry.formats()]
    assert len(set(names)) == len(names)
    assert all(format.read or format.write for format in registry.formats())


def test_what_is_written_is_recognised_as_that_format(tmp_path):
    both = [format for format in registry.formats() if format.read and format.write]
    assert {"tau", "speedscope", "collapsed", "pstats"} <= {one.name for one in both}
    for format in both:
        for number, profile in enumerate([small_profile(), gpu_profile()]):
            target = tmp_path / f"{format.name}-{number}{(format.suffixes or ('',))[0]}"
            format.write(profile, target, SILENT)
            assert registry.recognised(target).name == format.name


def test_a_deep_tree_can_be_written_in_every_format(tmp_path):
    """Deeper than Python's stack, so that nothing may walk it by recursion."""
    deep = deep_profile(1200)
    for format in registry.formats():
        if format.write:
            format.write(deep, tmp_path / format.name, SILENT)
            assert (tmp_path / format.name).exists()


@pytest.mark.parametrize("name", ["collapsed", "speedscope"])
def test_a_tree_whose_stacks_would_fill_a_disk_is_refused(tmp_path, name):
    target = tmp_path / "x"
    with pytest.raises(FormatError, match=r"20000 .* take 200010000 frames"):
        registry.writer(name).write(deep_profile(20_000), target, SILENT)
    assert not target.exists()


def test_packed_files_are_recognised_by_what_is_in_them(tmp_path):
    file = tmp_path / "x.gz"
    file.write_bytes(gzip.compress(b"main;f 1\nmain;g 2\n", mtime=0))
    assert registry.recognised(file).name == "collapsed"


@pytest.mark.parametrize(
    "content",
    [b"hello\n", b"\0" * 100, b"{", b"\x1f", gzip.compress(b"hello\n", mtime=0), b"PK\x03\x04"],
)
def test_unknown_files_are_refused_with_the_list_of_formats(tmp_path, content):
    file = tmp_path / "unknown"
    file.write_bytes(content)
    with pytest.raises(FormatError, match=r"tau, tau-xml.*--format NAME"):
        registry.recognised(file)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the file is empty"),
        *((gzip.compress(b"main;f 1\n" * 99, mtime=0)[:size],
           f"at byte {size}: the file is truncated") for size in (2, 9, 10, 17)),
        (b"\x1f\x8b" + b"\xff" * 99, "damaged gzip data"),
    ],
)  # fmt: skip
def test_a_file_cut_off_before_it_can_be_recognised_is_reported_as_cut_off(tmp_path, content, said):
    file = tmp_path / "trace.json.gz"
    file.write_bytes(content)
    with pytest.raises(FormatError) as refusal:
        registry.recognised(file)
    assert str(refusal.value).startswith(f"{file}: ") and said in str(refusal.value)


@pytest.mark.parametrize("name", ["chrome", "speedscope"])
def test_a_file_of_ours_says_which_application_it_is_of(tmp_path, name):
    profile = gpu_profile()
    profile.application, profile.metadata["CPU Cores"] = "deep/learning", "12"
    format = registry.reader(name)
    target = tmp_path / f"other{format.suffixes[0]}"
    format.write(profile, target, SILENT)
    (back,) = format.read(target, SILENT)
    assert back.application == "deep/learning"
    if name == "chrome":
        assert back.metadata["CPU Cores"] == "12"
    target.write_text(target.read_text().replace("taupy", "others").replace('"uuid"', '"id"'))
    (back,) = format.read(target, SILENT)
    assert back.application == "other"


def test_only_files_and_folders_are_looked_at(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FormatError, match="neither a file nor a folder"):
        registry.recognised(tmp_path / "pipe")
    with pytest.raises(FormatError, match="neither a file nor a folder"):
        registry.recognised(Path("/dev/zero"))
    with pytest.raises(FormatError, match="does not exist"):
        registry.recognised(tmp_path / "missing")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", "git lfs pull"),
        (b"PERFILE2\0\0", "perf script -i 'a b.xml'"),
    ],
)
def test_what_is_often_tried_is_refused_with_what_to_do(tmp_path, content, words):
    file = tmp_path / "a b.xml"
    file.write_bytes(content)
    with pytest.raises(FormatError, match=r"a b\.xml: ") as refused:
        registry.recognised(file)
    assert words in str(refused.value) and "\n" not in str(refused.value)


def test_comments_in_collapsed_stacks_are_no_stacks(tmp_path):
    file = tmp_path / "stacks.txt"
    file.write_text("# made by a tool\nmain;f 3\n# its end\nmain 1\n")
    assert registry.recognised(file).name == "collapsed"


def test_the_suffix_of_a_target_says_its_format():
    expected = {
        "a.collapsed": "collapsed",
        "a.csv": "csv",
        "a.callpaths.csv": "csv-callpaths",
        "a.events.parquet": "parquet-events",
        "A.SPEEDSCOPE.JSON": "speedscope",
        "a.prof": "pstats",
    }
    assert {name: registry.writer_for(Path(name)).name for name in expected} == expected
    for name in ("a", "a.json", "a.txt", ".csv.d/x"):
        with pytest.raises(UsageError, match="--format"):
            registry.writer_for(Path(name))


def test_names_of_formats_are_known_or_listed():
    assert registry.reader("tau").name == registry.writer("tau").name == "tau"
    with pytest.raises(UsageError, match="not a format that can be read; use one of tau"):
        registry.reader("csv")
    with pytest.raises(UsageError, match="not a format that can be written"):
        registry.writer("tau-sqlite")


def test_lines_of_packed_and_plain_files_are_the_same(tmp_path):
    plain, packed = tmp_path / "a", tmp_path / "b"
    plain.write_bytes(b"one\r\ntwo\n\nlast")
    packed.write_bytes(gzip.compress(plain.read_bytes(), mtime=0))
    for file in (plain, packed):
        assert list(reading.lines(file, SILENT)) == [b"one", b"two", b"", b"last"]
    packed.write_bytes(packed.read_bytes()[:-12])
    with pytest.raises(FormatError, match="gzip data ends early, at byte"):
        list(reading.lines(packed, SILENT))


def test_progress_hears_of_every_byte(tmp_path):
    heard = []

    class Ear:
        def begin(self, what, total=None, unit=""):
            heard.append((what, total))

        def advance(self, amount=1):
            heard.append(amount)

    file = tmp_path / "x"
    file.write_bytes(b"line\n" * 1000)
    list(reading.lines(file, Ear()))
    assert heard[0] == ("x", 5000)
    assert sum(heard[1:]) == 5000


def test_what_taupy_no_longer_writes_or_reads_names_what_does_it_now(tmp_path):
    for name, instead in (("json", "taupy merge"), ("tau-packed", "--format tau")):
        with pytest.raises(UsageError, match=f"not a format that can be written.*{instead}"):
            registry.writer(name)
    (tmp_path / "x").write_bytes(b'{"taupy_profile": 1, "uuid": "u"}')
    with pytest.raises(FormatError, match="taupy merge FILE"):
        registry.recognised(tmp_path / "x")
