"""Parts that are read while their process writes them."""

from types import SimpleNamespace

from taupy.errors import FormatError
from taupy.record import collected
from taupy.record.host_part import UNKNOWN


def part(*names):
    return SimpleNamespace(routines=[SimpleNamespace(name=name) for name in names])


def read(monkeypatch, *answers):
    left = list(answers)

    def read_part(file, clock_now, is_changing):
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(collected, "read_part", read_part)
    return collected.read_changing(None, None)


def test_one_with_call_paths_newer_than_their_routines_is_read_again(monkeypatch):
    whole = part("work", "train")
    assert read(monkeypatch, part("work", UNKNOWN), FormatError("half"), whole) is whole


def test_one_that_stays_so_is_shown_as_it_is(monkeypatch):
    always = part(UNKNOWN)
    assert read(monkeypatch, always) is always
