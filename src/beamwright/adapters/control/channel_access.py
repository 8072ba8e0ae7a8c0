"""Channel Access (EPICS) by caproto's asyncio client, which is imported with the first address used."""

import asyncio
import getpass
import re
import socket
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any

from beamwright.kernel.control import (
    ControlAccessDeniedError,
    ControlError,
    ControlNotConnectedError,
    ControlTimeoutError,
    ControlValue,
    ControlValueCoercionError,
    ControlWriteRejectedError,
    MalformedControlAddressError,
    Measurement,
    MeasurementKind,
    Quality,
)

# A channel that nobody uses keeps its connection this long, so that a loop of reads does not search each time.
LINGER = 30.0
# Unread changes of one subscription; the oldest gives way, as it does in a Channel Access server.
INBOX = 1000
# A farewell to a server is not waited for longer.
FAREWELL = 1.0

_NAME = re.compile(r"[!-~]{1,500}")
_EPOCH = datetime(1990, 1, 1, tzinfo=UTC)
_QUALITIES = (Quality.GOOD, Quality.UNCERTAIN, Quality.BAD, Quality.BAD)
_RANGES = {
    "CHAR": (0, 255),
    "INT": (-(2**15), 2**15 - 1),
    "LONG": (-(2**31), 2**31 - 1),
    "FLOAT": (-3.4e38, 3.4e38),
    "DOUBLE": (-sys.float_info.max, sys.float_info.max),
}
_LONGEST_TEXT = 39


class ChannelAccess:
    """One connection per address: what breaks is thrown away whole, and touches no other address.

    `addresses` is written as EPICS_CA_ADDR_LIST and replaces it; all else comes from the EPICS environment.
    `timeout` bounds the search and connection of a channel, and each answer to a read.

    An enumerated channel reads as its label. An address that ends in `$` reads as text.
    """

    def __init__(self, addresses: str | None = None, timeout: float = 5.0) -> None:
        self._addresses = addresses
        self._timeout = timeout
        self._links: dict[str, _Link] = {}
        self._farewells: set[asyncio.Task[None]] = set()
        self._closed = False

    async def read(self, address: str) -> Measurement:
        with self._using(address) as link:
            await link.connect(self._timeout)
            return await link.read(self._timeout)

    async def write(
        self, address: str, value: ControlValue, *, wait: bool = True, within: float = 30.0
    ) -> None:
        clock = asyncio.get_running_loop().time
        ends = clock() + within
        with self._using(address) as link:
            await link.connect(min(self._timeout, within))
            await link.write(value, wait, max(0.0, ends - clock()))

    async def subscribe(self, address: str) -> AsyncGenerator[Measurement, None]:
        with self._using(address) as link:
            await link.connect(self._timeout)
            inbox = link.listen()
            try:
                yield await link.next(inbox, self._timeout)
                while True:
                    yield await link.next(inbox, None)
            finally:
                await link.unlisten(inbox)

    async def aclose(self) -> None:
        """End every connection; whoever still listens is told that contact was lost."""
        self._closed = True
        for link in list(self._links.values()):
            link.lose("the adapter was closed")
        await asyncio.gather(*self._farewells)

    @contextmanager
    def _using(self, address: str) -> Generator["_Link"]:
        link = self._link(address)
        link.users += 1
        try:
            yield link
        finally:
            link.users -= 1
            if link.users == 0:
                self._leave(link)

    def _link(self, address: str) -> "_Link":
        if self._closed:
            raise ControlNotConnectedError(address, "the adapter was closed")
        if not _NAME.fullmatch(address):
            raise MalformedControlAddressError(address, "a channel name is printable ASCII without spaces")
        link = self._links.get(address)
        if link is None:
            link = self._links[address] = _Link(address, self._addresses, self._retire)
        if link.leaving is not None:
            link.leaving.cancel()
            link.leaving = None
        return link

    def _leave(self, link: "_Link") -> None:
        """Nobody uses it now: a channel that never answered is not searched for any longer."""
        if link.connected:
            link.leaving = asyncio.get_running_loop().call_later(LINGER, link.lose, "nobody used it")
        else:
            link.lose("nothing answered")

    def _retire(self, link: "_Link") -> None:
        if link.leaving is not None:
            link.leaving.cancel()
        if self._links.get(link.address) is link:
            del self._links[link.address]
        farewell = asyncio.get_running_loop().create_task(link.close())
        self._farewells.add(farewell)
        farewell.add_done_callback(self._farewells.discard)


_owner: ContextVar["_Link | None"] = ContextVar("owner", default=None)


class _Link:
    """One channel in a client context of its own.

    caproto's context searches for ever for what it has once been asked for, and forgets tasks of circuits that
    died: so each address has a context that ends with it, whose tasks are known by the context variable that
    they inherit.
    """

    def __init__(self, address: str, addresses: str | None, retire: Callable[["_Link"], None]) -> None:
        loop = asyncio.get_running_loop()
        self.address = address
        self.users = 0
        self.leaving: asyncio.TimerHandle | None = None
        self._addresses = addresses
        self._retire = retire
        self._lost: asyncio.Future[str] = loop.create_future()
        self._inboxes: dict[asyncio.Queue[Any], Any] = {}
        self._labels: list[str] = []
        self._unit: str | None = None
        # caproto is not typed.
        self._caproto: Any = None
        self._context: Any = None
        self._pv: Any = None
        inherited = copy_context()
        inherited.run(_owner.set, self)
        self._opening = loop.create_task(self._open(), context=inherited)
        self._opening.add_done_callback(self._on_opened)

    @property
    def connected(self) -> bool:
        return self._opening.done() and not self._lost.done()

    async def connect(self, seconds: float) -> None:
        await asyncio.wait({self._opening, self._lost}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        self._check_contact()
        if not self._opening.done():
            raise ControlNotConnectedError(self.address, f"no answer to the search within {seconds:.3g} s")

    async def read(self, seconds: float) -> Measurement:
        self._check_right("READ")
        asked = self._pv.read(data_type="time", data_count=self._count, timeout=None)
        return self._measured(await self._answer(asked, seconds))

    async def write(self, value: ControlValue, wait: bool, seconds: float) -> None:
        self._check_right("WRITE")
        data = self._coerced(value)
        asked = self._pv.write(data, data_count=len(data), wait=wait, timeout=None)
        answer = await self._answer(asked, seconds, expected=wait)
        if wait:
            self._check_success(answer, ControlWriteRejectedError)

    def listen(self) -> asyncio.Queue[Any]:
        """Responses as they come, and None when contact is lost."""
        self._check_right("READ")
        inbox: asyncio.Queue[Any] = asyncio.Queue(INBOX)

        # A coroutine function, since caproto would call a plain one in a thread; and caproto holds it weakly.
        async def deliver(subscription: Any, response: Any) -> None:
            _push(inbox, response)

        kinds = self._caproto.SubscriptionType
        subscription = self._pv.subscribe(
            data_type="time", data_count=self._count, mask=kinds.DBE_VALUE | kinds.DBE_ALARM
        )
        self._inboxes[inbox] = (subscription, subscription.add_callback(deliver), deliver)
        return inbox

    async def unlisten(self, inbox: asyncio.Queue[Any]) -> None:
        subscription, token, _ = self._inboxes.pop(inbox)
        with suppress(*self._failures):
            async with asyncio.timeout(FAREWELL):
                await subscription.remove_callback(token)

    async def next(self, inbox: asyncio.Queue[Any], seconds: float | None) -> Measurement:
        try:
            async with asyncio.timeout(seconds):
                response = await inbox.get()
        except TimeoutError:
            raise ControlTimeoutError(self.address, f"no first value within {seconds:.3g} s") from None
        if response is None:
            self._check_contact()
        return self._measured(response)

    def lose(self, reason: str) -> None:
        """End it for everybody who uses it; the first reason stands."""
        if self._lost.done():
            return
        self._lost.set_result(reason)
        for inbox in self._inboxes:
            _push(inbox, None)
        self._retire(self)

    async def close(self) -> None:
        """Leave no task and no socket behind."""
        if self._context is not None:
            managers = list(self._context.circuit_managers.values())
            writers = [manager.transport.writer for manager in managers if manager.transport]
            with suppress(*self._failures):
                async with asyncio.timeout(FAREWELL):
                    await self._context.disconnect()
                    for writer in writers:
                        writer.close()
                        await writer.wait_closed()
        here = asyncio.current_task()
        tasks = [task for task in asyncio.all_tasks() if task.get_context().get(_owner) is self]
        others = [task for task in tasks if task is not here]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        # Closed transports close their sockets in the next round of the event loop.
        await asyncio.sleep(0)

    @property
    def _failures(self) -> tuple[type[BaseException], ...]:
        """What caproto raises when a server or the network fails; a lost write answers with a KeyError."""
        common = import_module("caproto.client.common")
        return (self._caproto.CaprotoError, common.ClientException, OSError, KeyError)

    @property
    def _count(self) -> int:
        """As many elements as there are: a fixed count would be filled up with zeros."""
        return 1 if self._pv.channel.native_data_count == 1 else 0

    @property
    def _type(self) -> str:
        return self._pv.channel.native_data_type.name

    async def _open(self) -> None:
        # The first import takes a third of a second, which the event loop shall not wait for.
        client: Any = await asyncio.to_thread(import_module, "caproto.asyncio.client")
        self._caproto = import_module("caproto")
        broadcaster = _broadcaster(client, await _targets(self._caproto, self._addresses))
        self._context = client.Context(broadcaster, timeout=None, client_name=_user())
        [self._pv] = await self._context.get_pvs(self.address, connection_state_callback=self._on_connection)
        await self._pv.wait_for_connection(timeout=None)
        self._hear_refusals(self._pv.circuit_manager)
        await self._learn()

    def _on_opened(self, opening: asyncio.Task[None]) -> None:
        error = None if opening.cancelled() else opening.exception()
        if error is not None:
            self.lose(f"{type(error).__name__}: {error}")

    async def _learn(self) -> None:
        """The unit of a number and the labels of an enumeration, which come with no later reading."""
        if self._type == "STRING" or not self._allows("READ"):
            return
        answer = await self._pv.read(data_type="control", data_count=1, timeout=None)
        if not self._succeeded(answer):
            return
        if self._type == "ENUM":
            self._labels = [_text(label) for label in answer.metadata.enum_strings]
        else:
            self._unit = _text(answer.metadata.units) or None

    async def _on_connection(self, _: Any, state: str) -> None:
        if state == "disconnected":
            self.lose("the server disconnected")

    def _hear_refusals(self, manager: Any) -> None:
        """caproto's client overhears error responses: whoever waits for that answer shall have it."""
        process = manager._process_command
        answered = (self._caproto.ReadNotifyRequest.ID, self._caproto.WriteNotifyRequest.ID)

        async def heard(command: Any) -> None:
            await process(command)
            if isinstance(command, self._caproto.ErrorResponse):
                request = command.original_request
                waiting = manager.ioids.pop(request.parameter2, None) if request.command in answered else None
                if waiting is not None:
                    waiting["response"] = command
                    waiting["event"].set()

        manager._process_command = heard

    async def _answer(self, asked: Coroutine[Any, Any, Any], seconds: float, expected: bool = True) -> Any:
        """What the server says, unless contact is lost or time runs out before."""
        task = asyncio.ensure_future(asked)
        try:
            await asyncio.wait({task, self._lost}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                self._check_contact()
                raise ControlTimeoutError(self.address, f"no answer within {seconds:.3g} s")
            answer = task.result()
        except self._failures as error:
            raise ControlNotConnectedError(self.address, f"{type(error).__name__}: {error}") from error
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if expected and answer is None:
            raise ControlNotConnectedError(self.address, "the server disconnected")
        return answer

    def _check_contact(self) -> None:
        if self._lost.done():
            raise ControlNotConnectedError(self.address, self._lost.result())

    def _allows(self, right: str) -> bool:
        rights = self._pv.access_rights
        return rights is None or self._caproto.AccessRights[right] in rights

    def _check_right(self, right: str) -> None:
        self._check_contact()
        if not self._allows(right):
            raise ControlAccessDeniedError(self.address, f"the server grants no {right.lower()} access")

    def _succeeded(self, response: Any) -> bool:
        return bool(response.status.success) and not isinstance(response, self._caproto.ErrorResponse)

    def _check_success(self, response: Any, refusal: type[ControlError]) -> None:
        if self._succeeded(response):
            return
        denied = response.status.name in ("ECA_NORDACCESS", "ECA_NOWTACCESS")
        # Only an error response has words of its own.
        words = _text(getattr(response, "error_message", b""))
        detail = f"{response.status.description}: {words}" if words else response.status.description
        raise (ControlAccessDeniedError if denied else refusal)(self.address, detail)

    def _measured(self, response: Any) -> Measurement:
        self._check_success(response, ControlNotConnectedError)
        about = response.metadata
        value, kind = self._value(response.data)
        return Measurement(
            value=value,
            kind=kind,
            index=int(response.data[0]) if kind is MeasurementKind.CATEGORICAL else None,
            quality=_QUALITIES[int(about.severity)],
            quality_detail=self._alarm(about),
            produced_at=_EPOCH
            + timedelta(seconds=about.secondsSinceEpoch, microseconds=about.nanoSeconds // 1000),
            name=self.address,
            unit=self._unit,
        )

    def _alarm(self, about: Any) -> str | None:
        severity = self._caproto.AlarmSeverity(about.severity)
        return f"{severity.name} {self._caproto.AlarmStatus(about.status).name}" if severity else None

    def _value(self, data: Any) -> tuple[ControlValue, MeasurementKind]:
        if self._type == "CHAR" and self.address.endswith("$"):
            return _text(bytes(element & 255 for element in data)), MeasurementKind.SCALAR
        # Arrays of numpy, where it is installed, would yield numbers of its own.
        raw: list[Any] = data.tolist() if hasattr(data, "tolist") else list(data)
        elements = [self._element(element) for element in raw]
        if self._pv.channel.native_data_count != 1 or not elements:
            return elements, MeasurementKind.ARRAY
        kind = MeasurementKind.CATEGORICAL if self._type == "ENUM" else MeasurementKind.SCALAR
        return elements[0], kind

    def _element(self, element: Any) -> Any:
        match self._type:
            case "STRING":
                return _text(element)
            case "ENUM" if int(element) < len(self._labels) and self._labels[int(element)]:
                return self._labels[int(element)]
            case "CHAR":
                return int(element) & 255
            case _:
                return element

    def _coerced(self, value: ControlValue) -> Any:
        """The value as the wire wants it, in the channel's own type; no fraction and no end is cut off."""
        channel = self._pv.channel
        if self._type == "CHAR" and isinstance(value, str):
            data = value.encode() + b"\0"
        else:
            elements = value if isinstance(value, list) else [value]
            data = [self._coerced_element(element) for element in elements]
        if not 1 <= len(data) <= channel.native_data_count:
            raise ControlValueCoercionError(
                self.address, f"{len(data)} elements do not fit into {channel.native_data_count}"
            )
        return bytes(data) if self._type == "CHAR" else data

    def _coerced_element(self, value: Any) -> Any:
        match self._type, value:
            case "STRING", str() if len(value.encode()) <= _LONGEST_TEXT:
                return value.encode()
            case "ENUM", str() if value in self._labels:
                return self._labels.index(value)
            case "ENUM", int() if 0 <= value < (len(self._labels) or 16):
                return int(value)
            case type, int() | float() if type in _RANGES and _RANGES[type][0] <= value <= _RANGES[type][1]:
                if type in ("FLOAT", "DOUBLE"):
                    return float(value)
                if value == int(value):
                    return int(value)
            case _:
                pass
        labels = f" of {', '.join(self._labels)}" if self._labels else ""
        raise ControlValueCoercionError(self.address, f"{value!r} is no {self._type}{labels}")


def _push(inbox: asyncio.Queue[Any], item: Any) -> None:
    if inbox.full():
        inbox.get_nowait()
    inbox.put_nowait(item)


def _text(raw: Any) -> str:
    """Text as servers send it: up to the first NUL, and in UTF-8 or, from older ones, in Latin-1."""
    text = bytes(raw).partition(b"\0")[0]
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text.decode("latin-1")


def _user() -> str:
    """Whom the server's access rules see; in a container a process may have no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "beamwright"


async def _targets(caproto: Any, addresses: str | None) -> list[Any]:
    """Where to search, resolved here since caproto would block for each name each time."""
    if addresses is None:
        places = caproto.get_client_address_list()
    else:
        port = caproto.get_environment_variables()["EPICS_CA_SERVER_PORT"]
        split = import_module("caproto._utils").get_address_and_port_from_string
        places = [split(address, port) for address in addresses.split()]
    loop = asyncio.get_running_loop()
    found = [
        await loop.getaddrinfo(host, port, family=socket.AF_INET, type=socket.SOCK_DGRAM)
        for host, port in places
    ]
    return [infos[0][4] for infos in found]


def _broadcaster(client: Any, targets: list[Any]) -> Any:
    """Searches at these places; one that cannot be reached keeps none of the others from being asked."""

    class Broadcaster(client.SharedBroadcaster):
        protocol: Any = None

        async def send(self, *commands: Any) -> None:
            datagram = self.broadcaster.send(*commands)
            for target in targets:
                with suppress(OSError):
                    self.wrapped_transport.transport.sendto(datagram, target)

        async def _create_socket(self) -> None:
            # caproto's own socket may share its port with that of another client, which then has its answers.
            self.udp_sock = socket.socket(type=socket.SOCK_DGRAM)
            self.udp_sock.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            self.udp_sock.setblocking(False)
            self.udp_sock.bind(("", 0))
            await self._create_transport()

    return Broadcaster()
