"""The kinds of supplies: those that are offered to choose from, and those in use."""

from collections import Counter

from beamwright.kernel.operation import Query, World
from beamwright.kernel.value import Value

from .supply import SupplyStatus, supplies

# Offered and never enforced: a facility names its supplies as it likes.
STARTER_KINDS = (
    "photon_beam",
    "cryogen",
    "vacuum",
    "electricity",
    "compressed_air",
    "process_gas",
    "neutron_flux",
    "FELPulses",
    "ComputePool",
)


class SupplyKindUse(Value):
    """A kind: whether it is of the starter vocabulary, how many supplies it has in use, and how many available."""

    kind: str
    starter: bool
    count: int
    available: int


class SupplyKindList(Value):
    """The starter vocabulary in its order, then every other kind in use by name."""

    items: list[SupplyKindUse]


@supplies.operation("GET /supplies/kinds")
class ListSupplyKinds(Query[SupplyKindList]):
    """List the kinds of supplies: the starter vocabulary and the kinds in use."""

    async def answer(self, world: World) -> SupplyKindList:
        count, available = Counter[str](), Counter[str]()
        for (kind, status), number in (await world.tally(supplies, "kind", "status")).items():
            if status != SupplyStatus.DECOMMISSIONED:
                count[kind] += number
            if status == SupplyStatus.AVAILABLE:
                available[kind] += number
        kinds = (*STARTER_KINDS, *sorted(count.keys() - set(STARTER_KINDS)))
        return SupplyKindList(
            items=[
                SupplyKindUse(
                    kind=kind, starter=kind in STARTER_KINDS, count=count[kind], available=available[kind]
                )
                for kind in kinds
            ]
        )
