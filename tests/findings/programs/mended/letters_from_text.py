"""Letters to customers from a template that is compiled for each."""

import jinja2

TEXT = "Dear {{ name }}{% if due > 0 %}, please pay {{ due }}{% endif %}." * 5
LETTER = jinja2.Environment().from_string(TEXT)


def letter(name, due):
    return LETTER.render(name=name, due=due)


print(sum(len(letter(f"c{n}", n % 3)) for n in range(150)))
