"""Connections of `taupy serve`: other users of this machine may open many, and keep none busy."""

from __future__ import annotations

from asyncio import Transport
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

BACKLOG = 32
"""Connections that are accepted at once; together with open ones, fewer than there are files."""

_MOST_IDLE = 128


class Connection(H11Protocol):
    """A connection that takes the place of an idle one, if there are many."""

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """As uvicorn's."""
        idle: list[Any] = [other for other in self.connections if _is_idle(other)]
        super().connection_made(transport)
        if len(idle) >= _MOST_IDLE:
            idle[0].transport.abort()


def _is_idle(connection: Any) -> bool:
    """Whether it has not yet sent a request, or has been answered."""
    cycle = connection.cycle
    return not connection.transport.is_closing() and (cycle is None or cycle.response_complete)
