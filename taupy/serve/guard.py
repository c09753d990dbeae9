"""Access control for `taupy serve`, in front of Datasette.

The address contains a token, which is shown only on the terminal. It is in the path, because a
cookie would be sent to every server on this machine, whatever its port. The Host header must be
taupy's own, which prevents DNS rebinding. Only GET and HEAD are allowed.
"""

from __future__ import annotations

import csv
import hmac
import io
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from taupy.escaping import csv_cell, guarded_page

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self' 'unsafe-inline'",  # Datasette's own pages contain scripts
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
_HEADERS = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),  # addresses contain the token
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
_OURS = {name for name, _ in _HEADERS}


class Guard:
    """An ASGI application that forwards permitted requests.

    Args:
        app: Datasette, with `/token/` as its base address.
        hosts: permitted Host headers: name and port.
        on_entry: called with each forwarded request.
    """

    def __init__(
        self, app: App, token: str, hosts: frozenset[str], on_entry: Callable[[], None]
    ) -> None:
        self._app = app
        self._base = f"/{token}/".encode()
        self._hosts = hosts
        self._on_entry = on_entry

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
        elif refusal := self._refusal(scope):
            await _answer(send, *refusal)
        else:
            self._on_entry()
            await self._app(scope, receive, _guarded(scope, send))

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return 421, "this server answers only under its own address"
        if scope["method"] not in ("GET", "HEAD"):
            return 405, "this server is read-only"
        begin = scope["path"].encode("utf-8", "surrogateescape")[: len(self._base)]
        if not hmac.compare_digest(begin, self._base):
            return 403, "the address must contain the token printed by `taupy serve`"
        return None


async def _answer(send: Send, status: int, text: str) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), *_HEADERS]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": f"taupy serve: {text}\n".encode()})


def _guarded(scope: Scope, send: Send) -> Send:
    """Wraps `send`: adds security headers, and escapes text in pages and CSV."""
    pieces: list[bytes] = []
    change: Callable[[bytes], bytes] | None = None

    async def send_guarded(message: Message) -> None:
        nonlocal change
        if message["type"] == "http.response.start":
            headers = [(name.lower(), value) for name, value in message.get("headers", [])]
            if dict(headers).get(b"content-type", b"").startswith(b"text/html"):
                change = _without_hidden_letters
            elif scope["path"].endswith(".csv"):
                change = _without_formulas
            kept = [
                (name, value)
                for name, value in headers
                if name not in _OURS and not (change and name == b"content-length")
            ]
            await send({**message, "headers": [*kept, *_HEADERS]})
        elif message["type"] != "http.response.body" or change is None:
            await send(message)
        else:
            pieces.append(message.get("body", b""))
            if not message.get("more_body"):
                await send({**message, "body": change(b"".join(pieces))})

    return send_guarded


def _without_hidden_letters(page: bytes) -> bytes:
    return guarded_page(page.decode("utf-8", "replace")).encode()


def _without_formulas(table: bytes) -> bytes:
    csv.field_size_limit(max(csv.field_size_limit(), len(table)))
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    for row in csv.reader(io.StringIO(table.decode("utf-8", "replace"), newline="")):
        writer.writerow([cell if _is_number(cell) else csv_cell(cell) for cell in row])
    return out.getvalue().encode()


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return cell.isascii() and "_" not in cell
