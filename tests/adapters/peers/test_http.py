"""Peers over HTTP: what is sent, what their answers mean, and what is not followed."""

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from beamwright.adapters.peers.http import MOST_OCTETS, HttpPeers
from beamwright.kernel.delivery import PeerAnswer, PeerUnreachableError

PROBLEM = {
    "type": "urn:x",
    "title": "x",
    "status": 409,
    "detail": "It was received before.",
    "code": "ArtifactReplayedError",
    "correlation_id": "x",
}


class Peer(ThreadingHTTPServer):
    """Answers what it is told to, and remembers what it was sent."""

    answer: tuple[int, bytes] = (201, b"{}")

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.sent: list[tuple[str, str | None, bytes]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Peer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.sent.append((self.path, self.headers["authorization"], body))
        status, answer = self.server.answer
        self.send_response(status)
        if status == 307:
            self.send_header("location", f"{self.server.url}/elsewhere")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        return None


@pytest.fixture
def peer() -> Iterator[Peer]:
    with Peer() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()


def post(url: str) -> PeerAnswer:
    async def posted() -> PeerAnswer:
        peers = HttpPeers()
        try:
            return await peers.post(url, "token", b'{"envelope":1}')
        finally:
            await peers.aclose()

    return asyncio.run(posted())


def test_a_statement_is_posted_with_the_token(peer: Peer) -> None:
    assert post(f"{peer.url}/receive") == PeerAnswer(status=201)
    assert peer.sent == [("/receive", "Bearer token", b'{"envelope":1}')]


def test_a_refusal_is_told_with_its_code(peer: Peer) -> None:
    peer.answer = (409, json.dumps(PROBLEM).encode())
    answer = PeerAnswer(status=409, code="ArtifactReplayedError", detail="It was received before.")
    assert post(peer.url) == answer


@pytest.mark.parametrize("body", [b"", b"<html>", b"\xff", b"[]", b"x" * (2 * MOST_OCTETS)])
def test_an_answer_that_is_no_problem_document_is_its_status(peer: Peer, body: bytes) -> None:
    peer.answer = (502, body)
    assert post(peer.url) == PeerAnswer(status=502)


def test_a_redirect_is_not_followed_with_the_token(peer: Peer) -> None:
    peer.answer = (307, b"")
    assert post(peer.url) == PeerAnswer(status=307)
    assert len(peer.sent) == 1


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://[", "nonsense"])
def test_a_peer_that_does_not_answer_is_unreachable(url: str) -> None:
    with pytest.raises(PeerUnreachableError):
        post(url)
