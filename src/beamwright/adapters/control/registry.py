"""The control adapters of the installation: one per kind of source, made when it is first asked for."""

import asyncio
from collections.abc import Callable
from importlib.util import find_spec

from beamwright.adapters.control.simulated import SimulatedControl
from beamwright.kernel.control import ControlPort, NoAdapterForAddressError

_NOT_BUILT_IN = {
    "pv_access": "PV Access is not built in: serve the value by Channel Access or http, or add an adapter over p4p.",
    "tango": "Tango is not built in: serve the value by Channel Access or http, or add an adapter over PyTango.",
}


class ControlAdapters:
    """Ports by source kind; `channel_access_addresses` is written as EPICS_CA_ADDR_LIST."""

    def __init__(
        self,
        *,
        channel_access_addresses: str | None = None,
        timeout: float = 5.0,
        poll_every: float = 1.0,
    ) -> None:
        self._addresses = channel_access_addresses
        self._timeout = timeout
        self._poll_every = poll_every
        self._ports: dict[str, ControlPort] = {}
        self._makers: dict[str, Callable[[], ControlPort]] = {
            "channel_access": self._channel_access,
            "http": self._http,
            "memory": lambda: self.memory,
            "simulated": lambda: self.simulated,
        }
        self.memory = SimulatedControl()
        self.simulated = SimulatedControl()

    @property
    def kinds(self) -> list[str]:
        return sorted(self._makers)

    def port(self, kind: str) -> ControlPort:
        if kind not in self._makers:
            known = f"No adapter serves {kind!r}; known kinds are {', '.join(self.kinds)}."
            raise NoAdapterForAddressError(kind, _NOT_BUILT_IN.get(kind, known))
        if kind not in self._ports:
            self._ports[kind] = self._makers[kind]()
        return self._ports[kind]

    async def aclose(self) -> None:
        """Close what was made; a port that is asked for later is made anew."""
        made = list(self._ports.values())
        self._ports.clear()
        await asyncio.gather(*(port.aclose() for port in made))

    def _channel_access(self) -> ControlPort:
        from beamwright.adapters.control.channel_access import ChannelAccess

        if find_spec("caproto") is None:
            raise NoAdapterForAddressError("channel_access", "Install caproto to use Channel Access.")
        return ChannelAccess(self._addresses, self._timeout)

    def _http(self) -> ControlPort:
        from beamwright.adapters.control.http_poll import HttpPoll

        return HttpPoll(self._poll_every, self._timeout)
