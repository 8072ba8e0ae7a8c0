"""A light load generator: keep-alive connections on raw sockets, so that the client costs little of the machine."""

import asyncio
import socket
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple


class Sent(NamedTuple):
    """What a run of requests showed."""

    per_second: float
    p50: float
    p99: float
    statuses: dict[int, int]


class _Client(asyncio.Protocol):
    """One connection: the next request goes out when the answer to the last one is in."""

    def __init__(self, requests: Iterator[bytes], times: list[float], statuses: dict[int, int]) -> None:
        self._requests = requests
        self._times = times
        self._statuses = statuses
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._next()

    def _next(self) -> None:
        request = next(self._requests, None)
        if request is None:
            self._transport.close()
            if not self.done.done():
                self.done.set_result(None)
            return
        self._began = time.perf_counter()
        self._transport.write(request)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head = self._buffer.find(b"\r\n\r\n")
        if head < 0:
            return
        start = self._buffer.lower().find(b"content-length:", 0, head) + 15
        length = int(self._buffer[start : self._buffer.find(b"\r\n", start)])
        if len(self._buffer) < head + 4 + length:
            return
        self._times.append(time.perf_counter() - self._began)
        status = int(self._buffer[9:12])
        self._statuses[status] = self._statuses.get(status, 0) + 1
        self._buffer = b""
        self._next()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(error or ConnectionResetError("the server closed the connection"))


def request(method: str, path: str, token: str, body: bytes = b"", headers: str = "") -> bytes:
    return (
        f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n{headers}"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode() + body


async def send(port: int, clients: int, make: Callable[[], Iterator[bytes]]) -> Sent:
    """Send everything that `make` yields over `clients` connections."""
    loop = asyncio.get_running_loop()
    times: list[float] = []
    statuses: dict[int, int] = {}
    requests = make()
    began = time.perf_counter()
    protocols = [
        (await loop.create_connection(lambda: _Client(requests, times, statuses), "127.0.0.1", port))[1]
        for _ in range(clients)
    ]
    await asyncio.gather(*(protocol.done for protocol in protocols))
    took = time.perf_counter() - began
    times.sort()
    return Sent(len(times) / took, times[len(times) // 2], times[int(len(times) * 0.99)], statuses)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
