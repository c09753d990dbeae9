"""Answers about one trial: the same tables on the terminal, in a notebook and on the page.

One module for each question, with

    a docstring                    the description of the command
    Options                        a frozen dataclass; its fields are options (`answer.option`)
    PAGES                          the options with which the page shows the answer
    views(db, trial, options)      the tables; raises `Nothing` if there are none

`commands/answering.py` is its command, `notebook.Trial` a method, `report/contents.py` a
tab.
"""

ANSWERS = ("places", "layers", "phases", "steps", "memory")
