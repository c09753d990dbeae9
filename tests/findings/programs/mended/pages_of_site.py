"""A site whose environment, with its cache of templates, is made for each page."""

import jinja2

PAGES = {
    "base": "<html>{% block body %}{% endblock %}</html>",
    "page": "{% extends 'base' %}{% block body %}{% for x in xs %}<p>{{ x }}</p>{% endfor %}"
    "{% endblock %}",
}


class Site:
    def __init__(self):
        self.size = 0
        self.environment = jinja2.Environment(loader=jinja2.DictLoader(PAGES))

    def render(self, number):
        page = self.environment.get_template("page")
        self.size += len(page.render(xs=range(number % 5)))


site = Site()
for number in range(200):
    site.render(number)
print(site.size)
