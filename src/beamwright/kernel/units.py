"""Units of measurement as schemas annotate them: a code that means something within its system."""

import re
from collections.abc import Callable
from enum import StrEnum
from functools import lru_cache
from importlib import import_module
from typing import Annotated, Any
from unicodedata import normalize

from msgspec import Meta

from .errors import InvalidError
from .value import Value

CODE_LENGTH = 64
LABEL_LENGTH = 100


class UnitSystem(StrEnum):
    """Who defines what a unit's code means."""

    UDUNITS = "udunits"
    UCUM = "ucum"
    QUDT = "qudt"
    IEC61360 = "iec61360"


class Unit(Value):
    """The unit that a number is written, stored and answered in."""

    system: UnitSystem
    code: Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": CODE_LENGTH})]
    label: Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": LABEL_LENGTH})] | None = None


def meaning(unit: Unit | None) -> tuple[UnitSystem, str] | None:
    """What decides the meaning of a number; the label is display text."""
    return None if unit is None else (unit.system, unit.code)


def check_unit(unit: Unit, refusal: type[InvalidError], path: str) -> None:
    """Raise `refusal` unless lengths are within bounds and the code is one of its system."""
    fault = unit_fault(unit)
    if fault:
        raise refusal(fault, path=path, keyword="unit")


def unit_fault(unit: Unit) -> str | None:
    """What is wrong with `unit`, in a sentence, or None."""
    if not 1 <= len(unit.code) <= CODE_LENGTH:
        return f"The code of a unit must have 1 to {CODE_LENGTH} characters."
    if unit.label is not None and not 1 <= len(unit.label) <= LABEL_LENGTH:
        return f"The label of a unit must have 1 to {LABEL_LENGTH} characters."
    if not known_code(unit.system, unit.code):
        return f"{unit.code!r} is not a unit of {unit.system}; write it as in {_EXAMPLES[unit.system]}."
    return None


@lru_cache(maxsize=4096)
def known_code(system: UnitSystem, code: str) -> bool:
    """Whether `code` is a unit of `system`, as far as that can be told without asking its authority."""
    return _KNOWN[system](code)


_EXAMPLES = {
    UnitSystem.UDUNITS: "mm, degree/s, keV, 1",
    UnitSystem.UCUM: "mm, deg/s, keV, Cel, 1",
    UnitSystem.QUDT: "unit:MilliM, http://qudt.org/vocab/unit/MilliM",
    UnitSystem.IEC61360: "0112/2///62720#UAA862",
}

# UDUNITS-2. The one pure Python library for it (pyudunits2 0.1) refuses arcsec and %, needs half a second for
# nested brackets and installs sympy, so the expression is read here against the names of the database.

_LETTER = "A-Za-z_µμåöÅΩπ"
_NUMBER = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_NAME = rf"""°?[{_LETTER}](?:[{_LETTER}0-9]*[{_LETTER}])?|[°%'"′″℃℉]"""
_POWER = r"(?:(?:\^|\*\*)?[+-]?[0-9]{1,2}(?![0-9])|[⁺⁻]?[⁰¹²³⁴-⁹]{1,2})?"
_OPENING = re.compile(r"(?:(?:lg|ln|lb) *\( *re:? *|\() *")
_CLOSING = re.compile(rf" *\){_POWER}")
_FACTOR = re.compile(rf"(?:(?P<name>{_NAME})|{_NUMBER}){_POWER}")
_OPERATOR = re.compile(r" *[*·./] *| +per +| +(?![@)])|-(?=[^0-9])|")
_SHIFT = re.compile(
    rf"(?: *@ *| +(?:since|after|from|ref) +)(?:-?{_NUMBER}|[0-9]{{4}}-[0-9]{{1,2}}-[0-9]{{1,2}}[T 0-9:.+Z-]*)$"
)


def _udunits(code: str) -> bool:
    rest = _SHIFT.sub("", normalize("NFC", code))
    position, depth, operand_due = 0, 0, True
    while position < len(rest):
        if operand_due and (opening := _OPENING.match(rest, position)):
            position, depth = opening.end(), depth + 1
        elif operand_due:
            factor = _FACTOR.match(rest, position)
            if factor is None or not _udunits_name(factor["name"]):
                return False
            position, operand_due = factor.end(), False
        elif closing := _CLOSING.match(rest, position):
            position, depth = closing.end(), depth - 1
            if depth < 0:
                return False
        else:
            # Two factors side by side multiply, so the operator may be empty.
            operator = _OPERATOR.match(rest, position)
            position, operand_due = operator.end() if operator else position, True
    return depth == 0 and not operand_due


def _udunits_name(name: str | None) -> bool:
    if name is None or _listed(name):
        return True
    return any(name.startswith(prefix) and _listed(name[len(prefix) :]) for prefix in _PREFIXES)


def _listed(name: str) -> bool:
    return name in _NAMES or name.removesuffix("s") in _NAMES or name.removesuffix("es") in _NAMES


# UCUM. An honest code is short; the parser's effort grows with the square of the factors.

_MOST_FACTORS = 8


def _ucum(code: str) -> bool:
    if sum(code.count(mark) for mark in "./(") >= _MOST_FACTORS:
        return False
    library = import_module("ucumvert")
    try:
        library.parse_ucum(code, _ucum_parser())
    except library.InvalidUcumError:
        return False
    return True


@lru_cache(maxsize=1)
def _ucum_parser() -> Any:
    # Half a second, so only an installation that uses such codes pays for it.
    return import_module("ucumvert").get_ucum_parser()


_QUDT = re.compile(r"(?:unit:|https?://qudt\.org/vocab/unit/)?[A-Za-z0-9][A-Za-z0-9_-]*")
_IRDI = re.compile(r"[0-9]{4}[-/][0-9A-Za-z]+(?:[-/]{1,3}[0-9A-Za-z_]+)*#[0-9A-Z-]+(?:#{1,2}[0-9]{1,3})?")

_KNOWN: dict[UnitSystem, Callable[[str], bool]] = {
    UnitSystem.UDUNITS: _udunits,
    UnitSystem.UCUM: _ucum,
    UnitSystem.QUDT: lambda code: _QUDT.fullmatch(code) is not None,
    UnitSystem.IEC61360: lambda code: _IRDI.fullmatch(code) is not None,
}

# Prefixes, and the names, symbols and aliases of the UDUNITS-2 database 2.2.27 (UCAR) but for regular plurals.

_PREFIX_TEXT = """
yotta zetta exa peta tera giga mega kilo hecto deka deci centi milli micro nano pico femto atto zepto yocto
Y Z E P T G M k h da d c m µ μ u n p f a z y
"""

_NAME_TEXT = """
A BV BW BZ B_SPL Bd Bm Bq Btu Bv C C12_faraday Canadian_liquid_gallon Ci DU EC_therm F Gregorian_year Gy H H2O
Hg Hz IT_Btu IT_calorie J Julian_year K L N Oe PVU Pa R S St Sv T TNT Tbl Tblsp Tbsp UK_fluid_ounce
UK_horsepower UK_liquid_cup UK_liquid_gallon UK_liquid_gill UK_liquid_ounce UK_liquid_pint UK_liquid_quart
US_dry_gallon US_dry_pint US_dry_quart US_fluid_ounce US_liquid_cup US_liquid_gallon US_liquid_gill
US_liquid_ounce US_liquid_pint US_liquid_quart US_statute_mile US_survey_feet US_survey_foot US_survey_mile
US_survey_yard US_therm V VA W Wb a abampere abfarad abhenry abmho abohm abvolt acre acre_feet acre_foot amp
ampere amu angstrom angular_degree angular_minute angular_second apdram apostilb apothecary_ounce
apothecary_pound apounce appound arc_degree arc_minute arc_second arcdeg arcmin arcminute arcsec arcsecond are
arpentlin assay_ton astronomical_unit astronomical_unit_BIPM_2006 at atm atmosphere atomic_mass_unit
atomicmassunit au avogadro_constant avoirdupois_ounce avoirdupois_pound b bag bar barie barleycorn barn barrel
barye baud bbl becquerel bev big_point biot bit blondel board_feet board_foot boiler_horsepower bps bu bushel
byte cal calorie candela candle carat cc cd celsius chain chemical_faraday circle circular_mil clo cmH2O cmHg
cm_H2O cm_Hg common_year conventional_mercuries conventional_mercury conventional_water coulomb count cps cup
curie cycle d darcy day degC degF degK degR deg_C deg_F deg_K deg_R degree degreeC degreeE degreeF degreeK
degreeN degreeR degreeT degreeW degree_C degree_Celsius degree_E degree_F degree_K degree_N degree_R degree_T
degree_W degree_east degree_fahrenheit degree_kelvin degree_north degree_rankine degree_true degree_west
degreesC degreesE degreesF degreesK degreesN degreesR degreesT degreesW degrees_C degrees_Celsius degrees_E
degrees_F degrees_K degrees_N degrees_R degrees_T degrees_W degrees_east degrees_fahrenheit degrees_kelvin
degrees_north degrees_rankine degrees_true degrees_west degsC degsF degsK degsR degs_C degs_F degs_K degs_R
denier dobson dr dram dry_pint dry_quart dynamic dyne e eV einstein electric_horsepower electron_volt
electronvolt eon erg fahrenheit farad faraday fathom feet feetH2O feet_H2O feet_water fermi firkin fldr floz
fluid_dram fluid_ounce foot footH2O foot_H2O foot_water footcandle footlambert force force_gram force_kilogram
force_ounce force_pound force_ton fortnight ft ftH2O fth2o furlong g gal gallon gamma gauss geopotential gf
gilbert gill gp gr grade grain gram gram_force grams_force gravity gray h h2o hectare henry hertz horsepower
hour hp hr in inHg in_Hg inch inch_H2O_39F inch_H2O_60F inch_Hg inch_Hg_32F inch_Hg_60F inches_H2O_39F
inches_H2O_60F inches_Hg inches_Hg_32F inches_Hg_60F international_feet international_foot international_inch
international_knot international_mile international_yard jiffy joule kat katal kayser kelvin kg kgf kilogram
kilogram_force kilograms_force kip knot knot_international ksi kt kts l lambert langley lb lbf leap_year
light_year liquid_cup liquid_gallon liquid_gill liquid_ounce liquid_pint liquid_quart liter litre lm
long_hundredweight long_ton lumen lunar_month lux lx m maxwell mercuries_0C mercuries_32F mercuries_60F
mercury_0C mercury_32F mercury_60F meter metre metric_horsepower metric_ton mi micron mil mile millimeter_Hg
millimeter_Hg_0C millimeters_Hg millimeters_Hg_0C min minute mmHg mm_Hg mm_hg mmhg mol mole molec molecule
month nautical_mile newton nit nmile nt nuc nucleon octet oersted ohm ounce_force ounces_force oz ozf parsec
pascal peck pennyweight percent perch perm_0C perm_23C perms_0C perms_23C ph phot physical_faraday pi pica
pint pk poise pole pond potential_vorticity_unit pound pound_force poundal pounds_force ppb ppbv ppm ppmv ppq
ppqv ppt pptv ppv printers_pica printers_point psi pt quart rad radian refrigeration_ton register_ton rem
revolution rhe rod roentgen rotation rotation_per_second rotations_per_second rpm rps s sb scruple sec second
shaft_horsepower shake short_hundredweight short_ton sidereal_day sidereal_hour sidereal_minute sidereal_month
sidereal_second sidereal_year siemens sievert slug sr standard_atmosphere standard_free_fall statampere
statcoulomb statfarad stathenry statmho statohm statvolt steradian stere stilb stokes sverdrup t tablespoon
tblsp tbsp teaspoon technical_atmosphere tesla tex therm thermochemical_calorie thm ton ton_TNT ton_force
ton_of_refrigeration tonne tons_TNT tons_force tons_of_refrigeration torr tropical_month tropical_year
troy_ounce troy_pound tsp turn u ua unified_atomic_mass_unit unit_pole volt voltampere water water_39F
water_4C water_60F water_horsepower waters_39F waters_4C waters_60F watt watthour weber week work_month
work_year yard yd year yr BµV ° °C °F °K °R ångström Å Ω π ′ ″ ℃ ℉ % ' "
"""

_PREFIXES = tuple(_PREFIX_TEXT.split())
_NAMES = frozenset(_NAME_TEXT.split())
