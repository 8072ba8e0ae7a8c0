"""Bytes on a socket that are no request, or one with a second meaning, and what came back."""

import asyncio
import gzip
import re
import time
from collections.abc import Sequence
from typing import NamedTuple

from tests.faults.attacked import PATIENCE

_STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")
# The answer to whoever means no harm.
REFUSED = frozenset({400, 401, 404, 405, 408, 413, 415, 422, 431})
ANSWERED = REFUSED | {200, 201, 307, 308}
READ = frozenset({200})


class Attack(NamedTuple):
    """Pieces to send one after the other, and the statuses that may come back; none is a closed connection."""

    pieces: Sequence[bytes]
    expected: frozenset[int] = REFUSED
    pause: float = 0.0
    # Whether the sender says that it is done.
    finish: bool = False
    # How many answers are waited for; with zero, the service must end the connection.
    answers: int = 1


class Said(NamedTuple):
    """What came back until the connection ended or enough was heard."""

    statuses: list[int]
    text: str
    ended: bool
    seconds: float


async def say(port: int, attack: Attack) -> Said:
    began = time.perf_counter()
    heard = b""
    ended = False
    try:
        async with asyncio.timeout(PATIENCE):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            sending = asyncio.create_task(_send(writer, attack))
            try:
                while not attack.answers or len(_STATUS.findall(heard)) < attack.answers:
                    piece = await reader.read(65536)
                    if not piece:
                        ended = True
                        break
                    heard += piece
            finally:
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)
                writer.transport.abort()
    except ConnectionError:
        ended = True
    except TimeoutError:
        pass
    statuses = [int(each) for each in _STATUS.findall(heard)]
    return Said(statuses, heard.decode("latin-1"), ended, time.perf_counter() - began)


async def _send(writer: asyncio.StreamWriter, attack: Attack) -> None:
    for piece in attack.pieces:
        writer.write(piece)
        await writer.drain()
        if attack.pause:
            await asyncio.sleep(attack.pause)
    if attack.finish:
        writer.write_eof()


def request(line: str, *headers: str, body: bytes = b"", host: str = "127.0.0.1") -> bytes:
    """A request with these lines; only what is said is sent."""
    lines = [line, f"Host: {host}", *headers]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def lines() -> dict[str, Attack]:
    """Request lines."""
    odd = {
        "lower case method": "get /health HTTP/1.1",
        "unknown method": "BREW /zones HTTP/1.1",
        "long method": "G" * 10_000 + " /health HTTP/1.1",
        "no version": "GET /health",
        "old version": "GET /health HTTP/1.0",
        "newer version": "GET /health HTTP/2.0",
        "no such version": "GET /health HTTP/9.9",
        "version with more": "GET /health HTTP/1.1x",
        "absolute address": "GET http://evil.example/health HTTP/1.1",
        "absolute address without path": "GET http://evil.example HTTP/1.1",
        "authority": "CONNECT evil.example:443 HTTP/1.1",
        "asterisk": "OPTIONS * HTTP/1.1",
        "trace": "TRACE /zones HTTP/1.1",
        "no path": "GET  HTTP/1.1",
        "space in path": "GET /zones /x HTTP/1.1",
        "high bytes": "GET /zones/\xff\xfe HTTP/1.1",
        "only slashes": "GET " + "/" * 5000 + " HTTP/1.1",
    }
    paths = (
        "%00",
        "%c0%ae%c0%ae",
        "%ff%fe",
        "%u0000",
        "%zz",
        "%",
        "..",
        "%2e%2e%2f",
        "%0d%0aset-cookie:x=y",
        "~;|'\"<>",
    )
    odd |= {f"path {path}": f"GET /zones/{path} HTTP/1.1" for path in paths}
    queries = (
        "%00",
        "limit=%00",
        "%c0%80=1",
        "limit=1&limit=2",
        "&&=&=",
        "%",
        "limit[]=1",
        "q=%ff",
        "x" * 60_000,
        "a&" * 9000,
    )
    odd |= {f"query {query[:16]}": f"GET /zones?{query} HTTP/1.1" for query in queries}
    whole = {name: Attack([request(line, "Connection: close")], ANSWERED) for name, line in odd.items()}
    large = frozenset({431})
    return whole | {
        "a line of 1 MB": Attack([b"GET /" + b"a" * (1 << 20)], large, answers=0),
        "a line of 1 MB in pieces": Attack([b"GET /", *[b"a" * 4096] * 256], large, answers=0),
        "a method without end": Attack([b"A" * 4096] * 64, answers=0),
        "another protocol": Attack([b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"], answers=0),
        "a handshake of TLS": Attack([bytes.fromhex("16030100c8010000c40303") + bytes(200)], answers=0),
        "NUL bytes": Attack([bytes(1000)], answers=0),
        "empty lines": Attack([b"\r\n" * 1000, request("GET /health HTTP/1.1")], READ),
        "empty lines without end": Attack([b"\r\n"] * 40, frozenset(), pause=0.1, answers=0),
        "line feeds alone": Attack([b"GET /health HTTP/1.1\nHost: x\nConnection: close\n\n"], ANSWERED),
    }


def heads(token: str) -> dict[str, Attack]:
    """Headers."""
    bearer = f"Authorization: Bearer {token}"
    long = "a" * 60_000
    values = {
        "space before colon": "Host : evil.example",
        "no colon": "nonsense",
        "folded": "X-A: b\r\n c: d",
        "NUL in value": "X-A: b\x00c",
        "NUL in name": "X\x00A: b",
        "return in value": "X-Correlation-Id: pwned\rset-cookie: x=y",
        "correlation id of code": "X-Correlation-Id: %0d%0aset-cookie: pwned=1",
        "correlation id of high bytes": "X-Correlation-Id: \xff\xfe",
        "large correlation id": f"X-Correlation-Id: {long[:40_000]}",
        "large key": f"Idempotency-Key: {long[:40_000]}",
        "empty key": "Idempotency-Key:",
        "key of high bytes": "Idempotency-Key: \xff",
        "large version": f"If-Match: {'9' * 4000}",
        "versions": 'If-Match: "1", "2"',
        "large range": "Range: bytes=0-18446744073709551616",
        "many ranges": "Range: bytes=" + ",".join(f"{n}-" for n in range(2000)),
        "two hosts": "Host: evil.example",
        "expectation": "Expect: 200-ok",
        "upgrade": "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13",
        "upgrade to another version": "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAA",
        "forwarded": "X-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Host: evil\r\nForwarded: for=127.0.0.1",
        "other method": "X-HTTP-Method-Override: DELETE",
        "hundred cookies": "\r\n".join(["Cookie: a=b"] * 90),
    }
    path = "GET /zones HTTP/1.1"
    whole = {
        f"header: {name}": Attack([request(path, bearer, value, "Connection: close")], ANSWERED)
        for name, value in values.items()
    }
    many = b"".join(b"x-%d: a\r\n" % number for number in range(20_000))
    begun = request(path)[:-2]
    large = frozenset({431})
    return whole | {
        "twenty thousand headers": Attack([begun + many], large, answers=0),
        "one header too many": Attack([begun + many[: 9 * 150] + b"\r\n"], large, answers=0),
        "a header of 5 MB": Attack([begun + b"x: ", *[b"a" * 65536] * 80], large, answers=0),
        "a header name of 1 MB": Attack([begun, *[b"a" * 65536] * 16], large, answers=0),
        "a slow head": Attack([bytes([each]) for each in begun * 2], frozenset(), pause=0.1, answers=0),
        "half a head": Attack([begun], frozenset(), answers=0),
        "nothing": Attack([], frozenset(), answers=0),
    }


def lengths(token: str, smuggled: bytes) -> dict[str, Attack]:
    """Bodies whose end is disputed; `smuggled` is a request that must not be understood as one."""
    bearer = f"Authorization: Bearer {token}"
    post = "POST /zones HTTP/1.1"
    chunked = "Transfer-Encoding: chunked"
    disputed = {
        "length and chunks": ("Content-Length: 4", chunked),
        "chunks and length": (chunked, "Content-Length: 4"),
        "two lengths": ("Content-Length: 4", "Content-Length: 40"),
        "a list of lengths": ("Content-Length: 4, 40",),
        "signed length": ("Content-Length: +4",),
        "negative length": ("Content-Length: -1",),
        "hexadecimal length": ("Content-Length: 0x4",),
        "length beyond 64 bits": ("Content-Length: 18446744073709551617",),
        "chunks of another name": ("Transfer-Encoding: xchunked",),
        "chunks in brackets": ('Transfer-Encoding: "chunked"',),
        "chunks, then identity": ("Transfer-Encoding: chunked, identity",),
        "chunks hidden by a space": ("Transfer-Encoding : chunked",),
        "chunks hidden by a tab": ("Transfer-Encoding:\x0bchunked", "Content-Length: 4"),
        "identity and length": ("Transfer-Encoding: identity", "Content-Length: 4"),
    }
    body = b"0\r\n\r\n" + smuggled
    found = {
        name: Attack([request(post, bearer, *headers, body=body)], frozenset({400}), answers=0)
        for name, headers in disputed.items()
    }
    sizes = {
        "too long": b"F" * 20,
        "negative": b"-1",
        "no number": b"zz",
        "hexadecimal": b"0x5",
        "empty": b"",
    }
    found |= {
        f"chunk size {name}": Attack(
            [request(post, bearer, chunked, body=size + b"\r\n" + smuggled)], answers=0
        )
        for name, size in sizes.items()
    }
    return found


def bodies(token: str) -> dict[str, Attack]:
    """Bodies of requests that are in order otherwise."""
    bearer = f"Authorization: Bearer {token}"
    post = "POST /zones HTTP/1.1"
    contents = {
        "no UTF-8": b'{"name":"\xff\xfe"}',
        "overlong UTF-8": b'{"name":"\xc0\xaf"}',
        "an encoded surrogate": b'{"name":"\xed\xa0\x80"}',
        "UTF-16": '{"name":"x"}'.encode("utf-16"),
        "a byte order mark": b'\xef\xbb\xbf{"name":"x"}',
        "NUL": b"\x00" * 100,
        "an escaped NUL": b'{"name":"a\\u0000b"}',
        "a lone surrogate": b'{"name":"\\ud800"}',
        "nested lists": b"[" * 500_000,
        "nested objects": b'{"a":' * 150_000,
        "nested in a field": b'{"name":' + b"[" * 200_000 + b"]" * 200_000 + b"}",
        "a name twice": b'{"name":"a","name":7}',
        "a huge number": b'{"name":1' + b"0" * 500_000 + b"}",
        "a huge exponent": b'{"name":1e999999999}',
        "not a number": b'{"name":NaN}',
        "a hundred thousand members": b"{" + b",".join(b'"a%d":1' % n for n in range(80_000)) + b"}",
        "one character short of its quote": b'{"name":"' + b"a" * 900_000,
        "white space": b" " * 1_000_000 + b"x",
        "more than one": b'{"name":"a"}{"name":"b"}',
        "a list": b"[]",
        "a comment": b'{"name":"a"/**/}',
        "compressed": gzip.compress(b" " * 50_000_000),
        "a form": b"name=x&name=y",
        "markup": b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>',
    }
    types = (
        "application/json",
        "text/plain",
        "application/json; charset=utf-16",
        "multipart/form-data; boundary=x",
        "\xff",
    )
    found: dict[str, Attack] = {}
    for name, content in contents.items():
        headers = (bearer, f"Content-Length: {len(content)}", "Content-Encoding: gzip")
        found[f"body: {name}"] = Attack([request(post, *headers, body=content)])
    for name in types:
        headers = (bearer, f"Content-Type: {name}", "Content-Length: 2", "Connection: close")
        found[f"type {name}"] = Attack([request(post, *headers, body=b"{}")])
    return found | _endless(bearer, post)


def _endless(bearer: str, post: str) -> dict[str, Attack]:
    """Bodies that come slowly, partly, or without end: answered, and the connection ended."""
    chunked = request(post, bearer, "Transfer-Encoding: chunked")
    stated = request(post, bearer, "Content-Length: 100")
    late, large = frozenset({408}), frozenset({413})
    piece = b"1000\r\n" + b"a" * 4096 + b"\r\n"
    return {
        "a body that never comes": Attack([stated], late),
        "a slow body": Attack([stated, *[b"a"] * 60], late, pause=0.1, answers=0),
        "chunks that never come": Attack([chunked], late),
        "slow chunks": Attack([chunked, *[b"1\r\na\r\n"] * 60], late, pause=0.1, answers=0),
        "chunks without end": Attack([chunked, *[piece] * 3000], large, answers=0),
        "a chunk without end": Attack([chunked + b"fffffff\r\n", *[b"a" * 65536] * 600], large, answers=0),
        "an extension without end": Attack(
            [chunked + b"1;", *[b"a" * 65536] * 100], frozenset({431}), answers=0
        ),
        "trailers without end": Attack(
            [chunked + b"0\r\nx: ", *[b"a" * 65536] * 100], frozenset({431}), answers=0
        ),
        "a length beyond all bounds": Attack(
            [request(post, bearer, "Content-Length: 9223372036854775807"), *[b"a" * 65536] * 100],
            large,
            answers=0,
        ),
        "a body for nobody": Attack(
            [request("GET /health HTTP/1.1", "Content-Length: 99999999"), *[b"a" * 65536] * 100], READ
        ),
        "half a body, and gone": Attack([stated + b'{"name"'], frozenset({400}), finish=True, answers=0),
    }
