"""What `taupy` says to a command line that begins with no command."""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

from taupy.commands import COMMANDS, command_parser, main, parsers, run, run_arguments, running
from taupy.profiledb.database import ProfileDB
from taupy.profiledb.writer import add_profile
from tests.builders import small_profile


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            ["--db", "x y.db", "pprof", "2", "--json"],
            "options go after the command: taupy pprof --db 'x y.db' 2 --json",
        ),
        (["--quiet", "run", "prog.py", "-v"], "taupy run --quiet prog.py -v"),
        (["--db", "x.db"], "no global option '--db': write taupy COMMAND --db"),
        (["pproff"], "there is no command 'pproff': did you mean `taupy pprof`?"),
        (["rooflines", "--json"], "did you mean `taupy roofline`?"),
        (["diff", "1", "2"], "there is no command 'diff': did you mean `taupy compare`?"),
        (["ls"], "there is no command 'ls': did you mean `taupy trials`?"),
        (["stat", "1"], "there is no command 'stat': did you mean `taupy report`?"),
        (["1", "report", "-v"], "the command goes first: taupy report 1 -v"),
        (["latest"], "the command goes first: taupy report latest"),
        (["--report", "1"], "no global option '--report': write taupy report 1;"),
        (["-v"], "no global option '-v': write taupy -V;"),
        (["zzz"], "there is no command 'zzz': `taupy --help` lists the commands"),
        (["\x1b[2J"], "there is no command '\\x1b[2J'"),
    ],
)
def test_a_line_that_begins_with_no_command_is_refused_in_one_line(capsys, line, said):
    assert main(line) == 2
    answer = capsys.readouterr()
    assert said in answer.err
    assert answer.err.startswith("taupy: ") and answer.err.count("\n") == 1
    assert answer.out == ""


def test_a_file_without_a_command_gets_a_hint_how_to_run_it(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a_program").touch()
    assert main(["a_program", "--epochs", "3"]) == 2
    assert "write taupy run a_program --epochs 3\n" in capsys.readouterr().err


def test_an_option_that_has_taken_the_script_is_said_to_lack_a_value(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run, "_has_input", bool)
    (tmp_path / "prog.py").touch()
    said = "taupy: nothing to run: an option has taken prog.py for its value, which it lacks\n"
    for option in ("--trial", "--metrics"):
        assert main(["run", option, "prog.py"]) == 2
        assert capsys.readouterr().err == said


@pytest.mark.parametrize(
    ("words", "reading"),
    [
        (["prog.py"], "prog.py is a script: running it, as `taupy run prog.py` does"),
        ([sys.executable, "prog.py"], f"running it, as `taupy run {sys.executable}` does"),
        (["-m", "prog"], "-m begins a program: running it, as `taupy run -m prog` does"),
    ],
)
def test_a_program_without_a_command_is_run(tmp_path, words, reading):
    (tmp_path / "prog.py").write_text("import sys; print(sys.argv[1:])")
    words = [sys.executable, "-m", "taupy", *words, "--epochs", "3"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "['--epochs', '3']\n"
    assert reading in done.stderr.splitlines()[0]
    assert "taupy: trial 1: " in done.stderr


def test_what_is_no_program_gets_the_line_of_run_without_a_command_too(
    capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "look.ipynb").touch()
    assert main(["look.ipynb"]) == 2
    assert "look.ipynb is a notebook: make a script of it" in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
def test_no_help_shows_what_is_hidden(command):
    assert "SUPPRESS" not in command_parser(command).format_help()


def test_a_script_stands_for_its_trials(capsys, tmp_path):
    database = tmp_path / "t.db"
    with ProfileDB.open(database, create=True) as db:
        add_profile(db, small_profile(1))
    assert main(["pprof", "app", "--db", str(database)]) == 0
    expected = capsys.readouterr()
    assert main(["pprof", "src/app.py", "--db", str(database)]) == 0
    assert capsys.readouterr() == expected
    assert main(["pprof", "new.py", "--db", str(database)]) == 1
    assert "has no trial of it; `taupy run new.py` adds one\n" in capsys.readouterr().err
    assert main(["report", "r.html", "--db", str(database)]) == 1
    assert "'r.html' is a page, not a trial: open it in a browser" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["pprof", "--sumary", "mean"], "unknown option --sumary; did you mean --summary?"),
        (["clean", "--al"], "unknown option --al; did you mean --all?"),
        (["pprof", "1", "two words"], "unexpected argument two words"),
        (["report", "-0", "r.html"], "unknown option -0; did you mean -o?"),
        (["report", "-o"], "report: -o needs the name of a page: -o r.html; `taupy report --help`"),
        (["top", "1", "--seconds", "5"], "unknown option --seconds 5; `taupy top --help` lists"),
        (["pprof", "--layers"], "unknown option --layers; did you mean `taupy layers`?"),
        (["top", "x"], "top: argument PID: 'x' is not a number; `taupy top --help`"),
        (["setup"], "setup: what is missing, as in: taupy setup torch; `taupy setup --help`"),
        (["attach"], "attach: PID is missing, as in: taupy attach 4711; `taupy attach --help`"),
        (["lines", "-5"], "unknown option -5; `taupy lines --help` lists the options"),
        (["report", "--html"], "unknown option --html; write -o FILE.html for a page"),
        (["attach", "4711", "--seconds", "5"], "unknown option --seconds 5; write --for 10s"),
        (["run", "--trace-host", "prog.py"], "--trace-host; did you mean --trace=host?"),
        (["run", "--trace-hots", "prog.py"], "--trace-hots; did you mean --trace?"),
        (["trials", "--csv", "--json"], "not allowed with argument"),
        (["compare", "1", "2", "--min-share=x"], "'x' is not a percentage from 0 to 100"),
        (["run", "--depht", "3", "prog.py"], "unknown option --depht"),
        (["run", "-0", "prog.py"], "unknown option -0; `taupy run --help` lists the options"),
        (["run", "--trace=all", "prog.py"], "'all' is not host, gpu or host,gpu"),
    ],
)
def test_wrong_options_are_refused_in_one_line(line, said, capsys):
    assert main(line) == 2
    answer = capsys.readouterr()
    assert said in answer.err and f"`taupy {line[0]} --help`" in answer.err
    assert answer.err.startswith(f"taupy: {line[0]}: ") and answer.err.count("\n") == 1


def test_every_by_takes_layers_phases_ranks_and_steps():
    """Except where it names a parameter; a point of a roofline is no class."""
    lacking = {}
    for name in COMMANDS.keys() - {"sweep"}:
        for option in command_parser(name)._actions:
            if "--by" in option.option_strings and option.choices is not None:
                lacking[name] = {"layer", "layer_type", "phase", "rank", "step"} - {*option.choices}
    assert len(lacking) > 7
    assert {name for name, by in lacking.items() if by} <= {"roofline"}


@pytest.mark.parametrize("command", ["pprof", "trials", "compare"])
def test_behind_two_dashes_a_name_may_begin_with_one(command, capsys, tmp_path):
    trials = ["-c/default/1", "2"] if command == "compare" else ["-c/default/1"]
    assert main([command, "--db", str(tmp_path / "none.db"), "--", *trials]) == 1
    assert "there is no database" in capsys.readouterr().err


def test_help_and_version_stay_what_they_are(capsys):
    for line, part in (
        (["--version"], "taupy "),
        (["-V"], "taupy "),
        (["--help"], "COMMAND"),
        (["-h"], "COMMAND"),
    ):
        with pytest.raises(SystemExit) as end:
            main(line)
        assert end.value.code == 0
        assert part in capsys.readouterr().out


def test_help_of_a_command_is_its_own_help(capsys):
    assert main(["help", "kernel"]) == 0
    shown = capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["kernel", "--help"])
    assert capsys.readouterr().out == shown
    assert "usage: taupy kernel" in shown


def test_the_list_of_commands_fits_a_terminal_and_names_each_once(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 45 and max(map(len, lines)) <= 80
    listed = [name for line in lines if line[9:10].isalpha() for name in [line[9:].split()[0]]]
    assert [name for name in listed if name in COMMANDS] == [*COMMANDS]


@pytest.mark.parametrize("name", sorted(COMMANDS))
@pytest.mark.parametrize("columns", [80, 100])
def test_help_of_each_command_begins_with_what_one_would_type(name, columns, monkeypatch):
    """In as many columns as the terminal has, with nothing left out."""
    monkeypatch.setenv("COLUMNS", str(columns))
    parser = command_parser(name)
    help_ = parser.format_help()
    examples, usage, _ = help_.partition("usage: taupy")
    typed = [line for line in examples.splitlines() if line.startswith(f"    taupy {name}")]
    assert usage and len(typed) >= 2
    assert examples.split() == parser.description.split()
    code = [line for line in parser.description.splitlines() if line.startswith("    ")]
    longest = max(len(re.split(r"(?<=\S)  +", line)[0]) for line in code)
    assert max(map(len, help_.splitlines())) <= max(columns, longest)


def test_taupy_alone_shows_how_to_begin_and_the_latest_trials(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TAUPY_DB", raising=False)
    assert main([]) == 0
    shown = capsys.readouterr().out
    assert "taupy run script.py" in shown and "no trials yet in taupy.db" in shown
    with ProfileDB.open("taupy.db", create=True) as db:
        for number in range(1, 5):
            add_profile(db, small_profile(number))
    assert main([]) == 0
    shown = capsys.readouterr()
    rows = [line.split()[:2] for line in shown.out.splitlines() if line.startswith("  ")]
    assert [row for row in rows if row[0].isdigit()] == [["4", "app"], ["3", "app"], ["2", "app"]]
    assert shown.err == "" and len(shown.out.splitlines()) <= 24
    (tmp_path / "taupy.db").write_bytes(b"no database at all, not even a small one" * 100)
    assert main([]) == 0
    assert "taupy run script.py" in capsys.readouterr().out


def test_help_of_an_unknown_command_suggests_the_nearest(capsys):
    assert main(["help", "pproff"]) == 2
    assert capsys.readouterr().err == (
        "taupy: there is no command 'pproff': did you mean `taupy pprof`?\n"
    )


def test_bash_completes_commands_and_options(capsys, tmp_path):
    assert main(["completion", "bash"]) == 0
    script = tmp_path / "taupy.bash"
    script.write_text(capsys.readouterr().out)

    def completed(*words):
        line = " ".join(words)
        ask = (
            f"source {script}; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; "
            f"_shtab_taupy taupy '{words[-1]}' '{words[-2]}'; echo ${{COMPREPLY[@]}}"
        )
        output = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=True)
        return output.stdout.split()

    assert completed("taupy", "pp") == ["pprof"]
    assert completed("taupy", "pprof", "--so") == ["--sort"]
    assert completed("taupy", "completion", "t") == ["tcsh", "trials"]
    assert completed("taupy", "help", "roof") == ["roofline"]


def test_a_run_under_way_is_called_by_the_number_that_it_will_have(tmp_path):
    settings = SimpleNamespace(trial=None, application="app", experiment="default")
    run, database = SimpleNamespace(settings=settings), tmp_path / "t.db"
    assert running._names(run, str(database)) == ["running", "1"]
    with ProfileDB.open(database, create=True) as db:
        for number, name in enumerate([None, "1@mid", None, "named"]):
            add_profile(db, small_profile(number, name=name))
    assert running._names(run, str(database)) == ["running", "3"]
    settings.application = "another"
    assert running._names(run, str(database)) == ["running", "1"]
    settings.application, settings.trial = "app", "named"  # that is the stored one
    assert running._names(run, str(database)) == ["running"]
    settings.trial = "other"
    assert running._names(run, str(database)) == ["running", "other"]


def test_trials_are_completed_but_no_name_that_a_shell_would_expand(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("TAUPY_DB", str(tmp_path / "t.db"))
    with ProfileDB.open(tmp_path / "t.db", create=True) as db:
        add_profile(db, small_profile(1))
        add_profile(db, small_profile(2, name="$(touch x) y"))
    assert main(["completion", "trials"]) == 0
    assert capsys.readouterr().out.split() == ["latest", "2", "1", "app/default/1"]
    for shell in ("bash", "zsh", "fish", "tcsh"):
        assert main(["completion", shell]) == 0
        assert "taupy completion trials" in capsys.readouterr().out


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_loads_the_script_as_a_completion_function(capsys, tmp_path):
    assert main(["completion", "zsh"]) == 0
    (tmp_path / "_taupy").write_text(capsys.readouterr().out)
    ask = f"fpath+=({tmp_path}); autoload -U compinit; compinit -u -D; print $_comps[taupy]"
    output = subprocess.run(["zsh", "-fc", ask], capture_output=True, text=True, check=True)
    assert output.stdout == "_taupy\n"
    check = ["zsh", "-fn", str(tmp_path / "_taupy")]
    assert subprocess.run(check, capture_output=True, text=True, check=True).stderr == ""
    trials = """
        taupy() { print asked >> asked; print -l latest 1 }
        compadd() { print -- "$@" }
        compdef() {}
        eval "$(<_taupy)"
        _taupy_trials
    """
    output = subprocess.run(
        ["zsh", "-fc", trials], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert output.stdout == "-- latest 1\n"
    script = (tmp_path / "_taupy").read_text()
    assert '"(*)::' not in script  # one argument, not several
    compare = script.partition("_shtab_taupy_compare_options=(")[2].partition("\n)")[0]
    assert compare.rstrip().splitlines()[-1].startswith('  "*:')
    assert (tmp_path / "asked").read_text() == "asked\n"  # not when the script is loaded


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_completes_commands_options_and_trials(capsys, tmp_path):
    assert main(["completion", "fish"]) == 0
    (tmp_path / "taupy.fish").write_text(capsys.readouterr().out)

    def completed(line):
        ask = f"function taupy; echo latest; echo 12; end; source taupy.fish; complete -C '{line}'"
        output = subprocess.run(["fish", "-Nc", ask], cwd=tmp_path, capture_output=True, text=True)
        return [line.split("\t")[0] for line in output.stdout.splitlines()]

    assert completed("taupy ppr") == ["pprof"]
    assert completed("taupy pprof --so") == ["--sort"]
    assert completed("taupy pprof 1") == ["12"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_command_that_is_ended_by_a_signal_leaves_no_temporary_folder(tmp_path, number):
    code = f"""
import os, sys, tempfile
from taupy import commands
def run(arguments):
    with tempfile.TemporaryDirectory(dir="."):
        os.kill(os.getpid(), {number:d})
commands._run = run
sys.argv = ["taupy", "trials"]
sys.exit(commands.main())
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path)
    assert done.returncode == 128 + number
    assert list(tmp_path.iterdir()) == []


def test_a_signal_while_options_are_read_ends_the_command_silently(monkeypatch, capsys):
    def interrupted(parser):
        raise KeyboardInterrupt

    monkeypatch.setattr(argparse.ArgumentParser, "format_usage", interrupted)
    # From 3.13 on no usage is formatted here: then the command finds no database.
    assert main(["trials", "--db", "nowhere.db"]) in (130, 1)
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "traced"),
    [
        ([], []),
        (["--trace"], [["gpu"]]),
        (["--tra"], [["gpu"]]),
        (["--trace=host"], [["host"]]),
        (["--trace=host,gpu"], [["host", "gpu"]]),
        (["--trace", "--trace=host"], [["gpu"], ["host"]]),
    ],
)
def test_a_trace_is_of_the_gpu_unless_a_value_says_otherwise(words, traced):
    """The word behind it is the program."""
    parser = parsers.CommandLine()
    run_arguments.add_arguments(parser)
    parsed = run_arguments.parse(parser, [*words, "prog.py", "--trace=x"])
    assert (parsed.trace, parsed.target) == (traced, ["prog.py", "--trace=x"])


@pytest.mark.parametrize(
    "target, application, folder",
    [
        (["-m", "torch.distributed.run", "--nproc-per-node", "2", "src/ddp.py", "x"], "ddp", "src"),
        (["/venv/bin/torchrun", "--nproc-per-node=2", "-m", "pkg.train"], "pkg.train", "."),
        (["-m", "accelerate.commands.launch", "train.py", "--lr", "1"], "train", "."),
        (["-m", "torch.distributed.run", "--help"], "torch.distributed.run", "."),
        (["tool.py", "other.py"], "tool", "."),
        (["-m", "taupy.count", "train.py"], "train", "."),
    ],
)
def test_a_trial_is_named_for_the_script_that_a_launcher_starts(target, application, folder):
    assert run._names(target) == (application, os.path.abspath(folder))


def test_pytorch_is_looked_for_where_the_program_would_find_it(monkeypatch):
    """Beside the program, then in PYTHONPATH, before what is installed."""
    monkeypatch.setenv("PYTHONPATH", "/own/builds")
    paths = run._import_paths(argparse.Namespace(program_folder="/program"))
    assert paths == ["/program", "/own/builds", *sys.path]


VALUES = {"--steps": "3:9", "--trace": "host,gpu", "--lines": "exact:7", "--threads": "all"}
"""Of options that take not any text."""


def _command_lines():
    """Each option of `taupy run` in all ways in which one can write it."""
    for action in command_parser("run")._actions:
        for name in action.option_strings:
            if action.dest in ("help", "trust_folder", "trust_files"):
                continue
            if action.nargs == 0:
                yield [name]
                continue
            value = VALUES.get(name) or (action.choices or ["5"])[0]
            yield from ([f"{name}={value}"], [f"{name}={value}", f"{name}={value}"])
            if name in run_arguments._ALONE:
                yield [name]
            else:
                yield [name, value]


@pytest.mark.parametrize(
    "words",
    [
        *([], ["prog.py", "-v", "--quiet"], ["-m", "pkg"], ["-c", "pass"], ["-"], ["--", "-x.py"]),
        *(["-q", "--db", "", "--app=", "x.py"], ["--meta", "a=b", "--meta=c=d e", "-m", "pkg"]),
        *([*line, "prog.py", "--quiet"] for line in _command_lines()),
    ],
    ids=" ".join,
)
def test_a_run_is_what_the_parser_makes_of_it(words):
    """So argparse need not be imported for it."""
    parsed = run_arguments.parse(command_parser("run"), words)
    assert vars(run_arguments.parsed_plainly(words)) == vars(parsed)


@pytest.mark.parametrize(
    "words",
    [
        *(["--help"], ["-h"], ["--trust-folder"], ["--quite"], ["--quiet=1"], ["-qq"], ["--app"]),
        *(["--depth", "x"], ["--depth", "-1"], ["--engine", "fast"], ["--lines=x"], ["--db", "-q"]),
        *(["--dep=3"], ["--trace=x"], ["--steps", "0"], ["--no-quiet"], ["--no-source=1"]),
    ],
    ids=" ".join,
)
def test_what_needs_an_explanation_is_left_to_the_parser(words):
    rest = [] if words == ["--app"] else ["prog.py"]
    assert run_arguments.parsed_plainly([*words, *rest]) is None


def test_options_of_a_run_do_not_import_what_explains_them(tmp_path):
    """argparse takes as long as an interpreter's start, and the program waits."""
    code = (
        "import os, sys\n"
        "os.execve = lambda *_: (print('argparse' in sys.modules, flush=True), os._exit(0))\n"
        "sys.argv[1:] = ['run', '-q', '--no-watch', '--app=a', '--db', 't.db', '-c', '']\n"
        "from taupy.__main__ import main\nmain()\n"
    )
    environment = {**os.environ, "TAUPY_STATE_DIR": str(tmp_path), "HOME": str(tmp_path)}
    # -S: what an editable install imports to find us is not the launcher's doing.
    command = [sys.executable, "-S", "-c", f"import sys\nsys.path += {sys.path!r}\n{code}"]
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=100
    )
    assert done.stdout == "False\n", done.stderr
