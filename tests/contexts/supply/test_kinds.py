"""The kinds of supplies: the starter vocabulary and those in use."""

import asyncio
from typing import Any, cast

from beamwright.contexts.supply.supply_reads import ListSupplyKinds, SupplyKindUse
from beamwright.kernel.operation import World

TALLY = {
    ("vacuum", "Available"): 2,
    ("vacuum", "Degraded"): 1,
    ("vacuum", "Decommissioned"): 5,
    ("helium", "Unknown"): 1,
    ("argon", "Decommissioned"): 1,
}


class TalliedWorld:
    """A world that has counted supplies."""

    async def tally(self, aggregate: Any, *by: str) -> dict[tuple[str, ...], int]:
        assert by == ("kind", "status")
        return cast(dict[tuple[str, ...], int], TALLY)


def kinds() -> list[SupplyKindUse]:
    return asyncio.run(ListSupplyKinds().answer(cast(World, TalliedWorld()))).items


def test_the_starter_vocabulary_comes_first_and_is_always_there() -> None:
    assert [use.kind for use in kinds() if use.starter][:3] == ["photon_beam", "cryogen", "vacuum"]


def test_kinds_in_use_are_counted_without_the_deregistered() -> None:
    assert SupplyKindUse(kind="vacuum", starter=True, count=3, available=2) in kinds()


def test_other_kinds_are_listed_while_in_use() -> None:
    others = [use for use in kinds() if not use.starter]
    assert others == [SupplyKindUse(kind="helium", starter=False, count=1, available=0)]
