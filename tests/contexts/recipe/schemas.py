"""Parameters schemas for rule tests."""

from typing import Any

KILOELECTRONVOLT = {"system": "udunits", "code": "keV"}


def closed(**properties: Any) -> dict[str, Any]:
    """A closed schema of the given properties."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        "unevaluatedProperties": False,
    }


def energy(**keywords: Any) -> dict[str, Any]:
    """A closed schema of one property `energy`, in keV."""
    return closed(energy={"type": "number", "unit": KILOELECTRONVOLT} | keywords)


MALFORMED = {"type": "object"}
