"""What people write after `taupy run`, and what is run or said then."""

import io
import os
import sys
import zipfile

import pytest

from taupy.commands import run_target
from taupy.errors import UsageError


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("raise RuntimeError('was imported')")
    (tmp_path / "package" / "__main__.py").touch()
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "__init__.py").touch()
    (tmp_path / "library" / "part.py").touch()
    return tmp_path


@pytest.fixture
def commands(folder, monkeypatch):
    """A folder on PATH, and how to put a command there."""
    (folder / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{folder / 'bin'}:{os.environ['PATH']}")

    def add(name, text):
        path = folder / "bin" / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        path.chmod(0o755)
        return str(path)

    return add


def zipped(name, text):
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr(name, text)
    return archive.getvalue()


def understood(*words):
    target = run_target.resolve([*words])
    return target.options, target.words, bool(target.reading)


def refused(*words):
    with pytest.raises(UsageError) as problem:
        run_target.resolve([*words])
    return str(problem.value)


@pytest.mark.parametrize(
    ("words", "options", "target", "is_said"),
    [
        (["train.py", "--db", "x"], [], ["train.py", "--db", "x"], False),
        (["-m", "pkg", "x"], [], ["-m", "pkg", "x"], False),
        (["-c", "pass"], [], ["-c", "pass"], False),
        (["-"], [], ["-"], False),
        (["package"], [], ["package"], False),
        ([sys.executable, "train.py", "-O"], [], ["train.py", "-O"], False),
        ([sys.executable, "-u", "-Xdev", "train.py"], ["-u", "-Xdev"], ["train.py"], False),
        ([sys.executable, "-OO", "-m", "pkg"], ["-OO"], ["-m", "pkg"], False),
        (["json.tool", "x.json"], [], ["-m", "json.tool", "x.json"], True),
        (["train", "x"], [], ["-m", "train", "x"], True),
        (["library.part"], [], ["-m", "library.part"], True),
    ],
)
def test_what_is_clear_is_run(words, options, target, is_said):
    assert understood(*words) == (options, target, is_said)


def test_a_command_of_this_interpreter_is_its_script(commands):
    for name, head in {
        "plain": f"#!{sys.executable}\n",
        "found": "#!/usr/bin/env python3\n",
        "long": f"#!/bin/sh\n'''exec' \"{sys.executable}\" \"$0\" \"$@\"\n' '''\n",
    }.items():
        path = commands(name, f"{head}import sys\n")
        assert understood(name, "-x") == ([], [path, "-x"], True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"\x7fELF\x02\x01", "`tool ... taupy run script.py`"),
        ("#!/bin/bash\npython train.py\n", "write `taupy run script.py` instead of"),
        ("#!/usr/bin/env -S perl -w\nmy $x = 1;\n", "a program for perl"),
        ("#!/elsewhere/bin/python3\n", "install both in one environment"),
    ],
)
def test_a_command_that_is_no_program_of_this_interpreter_is_refused(commands, text, said):
    commands("tool", text)
    assert said in refused("tool", "x")


def test_another_python_is_refused_by_its_path(commands):
    path = commands("python3.99", "#!/bin/sh\n")
    assert f"python3.99 is {os.path.realpath(path)}, and this taupy belongs to" in refused(
        "python3.99", "train.py"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["trian.py"], "did you mean train.py?"),
        (["package/trian.py"], "there is no package/trian.py; write a script"),
        (["part.py"], "did you mean library/part.py?"),
        (["none/train.py"], "there is no none/train.py, nor its folder"),
        (["nothing_of_this_name"], "nor a command or module of that name"),
        (["library"], "library is a folder without __main__.py: name a script, such as library/"),
        (["library.nothing"], "nor a command or module of that name"),
        (["-m"], "-m needs a module"),
        ([sys.executable, "-O"], "write the script behind"),
        ([sys.executable], "write the script behind"),
    ],
)
def test_what_is_not_there_is_said_in_one_line(words, said):
    message = refused(*words)
    assert said in message and "\n" not in message


def test_a_command_of_nearly_that_name_is_named(commands, monkeypatch):
    monkeypatch.setattr(sys, "executable", commands("python3", "#!/bin/sh\n"))
    commands("serve_app", "#!/bin/sh\n")
    assert "did you mean serve_app?" in refused("serve-app")
    assert "serve_app" not in refused("serve-app.py")


def test_a_link_to_nothing_is_named(folder):
    (folder / "link.py").symlink_to("nowhere.py")
    assert refused("link.py") == "link.py is a link to nowhere.py, and that is not there"


def test_files_that_are_no_programs_are_refused(folder):
    (folder / "job.sh").write_text("python train.py\n")
    (folder / "job").write_text("#!/usr/bin/env bash\npython train.py\n")
    (folder / "look.ipynb").write_text("{}")
    assert "job.sh is a shell script" in refused("job.sh")
    assert "./job is a shell script" in refused("./job")
    assert "jupyter nbconvert --to script look.ipynb" in refused("look.ipynb")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("tool.py", b"#!/usr/bin/env -S uv run --script\nprint(1)\n"),
        ("both.py", b"#!/bin/sh\n'''exec' python3 \"$0\" \"$@\"\n'''\nprint(1)\n"),
        ("tool", b"#!/usr/bin/env -S uv run --script\nprint(1)\n"),
        ("app", b"#!/nopython\n" + zipped("__main__.py", "print(1)\n")),
    ],
)
def test_what_python_would_run_is_run_whatever_its_first_line_names(folder, name, text):
    (folder / name).write_bytes(text)
    assert understood(f"./{name}") == ([], [f"./{name}"], False)


def test_a_program_of_another_language_is_refused(folder):
    (folder / "tool").write_text("#!/usr/bin/env perl\nmy $x = 1;\n")
    assert "tool is a program for perl, which taupy does not measure" in refused("./tool")


def test_files_of_an_installed_commands_user_are_named_from_the_current_folder(
    tmp_path, monkeypatch
):
    """Not by their whole path, since the command lies elsewhere."""
    from taupy.commands.run import _names

    monkeypatch.chdir(tmp_path)
    beside = os.path.dirname(os.path.abspath(sys.executable))
    assert _names([f"{beside}/pytest", "-q"]) == ("pytest", str(tmp_path))
    assert _names(["scripts/x.py"]) == ("x", str(tmp_path / "scripts"))
    assert _names([f"{beside}/torchrun", "scripts/x.py"]) == ("x", str(tmp_path / "scripts"))
