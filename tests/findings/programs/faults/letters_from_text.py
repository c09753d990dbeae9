"""Letters to customers from a template that is compiled for each."""

import jinja2

TEXT = "Dear {{ name }}{% if due > 0 %}, please pay {{ due }}{% endif %}." * 5


def letter(name, due):
    return jinja2.Template(TEXT).render(name=name, due=due)


print(sum(len(letter(f"c{n}", n % 3)) for n in range(150)))
