"""The starter quantities: what most facilities calibrate, kept as data and given as ordinary commands."""

from importlib.resources import files
from uuid import UUID

import msgspec

from beamwright.kernel.declared_schema import Schema
from beamwright.kernel.value import Value
from beamwright.kernel.wellknown import seeded_quantity

from .quantity import DefineCalibrationQuantity, QuantityLookup


class StarterQuantity(Value, forbid_unknown_fields=True):
    """One entry of `quantities.json`."""

    number: int
    code: str
    title: str
    description: str
    operating_point_schema: Schema
    value_schema: Schema
    lookup: QuantityLookup | None

    def command(self) -> DefineCalibrationQuantity:
        return DefineCalibrationQuantity(
            code=self.code,
            title=self.title,
            description=self.description,
            operating_point_schema=self.operating_point_schema,
            value_schema=self.value_schema,
            lookup=self.lookup,
        )


def starter_quantities() -> list[tuple[UUID, DefineCalibrationQuantity]]:
    """What the first start defines, and under which ids."""
    text = (files(__package__) / "quantities.json").read_bytes()
    entries = msgspec.json.decode(text, type=list[StarterQuantity])
    return [(seeded_quantity(entry.number), entry.command()) for entry in entries]
