"""What a clearance is about: the things it binds, and the hazards declared of them."""

import re
from collections.abc import Collection, Iterable
from enum import StrEnum
from typing import Annotated, assert_never
from uuid import UUID

from msgspec import Meta

from beamwright.kernel import text
from beamwright.kernel.errors import InvalidError
from beamwright.kernel.value import Value, replace

MOST_BINDINGS = 200
MOST_CLASSIFICATIONS = 32
MOST_MITIGATIONS = 32
MOST_STATEMENTS = 32
_STATEMENT = "^[HP][0-9]{3}[A-Za-z+0-9]{0,13}$"

type BindingScheme = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": 50})]
type HazardGrade = Annotated[int, Meta(extra_json_schema={"minimum": 0, "maximum": 4})]
type HazardStatement = Annotated[str, Meta(extra_json_schema={"pattern": _STATEMENT})]
type HazardText = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": 100})]
type HazardNotes = Annotated[
    str, Meta(extra_json_schema={"minLength": 1, "maxLength": 2000, "x-may-contain-personal-data": True})
]


class BindingKind(StrEnum):
    """What a clearance may be about; `External` is informative and covers nothing."""

    ASSET = "Asset"
    SUBJECT = "Subject"
    RUN = "Run"
    PROCEDURE = "Procedure"
    VISIT = "Visit"
    EXTERNAL = "External"


class RiskBand(StrEnum):
    GREEN = "Green"
    YELLOW = "Yellow"
    RED = "Red"


class NfpaSpecial(StrEnum):
    OX = "OX"
    W = "W"
    SA = "SA"
    COR = "COR"
    ACID = "ACID"
    ALK = "ALK"
    BIO = "BIO"
    POI = "POI"
    RA = "RA"
    CRYO = "CRYO"


class GhsPictogram(StrEnum):
    GHS01 = "GHS01"
    GHS02 = "GHS02"
    GHS03 = "GHS03"
    GHS04 = "GHS04"
    GHS05 = "GHS05"
    GHS06 = "GHS06"
    GHS07 = "GHS07"
    GHS08 = "GHS08"
    GHS09 = "GHS09"


class InvalidClearanceBindingsError(InvalidError):
    """The bindings are none, too many, malformed, given twice or of a kind that the template does not allow."""


class InvalidClearanceDeclarationError(InvalidError):
    """A declaration is malformed, is of something not bound, or is the second of one binding."""


class InvalidHazardClassificationError(InvalidError):
    """A hazard classification is outside its scheme's values."""


class Binding(Value, omit_defaults=True):
    """One thing that a clearance is about: an object by `id`, or, of kind `External`, a `scheme` and `value`."""

    kind: BindingKind
    id: UUID | None = None
    scheme: BindingScheme | None = None
    value: text.Name | None = None

    @property
    def key(self) -> str:
        """How lists and searches name it."""
        if self.kind is BindingKind.EXTERNAL:
            return f"{self.kind}:{self.scheme}:{self.value}"
        return f"{self.kind}:{self.id}"


class NfpaClassification(Value, tag_field="kind", tag="NFPA704"):
    """The four fields of the hazard diamond."""

    health: HazardGrade
    flammability: HazardGrade
    instability: HazardGrade
    special: NfpaSpecial | None = None


class GhsClassification(Value, tag_field="kind", tag="GHS"):
    """A pictogram of the Globally Harmonized System with its hazard and precautionary statements."""

    pictogram: GhsPictogram
    statements: frozenset[HazardStatement] = frozenset()


class RiskBandClassification(Value, tag_field="kind", tag="RiskBand"):
    """A facility's own three bands."""

    band: RiskBand


class SchemeClassification(Value, tag_field="kind", tag="Scheme"):
    """A code of any other scheme."""

    scheme: BindingScheme
    code: HazardText
    severity_label: HazardText | None = None


type HazardClassification = (
    NfpaClassification | GhsClassification | RiskBandClassification | SchemeClassification
)


class HazardDeclaration(Value):
    """What is dangerous about one binding, and what is done about it."""

    binding: Binding
    classifications: tuple[HazardClassification, ...]
    mitigations: frozenset[text.Name] = frozenset()
    notes: HazardNotes | None = None


def checked_bindings(given: Collection[Binding], allowed: Collection[BindingKind]) -> tuple[Binding, ...]:
    """The bindings, trimmed and sorted."""
    if not 1 <= len(given) <= MOST_BINDINGS:
        raise InvalidClearanceBindingsError(
            f"A clearance binds 1 to {MOST_BINDINGS} things.", count=len(given), most=MOST_BINDINGS
        )
    bindings = sorted_bindings(checked_binding(binding, InvalidClearanceBindingsError) for binding in given)
    if twice := _twice(binding.key for binding in bindings):
        raise InvalidClearanceBindingsError(f"{twice[0]} is bound twice; bind it once.", bindings=twice)
    if other := sorted({binding.kind for binding in bindings} - set(allowed)):
        raise InvalidClearanceBindingsError(
            f"The template binds {', '.join(sorted(allowed))}, not {', '.join(other)}.",
            kinds=other,
            allowed=sorted(allowed),
        )
    return bindings


def checked_binding(binding: Binding, refusal: type[InvalidError]) -> Binding:
    if binding.kind is not BindingKind.EXTERNAL:
        if binding.id is None or binding.scheme is not None or binding.value is not None:
            raise refusal(f"A binding of kind {binding.kind} has an id and nothing else.", kind=binding.kind)
        return binding
    if binding.id is not None or binding.scheme is None or binding.value is None:
        raise refusal("A binding of kind External has a scheme and a value, and no id.", kind=binding.kind)
    return replace(
        binding,
        scheme=text.trimmed(binding.scheme, 50, refusal, "scheme"),
        value=text.trimmed(binding.value, 200, refusal, "value"),
    )


def sorted_bindings(bindings: Iterable[Binding]) -> tuple[Binding, ...]:
    return tuple(sorted(bindings, key=lambda binding: binding.key))


def checked_declarations(
    given: Collection[HazardDeclaration], bindings: Collection[Binding]
) -> tuple[HazardDeclaration, ...]:
    """The declarations, trimmed and sorted by what they are about."""
    if len(given) > MOST_BINDINGS:
        raise InvalidClearanceDeclarationError(
            f"At most {MOST_BINDINGS} declarations are kept.", count=len(given), most=MOST_BINDINGS
        )
    declarations = [_checked_declaration(declaration) for declaration in given]
    keys = [declaration.binding.key for declaration in declarations]
    if unbound := sorted(set(keys) - {binding.key for binding in bindings}):
        raise InvalidClearanceDeclarationError(
            f"{unbound[0]} is declared but not bound; bind it or leave it out.", bindings=unbound
        )
    if twice := _twice(keys):
        raise InvalidClearanceDeclarationError(f"{twice[0]} is declared twice.", bindings=twice)
    return tuple(
        replace(each, classifications=tuple(map(checked_classification, each.classifications)))
        for each in sorted(declarations, key=lambda declaration: declaration.binding.key)
    )


def _checked_declaration(given: HazardDeclaration) -> HazardDeclaration:
    refusal = InvalidClearanceDeclarationError
    if not 1 <= len(given.classifications) <= MOST_CLASSIFICATIONS:
        raise refusal(
            f"A declaration has 1 to {MOST_CLASSIFICATIONS} classifications.",
            count=len(given.classifications),
            most=MOST_CLASSIFICATIONS,
        )
    if len(given.mitigations) > MOST_MITIGATIONS:
        raise refusal(f"At most {MOST_MITIGATIONS} mitigations are kept.", most=MOST_MITIGATIONS)
    return HazardDeclaration(
        binding=checked_binding(given.binding, refusal),
        classifications=given.classifications,
        mitigations=frozenset(text.trimmed(each, 200, refusal, "mitigation") for each in given.mitigations),
        notes=None if given.notes is None else text.trimmed(given.notes, 2000, refusal, "notes", prose=True),
    )


def checked_classification(given: HazardClassification) -> HazardClassification:
    refusal = InvalidHazardClassificationError
    match given:
        case NfpaClassification():
            for name in ("health", "flammability", "instability"):
                if not 0 <= getattr(given, name) <= 4:
                    raise refusal(f"{name} is graded 0 to 4.", field=name)
            return given
        case GhsClassification():
            if len(given.statements) > MOST_STATEMENTS:
                raise refusal(f"At most {MOST_STATEMENTS} statements are kept.", most=MOST_STATEMENTS)
            if wrong := sorted(each for each in given.statements if not re.fullmatch(_STATEMENT, each)):
                raise refusal(
                    f"“{wrong[0][:50]}” is no hazard or precautionary statement.", pattern=_STATEMENT
                )
            return given
        case RiskBandClassification():
            return given
        case SchemeClassification():
            label = given.severity_label
            return SchemeClassification(
                scheme=text.trimmed(given.scheme, 50, refusal, "scheme"),
                code=text.trimmed(given.code, 100, refusal, "code"),
                severity_label=None if label is None else text.trimmed(label, 100, refusal, "severity label"),
            )
        case _:
            assert_never(given)


def _twice(keys: Iterable[str]) -> list[str]:
    seen: set[str] = set()
    twice: set[str] = set()
    for key in keys:
        (twice if key in seen else seen).add(key)
    return sorted(twice)
