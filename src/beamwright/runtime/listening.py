"""One source of an observer: listening to it, and handing on what it says, newest last."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import UTC, datetime

import structlog

from beamwright.kernel.control import ControlNotConnectedError, ControlPort, ControlTimeoutError, Measurement
from beamwright.kernel.seams import Clock
from beamwright.kernel.value import Value, replace

log = structlog.get_logger("beamwright.observer")

# More than this many observations of one source are waiting: only the newest is worth reporting.
MOST_WAITING = 16
# A source that tells an earlier time has no clock.
FIRST_SOURCE_TIME = datetime(2000, 1, 1, tzinfo=UTC)

# The adapter of a source kind; raises for one that is not known here.
type Ports = Callable[[str], ControlPort]


class Timings(Value):
    """How an observer paces itself, in seconds."""

    lease: float = 15.0
    renew: float = 5.0
    poll: float = 5.0
    heartbeat: float = 10.0
    first_retry: float = 0.1
    longest_retry: float = 5.0
    first_reconnect: float = 1.0
    longest_reconnect: float = 60.0
    # What the last words at a stop may take altogether, and how long an unsubscription is waited for.
    farewell: float = 1.2
    goodbye: float = 1.0


class Silence(Value):
    """The source is not heard, and why."""

    reason: str


type Observation = Measurement | Silence


class Session:
    """One stretch of contact with a source, from connecting to the first failure of any kind."""

    def __init__(
        self,
        port: Callable[[], ControlPort],
        address: str,
        timings: Timings,
        now: Clock,
        tell: Callable[[Measurement], None],
    ) -> None:
        self._port = port
        self._address = address
        self._timings = timings
        self._now = now
        self._tell = tell
        self._tasks: list[asyncio.Task[None]] = []
        self._deliveries = 0
        self._delivered_at: datetime | None = None
        self._read_at: datetime | None = None
        self._over = False
        self.heard = False

    async def listen(self) -> BaseException:
        """Hear the source until its subscription or a reading of it ends; why it ended."""
        try:
            port = self._port()
            self._tasks = [
                asyncio.create_task(self._subscribe(port)),
                asyncio.create_task(self._read_regularly(port)),
            ]
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        except Exception as error:  # noqa: BLE001 - whatever it is, the source is not heard
            return error
        finally:
            self._over = True
        failures = [task.exception() for task in self._tasks if task.done() and not task.cancelled()]
        ended = ControlNotConnectedError(self._address, "the subscription ended")
        return next((failure for failure in failures if failure is not None), ended)

    async def close(self) -> None:
        """Unsubscribe; an adapter that does not let go is left behind."""
        self._over = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._timings.goodbye)

    async def _subscribe(self, port: ControlPort) -> None:
        stream = port.subscribe(self._address)
        try:
            async for measurement in stream:
                self._deliveries += 1
                at = source_time(measurement)
                if not self._overtaken(at):
                    self._hear(measurement)
                self._delivered_at = at
        finally:
            if isinstance(stream, AsyncGenerator):
                await stream.aclose()

    async def _read_regularly(self, port: ControlPort) -> None:
        while True:
            await asyncio.sleep(self._timings.heartbeat)
            before = self._deliveries
            try:
                async with asyncio.timeout(self._timings.heartbeat):
                    measurement = await port.read(self._address)
            except TimeoutError:
                raise ControlTimeoutError(self._address, "no answer within a heartbeat") from None
            # What was delivered while the reading was under way may be newer than the reading.
            if self._deliveries == before:
                self._read_at = source_time(measurement)
                self._hear(measurement)

    def _overtaken(self, at: datetime | None) -> bool:
        """Whether a reading told something later than this delivery, which keeps the order of deliveries."""
        if at is None or self._read_at is None:
            return False
        return at < self._read_at and (self._delivered_at is None or self._delivered_at <= at)

    def _hear(self, measurement: Measurement) -> None:
        if not self._over:
            self.heard = True
            self._tell(replace(measurement, produced_at=source_time(measurement) or self._now()))


def source_time(measurement: Measurement) -> datetime | None:
    """When the source says that it produced this, if it has a clock."""
    at = measurement.produced_at
    return at if at is not None and at >= FIRST_SOURCE_TIME else None


class Reporter:
    """Has the observations of one source recorded in order; what cannot be recorded waits for a newer one."""

    def __init__(self, record: Callable[[Observation], Awaitable[None]], timings: Timings) -> None:
        self._record = record
        self._timings = timings
        self._waiting: deque[Observation] = deque()
        self._wanted = asyncio.Event()
        self._idle = asyncio.Event()
        self._hurry = asyncio.Event()
        self._closed = False

    def offer(self, observation: Observation) -> None:
        if self._closed:
            return
        if len(self._waiting) == MOST_WAITING:
            self._waiting.clear()
        self._waiting.append(observation)
        self._idle.clear()
        self._wanted.set()

    def close(self, last: Observation | None = None) -> None:
        """Take nothing after this last word, which replaces all that waits."""
        if last is not None:
            self._waiting.clear()
            self.offer(last)
            self._hurry.set()
        self._closed = True

    async def settled(self) -> None:
        """Until nothing waits to be recorded."""
        await self._idle.wait()

    async def run(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            pause = self._timings.first_retry
            while self._waiting:
                observation = self._waiting[0]
                try:
                    await self._record(observation)
                except Exception as error:  # noqa: BLE001 - kept and tried again, whatever it was
                    log.warning("observation_not_recorded", error=told(error))
                    await self._rest(pause)
                    pause = min(2 * pause, self._timings.longest_retry)
                    while len(self._waiting) > 1:
                        self._waiting.popleft()
                    continue
                pause = self._timings.first_retry
                if self._waiting and self._waiting[0] is observation:
                    self._waiting.popleft()
            self._idle.set()

    async def _rest(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._hurry.wait()
            self._hurry.clear()
        except TimeoutError:
            return


def told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:500]
