"""The choice of an adapter by the kind of a source."""

import asyncio
import subprocess
import sys

import pytest

from beamwright.adapters.control.channel_access import ChannelAccess
from beamwright.adapters.control.http_poll import HttpPoll
from beamwright.adapters.control.registry import ControlAdapters
from beamwright.kernel.control import ControlNotConnectedError, NoAdapterForAddressError


def test_each_kind_has_its_adapter() -> None:
    async def scenario() -> list[bool]:
        adapters = ControlAdapters()
        try:
            return [
                isinstance(adapters.port("channel_access"), ChannelAccess),
                isinstance(adapters.port("http"), HttpPoll),
                adapters.port("simulated") is adapters.simulated,
                adapters.port("memory") is adapters.memory,
            ]
        finally:
            await adapters.aclose()

    assert all(asyncio.run(scenario()))


def test_a_kind_has_one_adapter() -> None:
    adapters = ControlAdapters()
    assert adapters.port("channel_access") is adapters.port("channel_access")


def test_memory_and_simulated_devices_are_apart() -> None:
    adapters = ControlAdapters()
    adapters.memory.put("shutter", 1)
    with pytest.raises(ControlNotConnectedError):
        asyncio.run(adapters.port("simulated").read("shutter"))


def test_an_unknown_kind_is_refused_with_the_known_ones() -> None:
    with pytest.raises(NoAdapterForAddressError, match="channel_access, http, memory, simulated"):
        ControlAdapters().port("carrier_pigeon")


@pytest.mark.parametrize(("kind", "library"), [("pv_access", "p4p"), ("tango", "PyTango")])
def test_a_kind_that_is_not_built_in_says_what_helps(kind: str, library: str) -> None:
    with pytest.raises(NoAdapterForAddressError, match=f"is not built in.*{library}"):
        ControlAdapters().port(kind)


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("beamwright.adapters.control.registry.find_spec", lambda name: None)
    with pytest.raises(NoAdapterForAddressError, match="Install caproto"):
        ControlAdapters().port("channel_access")


def test_closing_closes_what_was_made() -> None:
    async def scenario() -> None:
        adapters = ControlAdapters()
        port = adapters.port("http")
        await adapters.aclose()
        with pytest.raises(ControlNotConnectedError):
            await port.read("http://127.0.0.1:1/")

    asyncio.run(scenario())


def test_nothing_is_imported_before_it_is_needed() -> None:
    program = """
import sys
from beamwright.adapters.control.registry import ControlAdapters
ControlAdapters().port("channel_access")
sys.exit("caproto" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
