"""Measure a piece of code in an interpreter that runs already: `taupy.profile`, `%%taupy`.

    with taupy.profile() as p:
        train()
    print(p)                       # the screen of `taupy report`
    p.trial.places()

    %load_ext taupy                # in a notebook
    %%taupy                        # as the first line of a cell
    %taupy work(1000)              # one statement

The engine is started late, in this very process: it measures what is called from then on by this
thread, by threads that begin meanwhile, and by forked processes, and stops at the end. What it
cannot have so late is not measured, and the trial says so: threads that ran before, GPUs (whose
driver loads a collector only at its start), new interpreters such as spawned workers, lines,
counters, the watch. `taupy run` measures all of that. A profile that was paid for is kept here,
too: after an exception or an interrupt, and if the process ends inside the piece.
"""

from __future__ import annotations

import argparse
import ast
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from taupy.delivery import deliver
from taupy.errors import TaupyError, UsageError
from taupy.escaping import html, visible
from taupy.instrument import launch, runfolder
from taupy.instrument.annotate import WholeProgram, is_measured
from taupy.instrument.calibrate import calibrate
from taupy.model import command_line
from taupy.network import layers, steps
from taupy.notebook import Trial, open
from taupy.profiledb.api import usual
from taupy.report.report import LATE, NOTEBOOK

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from taupy.state.folder import Folder

_SAMPLE_MS = 10
_VALUE = "_taupy_value"
"""The name that the last value of a cell has while it runs: code of its own would be a second call
of the cell."""
_NOT = "not measured: "
_NONE = "it was measured in an interpreter that ran already (taupy.profile)"

_last: Trial | None = None


class Profile:
    """A piece of code that is measured: `with taupy.profile() as p:`.

    Args:
        database: to which the trial is added; None: TAUPY_DB, else `taupy.db` in this folder,
            unless another user owns it.
        app, experiment, name: of the trial. By default the script's name, or "notebook";
            "default"; and the next number.
        c_calls: whether C functions are rows of their own.

    Attributes:
        trial: what was measured, when the piece has ended; None if nothing was.
        problem: why nothing was measured, in one line; "" if it was.
    """

    def __init__(
        self,
        database: str | os.PathLike[str] | None = None,
        *,
        app: str | None = None,
        experiment: str = "default",
        name: str | None = None,
        c_calls: bool = False,
    ) -> None:
        chosen = os.fspath(database or os.environ.get("TAUPY_DB") or usual())
        self.database = os.path.abspath(chosen)
        self.app, self.experiment, self.name, self.c_calls = app, experiment, name, c_calls
        self.trial: Trial | None = None
        self.problem = ""
        self._folder: Folder | None = None
        self._settings: runfolder.RunSettings | None = None

    def __enter__(self) -> Profile:
        self.trial, self.problem = None, ""
        try:
            self._start()
        except (OSError, RuntimeError, TaupyError) as problem:
            self._drop()
            self.problem = f"{_NOT}{problem}"
            print(f"taupy: {visible(self.problem)}", file=sys.stderr)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        settings, folder = self._settings, self._folder
        if settings is None or folder is None:
            return
        from taupy._native import engine

        engine.stop()
        self._settings = self._folder = None
        if os.getpid() != settings.root_pid:
            return  # a forked child's part is stored with those of its parent
        settings.ending = int(kind is not None)
        runfolder.write_settings(folder, settings)
        delivery = deliver(folder)
        if delivery.trial_id is None:
            self.problem = delivery.problem or "nothing was stored"
            if delivery.rescue is not None:
                self.problem += f"; it is saved in {delivery.rescue}: `taupy import` loads it"
            print(f"taupy: {visible(self.problem)}", file=sys.stderr)
            return
        self.trial = open(self.database).trial(delivery.trial_id)
        global _last
        _last = self.trial

    def _start(self) -> None:
        try:
            from taupy._native import engine
        except ImportError as missing:
            raise TaupyError(
                f"the compiled engine is missing ({missing}); see `taupy doctor`"
            ) from None
        if launch.is_free_threaded():
            raise TaupyError("a free-threaded build of Python cannot be measured")
        if is_measured():
            raise TaupyError(WholeProgram.problem.removeprefix(_NOT))
        options: dict[str, Any] = {
            "c_calls": self.c_calls,
            "imports": False,
            "metrics": [],
            "sample_ms": _SAMPLE_MS,
            **layers.engine_options(),
            **steps.engine_options(),
        }
        early = engine.read_clock()
        overhead = calibrate(early, options)
        settings = self._as_run(options, early, overhead)
        self._folder, refused = runfolder.make_run_folder(settings.uuid, self.database)
        settings.notes += refused
        options["storer_argv"] = launch.storer_command(self._folder, settings.module_path)
        options["spill_prefix"] = os.fsencode(runfolder.spill_prefix(settings))
        runfolder.write_settings(self._folder, settings)
        package = os.path.join(os.path.dirname(os.path.abspath(__file__)), "")
        of_engine = {
            **options,
            "run_folder": os.fsencode(self._folder.path),
            "root_pid": settings.root_pid,
            "library_folders": [f"{name}/" for name in settings.library_folders],
            "our_files": [package],
        }
        del of_engine["imports"]
        engine.start(of_engine)
        self._settings = settings

    def _as_run(
        self, options: dict[str, Any], early: tuple[int, int], overhead: dict[str, float]
    ) -> runfolder.RunSettings:
        folder = os.getcwd()
        return launch.settings_here(
            folder,
            folder,
            uuid=runfolder.new_uuid(),
            database=self.database,
            application=self.app or _program(),
            experiment=self.experiment,
            trial=self.name,
            engine="native",
            engine_options=options,
            metadata={
                LATE: "from the beginning of a piece of it to its end (taupy.profile)",
                "taupy.lines": f"none: {_NONE}",
                "taupy.watch": f"none: {_NONE}",
            },
            arguments=_typed(),
            interpreter=launch.interpreter_command(),
            early=early,
            overhead=overhead,
            quiet=True,
            gpu="no",
            notes=[],
        )

    def _drop(self) -> None:
        """Leave nothing of a measurement that did not begin."""
        folder, self._folder = self._folder, None
        if folder is not None:
            with suppress(OSError):
                folder.remove()

    def __str__(self) -> str:
        if self.trial is None:
            return self.problem or "nothing is measured yet"
        return self.trial.screen()

    def __repr__(self) -> str:
        return f"<taupy.profile: {self.trial or self.problem or 'nothing is measured yet'}>"

    def _repr_html_(self) -> str:
        return html(str(self)) if self.trial is None else self.trial.as_cell()


def last() -> Trial:
    """The trial of the last piece of this process that was measured.

    Raises:
        taupy.errors.UsageError: there is none.
    """
    if _last is None:
        raise UsageError(
            "nothing was measured in this process yet: `with taupy.profile():`, or %%taupy in a "
            "notebook after `%load_ext taupy`"
        )
    return _last


def _program() -> str:
    """What this process runs: a script's name, or "notebook"."""
    main = sys.modules.get("__main__")
    path = getattr(main, "__file__", None)
    if path is None or "ipykernel" in path:
        return NOTEBOOK
    return os.path.splitext(os.path.basename(str(path)))[0]


def _typed() -> list[str]:
    """What was typed behind the interpreter and its options: `p.py x`; of a notebook its name."""
    program = _program()
    if program == NOTEBOOK:
        return [program]
    return command_line.split(sys.orig_argv[1:])[1] or [program]


# --- magics of IPython ---------------------------------------------------------------


def load_ipython_extension(shell: Any) -> None:
    """Called by `%load_ext taupy`."""
    shell.register_magic_function(_magic(shell), "line_cell", "taupy")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="%%taupy",
        exit_on_error=False,
        allow_abbrev=False,
        description="Measure a cell (%%taupy as its first line) or a statement (%taupy X).",
    )
    parser.add_argument("--db", metavar="FILE", help="database to which the trial is added")
    parser.add_argument("--app", help="its application (default: notebook)")
    parser.add_argument("--experiment", default="default")
    parser.add_argument("--trial", metavar="NAME", help="its name (default: the next number)")
    parser.add_argument("--c-calls", action="store_true", help="C functions are rows, too")
    parser.add_argument("-o", metavar="FILE", dest="page", help="write the page, and link it")
    return parser


def _magic(shell: Any) -> Callable[[str, str | None], object]:
    parser = _parser()

    def taupy(line: str, cell: str | None = None) -> object:
        __tracebackhide__ = True
        try:
            args, statement = _arguments(parser, line, cell)
        except SystemExit:
            return None  # --help is printed
        except argparse.ArgumentError as problem:
            raise UsageError(f"%taupy: {problem}") from None
        return _run(shell, args, statement if cell is None else cell)

    taupy.__doc__ = parser.format_help()
    return taupy


def _arguments(
    parser: argparse.ArgumentParser, line: str, cell: str | None
) -> tuple[argparse.Namespace, str]:
    """The options of a magic, and the statement after them, letter by letter."""
    rest, words = line.strip(), []
    takes_value = {
        option for action in parser._actions if action.nargs is None
        for option in action.option_strings
    }  # fmt: skip
    while rest.startswith("-"):
        word, _, rest = rest.partition(" ")
        words.append(word)
        if word in takes_value:
            value, _, rest = rest.lstrip().partition(" ")
            words += [value] if value else []
        rest = rest.lstrip()
    if cell is not None and rest:
        raise UsageError(f"what is measured stands below %%taupy, not beside it: {rest}")
    args = parser.parse_args(words)
    if cell is None and not rest:
        raise UsageError("nothing to measure: %taupy STATEMENT, or %%taupy as a cell's first line")
    return args, rest


def _run(shell: Any, args: argparse.Namespace, source: str) -> object:
    """Run code as a cell of its own, measured; its last value is what the magic returns."""
    __tracebackhide__ = True
    text = shell.transform_cell(source)
    file = shell.compile.cache(text, shell.execution_count, raw_code=source)
    tree = shell.compile.ast_parse(text, filename=file)
    tree = shell.transform_ast(tree)
    if any(map(_awaits, tree.body)):
        raise UsageError(
            "%taupy cannot measure `await` outside of a function: define an async function in the "
            "cell, and measure asyncio.run(...) of it in a script, by `taupy run`"
        )
    if tree.body and isinstance(last := tree.body[-1], ast.Expr):
        kept = ast.Assign([ast.Name(_VALUE, ast.Store())], last.value)
        tree.body[-1] = ast.fix_missing_locations(ast.copy_location(kept, last))
    body, names = shell.compile(tree, file, "exec"), shell.user_ns
    profile = Profile(
        args.db, app=args.app, experiment=args.experiment, name=args.trial, c_calls=args.c_calls
    )
    try:
        with profile:
            exec(body, names)
    finally:
        value = names.pop(_VALUE, None)
        _show(profile, args.page)
    return None if text.rstrip().endswith(";") else value


def _awaits(node: ast.AST) -> bool:
    """Whether code awaits outside of its functions."""
    if isinstance(node, ast.Await | ast.AsyncFor | ast.AsyncWith):
        return True
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        return False
    return any(map(_awaits, ast.iter_child_nodes(node)))


def _show(profile: Profile, page: str | None) -> None:
    if profile.trial is None:
        return  # the line that says why is printed already
    import IPython.display

    if page is not None:
        profile.trial.report().save(page)
    IPython.display.display(_Shown(profile.trial, page or ""))


class _Shown:
    """A trial's screen: HTML in notebooks, text in terminals."""

    def __init__(self, trial: Trial, page: str) -> None:
        self.trial, self.page = trial, page

    def __repr__(self) -> str:
        return self.trial.screen()

    def _repr_html_(self) -> str:
        return self.trial.as_cell(self.page)
