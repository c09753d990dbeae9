"""How pages of `taupy serve` look: its own, that of a problem, and Datasette's in the dark."""

from __future__ import annotations

from taupy.escaping import html

HEAD = """<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline';
 form-action 'self'; base-uri 'none'">
<style>
:root { --paper: #fff; --ink: #1a1d21; --soft: #58616c; --line: #dfe3e7; --accent: #005a9c;
  --hover: #eef2f6; --bad: #b3261e; color: var(--ink); background: var(--paper);
  font: 14px/20px system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; color-scheme: light }
@media (prefers-color-scheme: dark) { :root { --paper: #14171a; --ink: #e7e9ec; --soft: #9da7b2;
  --line: #2e343a; --accent: #7fbcf5; --hover: #22282e; --bad: #ff8a80; color-scheme: dark } }
body { max-width: 1360px; margin: 0 auto; padding: 20px 24px 40px; overflow-wrap: anywhere }
h1 { font-size: 20px; margin: 0 } h2 { font-size: 14px; margin: 28px 0 8px }
a { color: var(--accent); text-decoration: none } a:hover { text-decoration: underline }
p { margin: 4px 0 } .soft, dd { color: var(--soft) } .bad { color: var(--bad) }
</style>"""

DATASETTE_IN_THE_DARK = """{% extends "default:base.html" %}
{% block extra_head %}<meta name="color-scheme" content="light dark"><style>
@media (prefers-color-scheme: dark) {
  :root { color-scheme: dark }
  body { background: #14171a; color: #e7e9ec }
  .hd, header, footer, .ft { background: #22282e }
  a:link, a:visited, a:hover, button.button-as-link { color: #7fbcf5 }
  pre, textarea, input, select, .select-wrapper, .advanced-export, .dropdown-menu, p.zero-results,
  .CodeMirror, .cm-editor { background: #22282e; color: #e7e9ec; border-color: #2e343a }
  th, td, table.rows-and-columns td, table.rows-and-columns th { border-color: #2e343a }
  .type-float, .type-int, td em, .table-description, .metadata-description,
  dl.column-descriptions dd { color: #9da7b2 }
}
</style>{% endblock %}
"""
"""A template above all of Datasette's, which only have a light theme."""


def problem_page(status: int, problem: str, start: str) -> str:
    """A page that says what is wrong, with the way back.

    Args:
        problem: as HTML.
        start: the address of the start page.
    """
    title = "There is no such page" if status == 404 else f"Error {status}"
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>{HEAD}<title>{title}</title></head>\n'
        f'<body><h1>{title}</h1>\n<p>{problem}</p>\n<p><a href="{html(start)}">All trials</a></p>\n'
        "</body></html>\n"
    )
