"""A real Channel Access server (caproto) in a process of its own, which tests can change, kill and restart.

    with Ioc({"BW:permit": {"type": "enum", "value": "Closed", "labels": ["Open", "Closed"]}}) as ioc:
        control = ChannelAccess(ioc.addresses)
        ioc.put("BW:permit", "Open")
        ioc.kill()
        ioc.start()

A channel is described by `type` (double, float, long, short, enum, string, char), `value`, and if wanted `unit`,
`labels`, `length` (of an array), `limits` (a pair: values outside are refused), `read_only`, `slow` (writes never
complete) and `at` (the time of its first value, in seconds since 1970).
"""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from typing import Any, Self

HOST = "127.0.0.1"


class Ioc:
    """Channels served on a loopback port of their own; `addresses` and `environment` say where."""

    def __init__(self, channels: dict[str, dict[str, Any]]) -> None:
        self.channels = channels
        self.port = free_port()
        self.addresses = f"{HOST}:{self.port}"
        self.environment = {
            "EPICS_CA_ADDR_LIST": HOST,
            "EPICS_CA_AUTO_ADDR_LIST": "NO",
            "EPICS_CA_SERVER_PORT": str(self.port),
            "EPICS_CA_REPEATER_PORT": str(free_port()),
        }
        self._complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._complaints.close()

    def start(self) -> None:
        """Serve, with the values given at first; returns when the server answers."""
        beacons = {"EPICS_CAS_BEACON_ADDR_LIST": HOST, "EPICS_CAS_AUTO_BEACON_ADDR_LIST": "NO"}
        self._process = subprocess.Popen(
            [sys.executable, __file__, json.dumps(self.channels)],
            env=os.environ | self.environment | beacons,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            text=True,
        )
        self._ask({})

    def put(self, name: str, value: Any, **about: Any) -> None:
        """Change a channel from within: `severity` and `status` by number, `timestamp` in seconds since 1970."""
        self._ask({"name": name, "value": value} | about)

    def subscribers(self, name: str) -> int:
        """How many subscriptions the server holds on this channel."""
        return self._ask({"count": name})

    def pause(self) -> None:
        """Let it answer nothing while its sockets stay open; `resume`, or `kill`, ends that."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """At once, as by kill -9."""
        if self._process is None:
            return
        self._process.kill()
        self._process.communicate()
        self._process = None

    def _ask(self, request: dict[str, Any]) -> Any:
        assert self._process is not None and self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            self.kill()
            self._complaints.seek(0)
            raise AssertionError(f"the server ended: {self._complaints.read()}")
        return json.loads(answer)


def free_port() -> int:
    """A loopback port that is free for TCP and for UDP."""
    while True:
        with socket.socket() as stream, socket.socket(type=socket.SOCK_DGRAM) as datagram:
            stream.bind((HOST, 0))
            port = stream.getsockname()[1]
            try:
                datagram.bind((HOST, port))
            except OSError:
                continue
            return port


def _channel(spec: dict[str, Any]) -> Any:
    import caproto

    kinds: dict[str, Any] = {
        "double": caproto.ChannelDouble,
        "float": caproto.ChannelFloat,
        "long": caproto.ChannelInteger,
        "short": caproto.ChannelShort,
        "enum": caproto.ChannelEnum,
        "string": caproto.ChannelString,
        "char": caproto.ChannelByte,
    }

    class Channel(kinds[spec["type"]]):
        def check_access(self, hostname: str, username: str) -> Any:
            rights = caproto.AccessRights
            return rights.READ if spec.get("read_only") else rights.READ | rights.WRITE

        async def write_from_dbr(self, *args: Any, **kwargs: Any) -> Any:
            if spec.get("slow"):
                await asyncio.Event().wait()
            return await super().write_from_dbr(*args, **kwargs)

    options: dict[str, Any] = {"value": spec["value"]}
    if spec["type"] == "enum":
        options["enum_strings"] = spec["labels"]
    if "unit" in spec:
        options["units"] = spec["unit"]
    if "length" in spec:
        options["max_length"] = spec["length"]
    if "limits" in spec:
        options["lower_ctrl_limit"], options["upper_ctrl_limit"] = spec["limits"]
    if "at" in spec:
        options["timestamp"] = spec["at"]
    return Channel(**options)


async def _serve(channels: dict[str, Any]) -> None:
    from caproto.asyncio.server import Context

    context = Context(channels, [HOST])

    async def obey(_: Any) -> None:
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
        )
        while line := await reader.readline():
            print(json.dumps(await _obeyed(context, channels, json.loads(line))), flush=True)
        os._exit(0)

    await context.run(startup_hook=obey)


async def _obeyed(context: Any, channels: dict[str, Any], request: dict[str, Any]) -> Any:
    if "count" in request:
        held = [
            sub for circuit in context.circuits for subs in circuit.subscriptions.values() for sub in subs
        ]
        return sum(sub.channel.name == request["count"] for sub in held)
    if "name" in request:
        channel = channels[request.pop("name")]
        # Unverified: verifying a number sets its alarm by its limits.
        await channel.write(request.pop("value"), verify_value=False, **request)
    return None


if __name__ == "__main__":
    asyncio.run(_serve({name: _channel(spec) for name, spec in json.loads(sys.argv[1]).items()}))
