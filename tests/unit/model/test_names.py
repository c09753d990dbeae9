"""Names of files: one for each, however it is spelled."""

from __future__ import annotations

import pytest

from taupy.model.names import module_of, one_name


@pytest.mark.parametrize(
    "spelled, name",
    [
        ("small.py", "small.py"),
        ("./small.py", "small.py"),
        ("sub/../small.py", "small.py"),
        ("/a//b/./c.py", "/a/b/c.py"),
        ("//a/c.py", "/a/c.py"),
        ("../lib/x.py", "../lib/x.py"),
        ("<string>", "<string>"),
        ("<frozen importlib._bootstrap>", "<frozen importlib._bootstrap>"),
        ("webpack:///./src/x.js", "webpack:///./src/x.js"),
        ("ünï/./ç.py", "ünï/ç.py"),
        ("", ""),
        ("/tmp/ipykernel_1406/2087443155.py", "cell 2087443155"),
        ("/tmp/ipykernel_2082/2087443155.py", "cell 2087443155"),
        ("/var/folders/x/T/ipykernel_7/-12.py", "cell -12"),
        ("<ipython-input-3-0123456789ab>", "cell 0123456789ab"),
        ("/tmp/ipython-input-5-384.py", "cell 384"),
        ("/home/me/ipykernel_9/notes.py", "/home/me/ipykernel_9/notes.py"),
    ],
)
def test_a_file_has_one_name_in_every_spelling(spelled, name):
    assert one_name(spelled) == name
    assert one_name(name) == name


def test_the_module_follows_from_the_file_and_not_from_its_spelling():
    assert module_of("./pkg/../pkg/sub/__init__.py") == "pkg.sub"
    assert module_of("pkg/fast.pyx") == "pkg.fast"
    assert module_of("<frozen importlib._bootstrap>") == "importlib._bootstrap"
    assert module_of("<frozen >") == "<frozen >"
    assert module_of("a.b/c.py") == "a.b/c.py"
