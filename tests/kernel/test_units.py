"""Units: which codes each system knows, and how a wrong one is refused."""

import time

import pytest

from beamwright.kernel.errors import InvalidError
from beamwright.kernel.units import Unit, UnitSystem, check_unit, known_code, meaning


class InvalidThingError(InvalidError):
    """The thing is malformed."""


UDUNITS = """
mm um µm μm degree degree/s mm/s rad mrad mA A keV eV s ms K degC °C Pa mbar Hz kHz 1 percent % count counts/s
N V W L/min 1/s arcsec arcmin m2 m^2 m**2 m² m-1 mm.s-1 kg.m2/s2 mol/(L.s) kilometers inches angstrom Å Ω ppm
rpm 1e-3
"""
SPACED = [
    "kg m2 s-2",
    "m per s",
    "(m/s)2",
    "0.1 lg(re 1 mW)",
    "K @ 273.15",
    "seconds since 1970-01-01T00:00:00Z",
]


@pytest.mark.parametrize("code", UDUNITS.split() + SPACED)
def test_udunits_knows(code: str) -> None:
    assert known_code(UnitSystem.UDUNITS, code)


@pytest.mark.parametrize(
    "code",
    ["pixel", "kev", "KeV", "foo", "", " mm", "mm ", "mm\n", "mm/", "/mm", "m//s", "(m", "m)", "()", "m^", "m^2^2", "m^999",
     "kkm", "\x00", ".m", "m @", "since 2000-01-01", "^2", "-1"],
)  # fmt: skip
def test_udunits_refuses(code: str) -> None:
    assert not known_code(UnitSystem.UDUNITS, code)


@pytest.mark.parametrize(
    "code", ["mm", "um", "deg", "deg/s", "keV", "Cel", "[ppm]", "%", "1", "{counts}/s", "m.s-2"]
)
def test_ucum_knows(code: str) -> None:
    assert known_code(UnitSystem.UCUM, code)


@pytest.mark.parametrize("code", ["µm", "degree", "foo", "", "mm ", "mm/", "m/" * 31 + "m"])
def test_ucum_refuses(code: str) -> None:
    assert not known_code(UnitSystem.UCUM, code)


@pytest.mark.parametrize(
    ("system", "code", "known"),
    [
        (UnitSystem.QUDT, "unit:MilliM", True),
        (UnitSystem.QUDT, "KiloGM-PER-M3", True),
        (UnitSystem.QUDT, "http://qudt.org/vocab/unit/MilliM", True),
        (UnitSystem.QUDT, "https://qudt.org/vocab/unit/DEG_C", True),
        (UnitSystem.QUDT, "https://example.org/MilliM", False),
        (UnitSystem.QUDT, "milli m", False),
        (UnitSystem.IEC61360, "0112/2///62720#UAA862", True),
        (UnitSystem.IEC61360, "0112/2///62720#UAA862##001", True),
        (UnitSystem.IEC61360, "0173-1#05-AAA123#001", True),
        (UnitSystem.IEC61360, "UAA862", False),
        (UnitSystem.IEC61360, "mm", False),
    ],
)
def test_other_systems_are_known_by_the_shape_of_their_codes(
    system: UnitSystem, code: str, known: bool
) -> None:
    assert known_code(system, code) is known


@pytest.mark.parametrize(
    "unit",
    [
        Unit(system=UnitSystem.UDUNITS, code=""),
        Unit(system=UnitSystem.UDUNITS, code="m" * 65),
        Unit(system=UnitSystem.UDUNITS, code="mm", label=""),
        Unit(system=UnitSystem.UDUNITS, code="mm", label="l" * 101),
        Unit(system=UnitSystem.UDUNITS, code="pixel"),
    ],
)
def test_a_wrong_unit_is_refused_at_its_place(unit: Unit) -> None:
    with pytest.raises(InvalidThingError) as refused:
        check_unit(unit, InvalidThingError, "/unit_in")
    assert refused.value.context == {"path": "/unit_in", "keyword": "unit"}


def test_a_label_does_not_change_the_meaning() -> None:
    plain = Unit(system=UnitSystem.UDUNITS, code="mm")
    assert meaning(plain) == meaning(Unit(system=UnitSystem.UDUNITS, code="mm", label="Millimetre"))
    assert meaning(plain) != meaning(Unit(system=UnitSystem.UCUM, code="mm"))
    assert meaning(None) is None


@pytest.mark.parametrize(
    "code", ["(" * 32 + "m" + ")" * 31, "m_" * 32, "m " * 32, "°" * 64, "1" * 64, "(m)/" * 16]
)
def test_no_code_takes_long(code: str) -> None:
    known_code(UnitSystem.UCUM, "m")
    start = time.thread_time()
    for system in UnitSystem:
        known_code(system, code)
    assert time.thread_time() - start < 0.5
