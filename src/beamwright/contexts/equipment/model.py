"""Model: a vendor's catalogue entry, and the families that its devices belong to."""

from enum import StrEnum
from typing import assert_never
from uuid import UUID

from beamwright.kernel import text
from beamwright.kernel.aggregate import Aggregate, Filter, Test
from beamwright.kernel.errors import (
    CannotTransitionError,
    ConflictError,
    InvalidError,
    NotFoundError,
)
from beamwright.kernel.event import Belonging, Claim, Event
from beamwright.kernel.machine import StateMachine, move
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Time, replace
from beamwright.kernel.versions import Counted, TaggedVersion, counted, tagged

from .values import Manufacturer, Short

MOST_FAMILIES = 50
# Stands in for a part number that nobody has looked up yet; any number of models may carry it.
UNKNOWN_PART_NUMBER = "unknown-pending-confirmation"


class ModelStatus(StrEnum):
    DEFINED = "Defined"
    VERSIONED = "Versioned"
    DEPRECATED = "Deprecated"


class ModelNotFoundError(NotFoundError):
    """There is no such model."""


class InvalidModelNameError(InvalidError):
    """The model's name is blank or too long."""


class InvalidPartNumberError(InvalidError):
    """The part number is blank or too long."""


class InvalidDeclaredFamiliesError(InvalidError):
    """A model declares 1 to 50 families."""


class InvalidModelVersionTagError(InvalidError):
    """The version tag is malformed, or is “initial”."""


class InvalidModelReasonError(InvalidError):
    """The reason is blank or too long."""


class ModelAlreadyExistsError(ConflictError):
    """Another model that is not deprecated has this manufacturer and part number."""


class ModelVersionTagTakenError(ConflictError):
    """The version tag already names a version of the model."""


class ModelDeprecatedError(ConflictError):
    """A deprecated model is not assigned any more."""


class ModelFamilyAlreadyPresentError(ConflictError):
    """The model declares this family already."""


class ModelFamilyNotPresentError(ConflictError):
    """The model does not declare this family."""


class ModelFamilyRequiredError(ConflictError):
    """A model keeps at least one family."""


class ModelCannotVersionError(CannotTransitionError):
    """A deprecated model is not versioned any more."""


class ModelCannotDeprecateError(CannotTransitionError):
    """The model is deprecated already."""


class ModelCannotAddFamilyError(CannotTransitionError):
    """A deprecated model takes no further family."""


class ModelCannotRemoveFamilyError(CannotTransitionError):
    """A deprecated model keeps its families."""


class ModelFact(Event):
    model_id: UUID


class ModelDefined(ModelFact):
    name: str
    manufacturer: Manufacturer
    part_number: str
    declared_family_ids: frozenset[UUID]
    version_tag: str | None


class ModelVersioned(ModelFact):
    name: str
    manufacturer: Manufacturer
    part_number: str
    declared_family_ids: frozenset[UUID]
    version_tag: str


class ModelDeprecated(ModelFact):
    reason: str


class ModelFamilyAdded(ModelFact):
    family_id: UUID


class ModelFamilyRemoved(ModelFact):
    family_id: UUID


type ModelEvent = ModelDefined | ModelVersioned | ModelDeprecated | ModelFamilyAdded | ModelFamilyRemoved

EDITABLE = frozenset({ModelStatus.DEFINED, ModelStatus.VERSIONED})

LIFECYCLE = StateMachine[ModelStatus](
    {
        ModelVersioned: move(EDITABLE, ModelStatus.VERSIONED, ModelCannotVersionError),
        ModelDeprecated: move(EDITABLE, ModelStatus.DEPRECATED, ModelCannotDeprecateError),
    }
)


class Model(Counted):
    id: UUID
    name: str
    manufacturer: Manufacturer
    part_number: str
    declared_family_ids: frozenset[UUID]
    families_changed_at: Time
    status: ModelStatus = ModelStatus.DEFINED
    version_tag: str | None = None
    version_tags: tuple[TaggedVersion, ...] = ()
    deprecated_at: Time | None = None

    @property
    def manufacturer_name(self) -> str:
        return self.manufacturer.name


@counted
def evolve(model: Model | None, event: ModelEvent) -> Model:
    match event:
        case ModelDefined():
            return Model(
                id=event.model_id,
                name=event.name,
                manufacturer=event.manufacturer,
                part_number=event.part_number,
                declared_family_ids=event.declared_family_ids,
                families_changed_at=event.occurred_at,
                version_tag=event.version_tag,
                version_tags=tagged((), event.version_tag, model),
            )
        case _ if model is None:
            raise ValueError(event)
        case ModelVersioned():
            return replace(
                _with_families(model, event.declared_family_ids, event.occurred_at),
                name=event.name,
                manufacturer=event.manufacturer,
                part_number=event.part_number,
                status=LIFECYCLE.after(event),
                version_tag=event.version_tag,
                version_tags=tagged(model.version_tags, event.version_tag, model),
            )
        case ModelDeprecated():
            return replace(model, status=LIFECYCLE.after(event), deprecated_at=event.occurred_at)
        case ModelFamilyAdded():
            return _with_families(model, model.declared_family_ids | {event.family_id}, event.occurred_at)
        case ModelFamilyRemoved():
            return _with_families(model, model.declared_family_ids - {event.family_id}, event.occurred_at)
        case _:
            assert_never(event)


def _with_families(model: Model, family_ids: frozenset[UUID], at: Time) -> Model:
    if family_ids == model.declared_family_ids:
        return model
    return replace(model, declared_family_ids=family_ids, families_changed_at=at)


def claims(model: Model) -> list[Claim]:
    """A manufacturer's part number is taken, once known, while its model is not deprecated."""
    if model.status is ModelStatus.DEPRECATED or model.part_number.casefold() == UNKNOWN_PART_NUMBER:
        return []
    key = f"{text.folded(model.manufacturer.name)}\n{model.part_number}"
    return [Claim(kind="model-part", key=key, taken=ModelAlreadyExistsError)]


models = Aggregate[Model, ModelEvent](
    "Model",
    events=ModelEvent,
    evolve=evolve,
    missing=ModelNotFoundError,
    belongs=lambda model: Belonging.nowhere,
    claims=claims,
)
models.reads(
    "/models",
    filters=(
        "status",
        Filter(
            name="family_id",
            type=UUID,
            of=lambda model: sorted(model.declared_family_ids),
            test=Test.CONTAINS,
        ),
        Filter(name="manufacturer", type=text.Name, of=lambda model: model.manufacturer.name),
        Filter(name="part_number", type=Short, of=lambda model: model.part_number),
    ),
    sorts=("name", "created_at"),
    text=("name", "manufacturer_name", "part_number"),
)


def check_editable(model: Model, refusal: type[CannotTransitionError]) -> None:
    """Gate: a deprecated model stays as it is."""
    if model.status not in EDITABLE:
        raise refusal.of(model.id, model.status, EDITABLE)


def check_model_usable(model: Model) -> None:
    """Gate: an asset is given a model that is not deprecated."""
    if model.status is ModelStatus.DEPRECATED:
        raise ModelDeprecatedError(
            f"Model {model.name} is deprecated; choose another.", model_id=str(model.id)
        )


@models.operation("POST /models/{model_id}/deprecate")
class DeprecateModel(Command[Model]):
    """Deprecate a model: its assets keep it, no other asset is given it."""

    model_id: UUID
    reason: text.Reason

    async def gather(self, world: World) -> Model:
        return await world.load(models, self.model_id)

    def decide(self, model: Model, occasion: Occasion) -> ModelDeprecated:
        reason = text.reason(self.reason, InvalidModelReasonError)
        LIFECYCLE.check(ModelDeprecated, model.status, model.id)
        return ModelDeprecated(model_id=model.id, occurred_at=occasion.now, reason=reason)


@models.operation("POST /models/{model_id}/families/remove")
class RemoveModelFamily(Command[Model]):
    """Take a family from a model that has another."""

    model_id: UUID
    family_id: UUID

    async def gather(self, world: World) -> Model:
        return await world.load(models, self.model_id)

    def decide(self, model: Model, occasion: Occasion) -> ModelFamilyRemoved:
        check_editable(model, ModelCannotRemoveFamilyError)
        named = {"model_id": str(model.id), "family_id": str(self.family_id)}
        if self.family_id not in model.declared_family_ids:
            raise ModelFamilyNotPresentError(
                f"Model {model.name} does not declare family {self.family_id}.", **named
            )
        if len(model.declared_family_ids) == 1:
            raise ModelFamilyRequiredError(
                f"This is the only family of model {model.name}; add another one first.", **named
            )
        return ModelFamilyRemoved(model_id=model.id, occurred_at=occasion.now, family_id=self.family_id)
