"""MCP: every registered operation as a tool, over streamable HTTP."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from beamwright.runtime.arrival import Arrival
from beamwright.runtime.service import Service
from beamwright.settings import Settings


class McpSurface:
    """Serves the tools."""

    def __init__(self, service: Service, arrival: Arrival, settings: Settings) -> None:
        self._service = service
        self._arrival = arrival
        self._settings = settings

    @asynccontextmanager
    async def lifespan(self, app: Any) -> AsyncGenerator[None]:
        yield

    async def asgi(self, scope: Any, receive: Any, send: Any) -> None:
        raise NotImplementedError
