"""The pages of `taupy report` for `taupy serve`, in front of Datasette.

    /TOKEN/-/report/12              the page of a trial
    /TOKEN/-/report?a=12&b=15       the page that compares two
    /TOKEN/-/report?t=15&t=12       the same of two that were ticked, the older first

Each page is created on request. Datasette answers all other addresses.
"""

from __future__ import annotations

import asyncio
from urllib.parse import parse_qs

from taupy.errors import NoSuchTrial, TaupyError
from taupy.escaping import html
from taupy.profiledb import selector
from taupy.profiledb.opening import opened
from taupy.serve.guard import App, Receive, Scope, Send
from taupy.serve.look import problem_page
from taupy.units import several

PLACE = "-/report"
"""The path below the base address; Datasette does not use names that begin with `-`."""


class Reports:
    """An ASGI application that serves pages of reports.

    Args:
        app: handles all other requests.
        base: the path of the start page, `/TOKEN/`.
        path: the file of the database.
    """

    def __init__(self, app: App, base: str, path: str) -> None:
        self._app = app
        self._base = base
        self._place = f"{base}{PLACE}"
        self._path = path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        place, _, trial = str(scope.get("path", "")).partition(f"{self._place}")
        if scope["type"] != "http" or place or not self._is_here(scope["path"]):
            await self._app(scope, receive, send)
            return
        query = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        ticked = query.get("t", [])[::-1]
        if trial:
            trials = [trial.strip("/")]
        elif len(ticked) != 2 and not query.keys() & {"a", "b"}:
            problem = f"{several(len(ticked), 'trial')} ticked: go back and tick the two to compare"
            await _answer(send, 400, problem_page(400, problem, self._base))
            return
        else:
            trials = ticked or [query.get(side, [""])[0] for side in "ab"]
        await _answer(send, *await asyncio.to_thread(self._page, trials))

    def _is_here(self, path: str) -> bool:
        return path == self._place or path.startswith(f"{self._place}/")

    def _page(self, trials: list[str]) -> tuple[int, str]:
        """Status and text of the answer."""
        from taupy.report import contents, page
        from taupy.study import versus

        try:
            with opened(self._path) as db:
                if len(trials) == 1:
                    held = contents.of_trial(db, selector.trial(db, trials[0]))
                else:
                    held, _ = versus.of_sides(db, trials[0], trials[1])
                return 200, page.html_page(held, back=self._base)
        except TaupyError as problem:
            code = 404 if isinstance(problem, NoSuchTrial) else 400
            return code, problem_page(code, html(str(problem)), self._base)


async def _answer(send: Send, status: int, text: str) -> None:
    body = text.encode()
    headers = [
        (b"content-type", b"text/html; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
