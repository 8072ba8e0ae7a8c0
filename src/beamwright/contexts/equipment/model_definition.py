"""Defining models and the families they declare: a model joins only families that are in use."""

from collections.abc import Collection
from uuid import UUID

from beamwright.kernel import text
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Value
from beamwright.kernel.versions import VersionTag, check_tag_unused, checked_tag

from .family import Family, check_families_usable, families
from .model import (
    LIFECYCLE,
    MOST_FAMILIES,
    InvalidDeclaredFamiliesError,
    InvalidModelNameError,
    InvalidModelVersionTagError,
    InvalidPartNumberError,
    Model,
    ModelCannotAddFamilyError,
    ModelDefined,
    ModelFamilyAdded,
    ModelFamilyAlreadyPresentError,
    ModelVersioned,
    ModelVersionTagTakenError,
    check_editable,
    models,
)
from .values import Manufacturer, Short, checked_manufacturer


class ModelWithFamilies(Value):
    """A model and the families that it is to declare."""

    model: Model
    families: tuple[Family, ...] = ()


@models.operation("POST /models", creates=True)
class DefineModel(Command[tuple[Family, ...]]):
    """Define a vendor's catalogue entry and the families that it fulfils."""

    name: text.Name
    manufacturer: Manufacturer
    part_number: Short
    declared_family_ids: frozenset[UUID]
    version_tag: VersionTag | None = None

    async def gather(self, world: World) -> tuple[Family, ...]:
        return tuple(await world.load_all(families, sorted(self.declared_family_ids)))

    def decide(self, declared: tuple[Family, ...], occasion: Occasion) -> ModelDefined:
        defined = ModelDefined(
            model_id=occasion.new_id,
            occurred_at=occasion.now,
            name=text.name(self.name, InvalidModelNameError),
            manufacturer=checked_manufacturer(self.manufacturer),
            part_number=checked_part_number(self.part_number),
            declared_family_ids=checked_family_ids(self.declared_family_ids),
            version_tag=None
            if self.version_tag is None
            else checked_tag(self.version_tag, InvalidModelVersionTagError),
        )
        check_families_usable(declared)
        return defined


@models.operation("POST /models/{model_id}/version")
class VersionModel(Command[ModelWithFamilies]):
    """Give a model a new version that replaces all it says."""

    model_id: UUID
    name: text.Name
    manufacturer: Manufacturer
    part_number: Short
    declared_family_ids: frozenset[UUID]
    version_tag: VersionTag

    async def gather(self, world: World) -> ModelWithFamilies:
        model = await world.load(models, self.model_id)
        declared = await world.load_all(families, sorted(self.declared_family_ids))
        return ModelWithFamilies(model=model, families=tuple(declared))

    def decide(self, seen: ModelWithFamilies, occasion: Occasion) -> ModelVersioned:
        model = seen.model
        versioned = ModelVersioned(
            model_id=model.id,
            occurred_at=occasion.now,
            name=text.name(self.name, InvalidModelNameError),
            manufacturer=checked_manufacturer(self.manufacturer),
            part_number=checked_part_number(self.part_number),
            declared_family_ids=checked_family_ids(self.declared_family_ids),
            version_tag=checked_tag(self.version_tag, InvalidModelVersionTagError),
        )
        LIFECYCLE.check(ModelVersioned, model.status, model.id)
        check_tag_unused(model.version_tags, versioned.version_tag, model.id, ModelVersionTagTakenError)
        check_families_usable(
            family for family in seen.families if family.id not in model.declared_family_ids
        )
        return versioned


@models.operation("POST /models/{model_id}/families/add")
class AddModelFamily(Command[ModelWithFamilies]):
    """Declare that a model fulfils a further family."""

    model_id: UUID
    family_id: UUID

    async def gather(self, world: World) -> ModelWithFamilies:
        model = await world.load(models, self.model_id)
        return ModelWithFamilies(model=model, families=(await world.load(families, self.family_id),))

    def decide(self, seen: ModelWithFamilies, occasion: Occasion) -> ModelFamilyAdded:
        model = seen.model
        check_editable(model, ModelCannotAddFamilyError)
        if self.family_id in model.declared_family_ids:
            raise ModelFamilyAlreadyPresentError(
                f"Model {model.name} declares family {self.family_id} already.",
                model_id=str(model.id),
                family_id=str(self.family_id),
            )
        check_families_usable(seen.families)
        checked_family_ids({*model.declared_family_ids, self.family_id})
        return ModelFamilyAdded(model_id=model.id, occurred_at=occasion.now, family_id=self.family_id)


def checked_part_number(value: str) -> str:
    return text.trimmed(value, 100, InvalidPartNumberError, "part number")


def checked_family_ids(family_ids: Collection[UUID]) -> frozenset[UUID]:
    """The families that a model declares, if they are not too few or too many."""
    if not 1 <= len(family_ids) <= MOST_FAMILIES:
        raise InvalidDeclaredFamiliesError(
            f"A model declares 1 to {MOST_FAMILIES} families, not {len(family_ids)}.",
            count=len(family_ids),
            most=MOST_FAMILIES,
        )
    return frozenset(family_ids)
