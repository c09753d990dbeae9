"""Whose code a file is: the program's own, or that of a library (`_native/own_files.h`)."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from taupy._native import remote


def own_files(arguments: "Sequence[str]", libraries: "Sequence[str]") -> "remote.OwnFiles":
    """The program's own files.

    Args:
        arguments: the program, as the interpreter gets it.
        libraries: folders of libraries.

    Raises:
        ImportError: there is no compiled core.
    """
    from taupy._native import remote

    texts = {"-c": (b"<string>",), "-": (b"<stdin>",)}
    return remote.OwnFiles(
        tuple(
            (folder.rstrip("/") + "/").encode("utf-8", "replace") for folder in libraries if folder
        ),
        texts.get(arguments[0] if arguments else "-", ()),
    )
