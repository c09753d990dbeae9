"""An environment keeps the templates of all pages; each page is made many times."""

import jinja2

PAGES = {f"page{n}": f"<h1>{n}</h1>{{% for x in xs %}}<p>{{{{ x }}}}</p>{{% endfor %}}" for n in range(30)}
environment = jinja2.Environment(loader=jinja2.DictLoader(PAGES))


def show(name, number):
    return environment.get_template(name).render(xs=range(number))


print(sum(len(show(f"page{n % 30}", n % 40)) for n in range(3_000)))
