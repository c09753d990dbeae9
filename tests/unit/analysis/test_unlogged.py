"""What a routine calls for messages alone, told from its source."""

import ast

import pytest

from taupy.analysis.findings.unlogged import _made


def only(body):
    (function,) = ast.parse(f"def work(log, item, x):\n    {body}").body
    made = _made(function, {"debug"})
    return set(made.only_for_messages) if made else set()


@pytest.mark.parametrize(
    "body",
    ["log.debug(f'at {item!r}')", "log.debug('at %s' % item)", "log.debug('at {}'.format(item))",
     "log.debug(str(item))", "text = f'{item}'; log.debug(text)"],
)  # fmt: skip
def test_text_of_an_object_is_made_for_messages_alone(body):
    assert {"__repr__", "__str__"} <= only(body)


@pytest.mark.parametrize(
    "body",
    ["log.debug('at %s', item)", "log.debug(f'{item}'); return f'{item}'",
     "log.debug(f'{item}'); print(item)", "log.debug(f'{item}'); return x % 7, map(str, item)"],
)  # fmt: skip
def test_text_that_is_made_for_more_or_by_the_log_is_not(body):
    assert not {"__repr__", "__str__"} & only(body)


def test_a_remainder_of_numbers_is_no_text():
    assert "__repr__" in only("log.debug(f'{item}'); return x % 7")
