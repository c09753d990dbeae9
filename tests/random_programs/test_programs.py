"""What random programs are made of is Python of every version that they run on."""

from tests.random_programs.programs import each_statement


def test_each_call_stands_in_each_statement():
    """Up to 3.11 an f-string may not hold its own quotes."""
    sources = list(each_statement())
    assert len(sources) > 500
    for source in sources:
        compile(source, "<program>", "exec")
