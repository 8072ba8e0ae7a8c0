"""Registering procedures: what they touch, what they are part of, and the steps that a recipe gives them."""

from collections.abc import Sequence
from typing import Annotated, Any
from uuid import UUID

from msgspec import Meta

from beamwright.contexts.equipment.asset import Asset, assets
from beamwright.contexts.recipe.capability import Capability, CapabilityStatus, ExecutorShape, capabilities
from beamwright.contexts.recipe.expansion import EXPANDER_VERSION, InvalidRecipeBindingsError, expand
from beamwright.contexts.recipe.recipe import Recipe, RecipeStatus, RecipeVersion, recipes
from beamwright.contexts.run.run import Run, runs
from beamwright.contexts.trust.visit import visits
from beamwright.kernel import text
from beamwright.kernel.errors import ConflictError, InvalidError
from beamwright.kernel.operation import Command, Occasion, World
from beamwright.kernel.value import Value
from beamwright.kernel.versions import VersionTag

from .procedure import Bindings, ProcedureRecipeExpanded, ProcedureRegistered, procedures

MOST_TARGETS = 200
MOST_ITERATIONS = 10_000

type ProcedureKind = Annotated[
    str,
    Meta(
        description="For example alignment, bakeout, beam_mode_change, characterization, homing or recovery.",
        extra_json_schema={"minLength": 1, "maxLength": 50},
    ),
]
type Patience = Annotated[
    int,
    Meta(
        description="After how many passes in a row without convergence no other is begun.",
        extra_json_schema={"minimum": 1, "maximum": MOST_ITERATIONS},
    ),
]


class InvalidProcedureNameError(InvalidError):
    """The procedure's name is blank or too long."""


class InvalidProcedureKindError(InvalidError):
    """The procedure's kind is blank or too long."""


class InvalidProcedureIterationCapError(InvalidError):
    """The number of passes without convergence is out of bounds."""


class InvalidProcedureTargetsError(InvalidError):
    """The procedure names too many assets."""


class ProcedureTargetsSpanFacilitiesError(ConflictError):
    """The target assets belong to more than one facility."""


class ProcedureParentRunEndedError(ConflictError):
    """The run that the procedure would be a phase of has ended."""


class ProcedureCapabilityMismatchError(ConflictError):
    """The recipe realises another capability than the one that is named."""


class ProcedureRecipeDeprecatedError(ConflictError):
    """A deprecated recipe is not expanded any more."""


class ProcedureBoundCapabilityDeprecatedError(ConflictError):
    """The capability is deprecated."""


class ProcedureCapabilityExecutorMismatchError(ConflictError):
    """The capability is not one that procedures realise."""


class PinnedRecipe(Value):
    """A recipe, and the version of it that is to be expanded."""

    recipe: Recipe
    version: RecipeVersion


class ProcedureGrounds(Value):
    """What a new procedure touches, belongs to and is made of."""

    targets: tuple[Asset, ...]
    parent_run: Run | None
    capability: Capability | None
    pinned: PinnedRecipe | None
    own_facility_code: str

    @property
    def facility_code(self) -> str:
        if self.targets:
            return self.targets[0].scope_facility_code
        return self.own_facility_code if self.parent_run is None else self.parent_run.facility_code


@procedures.operation("POST /procedures", creates=True)
class RegisterProcedure(Command[ProcedureGrounds]):
    """Register an operational task before it starts; a recipe's steps are pinned with their bindings in place."""

    name: text.Name
    kind: ProcedureKind
    target_asset_ids: frozenset[UUID] = frozenset()
    parent_run_id: UUID | None = None
    visit_id: UUID | None = None
    capability_id: UUID | None = None
    recipe_id: UUID | None = None
    recipe_version_tag: VersionTag | None = None
    bindings: dict[str, Any] = {}
    max_consecutive_unconverged_iterations: Patience | None = None

    async def gather(self, world: World) -> ProcedureGrounds:
        # No more is loaded than a procedure may name; that there are too many is refused in its turn.
        targets = await world.load_all(assets, sorted(self.target_asset_ids)[:MOST_TARGETS])
        parent = None if self.parent_run_id is None else await world.load(runs, self.parent_run_id)
        if self.visit_id is not None:
            await world.load(visits, self.visit_id)
        capability = (
            None if self.capability_id is None else await world.load(capabilities, self.capability_id)
        )
        pinned = await self._pinned(world)
        if capability is None and pinned is not None:
            capability = await world.load(capabilities, pinned.recipe.capability_id)
        return ProcedureGrounds(
            targets=tuple(targets),
            parent_run=parent,
            capability=capability,
            pinned=pinned,
            own_facility_code=world.installation.self_facility_code,
        )

    async def _pinned(self, world: World) -> PinnedRecipe | None:
        if self.recipe_id is None:
            return None
        recipe = await world.load(recipes, self.recipe_id)
        return PinnedRecipe(recipe=recipe, version=recipe.version_named(self.recipe_version_tag))

    def decide(
        self, seen: ProcedureGrounds, occasion: Occasion
    ) -> list[ProcedureRegistered | ProcedureRecipeExpanded]:
        name = text.name(self.name, InvalidProcedureNameError)
        kind = text.trimmed(self.kind, 50, InvalidProcedureKindError, "kind")
        check_patience(self.max_consecutive_unconverged_iterations)
        check_targets(self.target_asset_ids)
        check_bindings_wanted(self.recipe_id, self.recipe_version_tag, self.bindings)
        check_one_facility(seen.targets)
        check_parent_open(seen.parent_run)
        if seen.pinned is not None:
            check_recipe(seen.pinned.recipe, self.capability_id)
        if seen.capability is not None:
            check_capability(seen.capability)
        registered = ProcedureRegistered(
            procedure_id=occasion.new_id,
            occurred_at=occasion.now,
            name=name,
            kind=kind,
            facility_code=seen.facility_code,
            registered_by=occasion.principal_id,
            target_asset_ids=self.target_asset_ids,
            parent_run_id=self.parent_run_id,
            visit_id=self.visit_id or (seen.parent_run.visit_id if seen.parent_run else None),
            capability_id=None if seen.capability is None else seen.capability.id,
            max_consecutive_unconverged_iterations=self.max_consecutive_unconverged_iterations,
        )
        if seen.pinned is None or seen.capability is None:
            return [registered]
        return [registered, expanded(registered, seen.pinned, seen.capability, self.bindings)]


def expanded(
    registered: ProcedureRegistered, pinned: PinnedRecipe, capability: Capability, bindings: Bindings
) -> ProcedureRecipeExpanded:
    """The recipe's steps for this procedure, by content."""
    expansion = expand(pinned.version.lists, bindings, capability.parameters_schema)
    return ProcedureRecipeExpanded(
        procedure_id=registered.procedure_id,
        occurred_at=registered.occurred_at,
        recipe_id=pinned.recipe.id,
        recipe_stream_version=pinned.version.stream_version,
        recipe_version_tag=pinned.version.version_tag,
        capability_id=capability.id,
        capability_stream_version=capability.stream_version,
        bindings=bindings,
        bindings_hash=expansion.bindings_hash,
        steps=expansion.lists.steps,
        closing_steps=expansion.lists.closing_steps,
        steps_hash=expansion.steps_hash,
        expander_version=EXPANDER_VERSION,
    )


def check_patience(most: int | None) -> None:
    if most is not None and not 1 <= most <= MOST_ITERATIONS:
        raise InvalidProcedureIterationCapError(
            f"Give 1 to {MOST_ITERATIONS} passes without convergence, or none for no limit.",
            given=most,
            most=MOST_ITERATIONS,
        )


def check_targets(ids: frozenset[UUID]) -> None:
    if len(ids) > MOST_TARGETS:
        raise InvalidProcedureTargetsError(
            f"A procedure names at most {MOST_TARGETS} assets; name those above them instead.",
            given=len(ids),
            most=MOST_TARGETS,
        )


def check_bindings_wanted(recipe_id: UUID | None, version_tag: str | None, bindings: Bindings) -> None:
    """Gate: what is said of a recipe is said with the recipe."""
    if recipe_id is None and (bindings or version_tag is not None):
        raise InvalidRecipeBindingsError("Bindings and a version are those of a recipe: name its recipe_id.")


def check_one_facility(targets: Sequence[Asset]) -> None:
    codes = sorted({asset.scope_facility_code for asset in targets})
    if len(codes) > 1:
        raise ProcedureTargetsSpanFacilitiesError(
            f"The assets belong to {', '.join(codes)}; register a procedure for each.", facility_codes=codes
        )


def check_parent_open(run: Run | None) -> None:
    if run is not None and not run.open:
        raise ProcedureParentRunEndedError(
            f"Run {run.name} is {run.status}; a phase belongs to a run that goes on.",
            run_id=str(run.id),
            status=run.status,
        )


def check_recipe(recipe: Recipe, capability_id: UUID | None) -> None:
    """Gate: the recipe is in use, and for the capability that is named, if one is."""
    if capability_id is not None and capability_id != recipe.capability_id:
        raise ProcedureCapabilityMismatchError(
            f"Recipe {recipe.name} realises another capability; leave capability_id out.",
            recipe_id=str(recipe.id),
            capability_id=str(recipe.capability_id),
        )
    if recipe.status is RecipeStatus.DEPRECATED:
        instead = recipe.replaced_by_recipe_id
        raise ProcedureRecipeDeprecatedError(
            f"Recipe {recipe.name} is deprecated" + (f"; use {instead}." if instead else "; use another."),
            recipe_id=str(recipe.id),
            replaced_by_recipe_id=None if instead is None else str(instead),
        )


def check_capability(capability: Capability) -> None:
    """Gate: the capability is in use, and may be realised by procedures."""
    if capability.status is CapabilityStatus.DEPRECATED:
        raise ProcedureBoundCapabilityDeprecatedError(
            f"Capability {capability.name} is deprecated; use another.", capability_id=str(capability.id)
        )
    if ExecutorShape.PROCEDURE not in capability.executor_shapes:
        raise ProcedureCapabilityExecutorMismatchError(
            f"Capability {capability.name} is not for procedures; version_capability with PROCEDURE first.",
            capability_id=str(capability.id),
            executor_shapes=sorted(capability.executor_shapes),
        )
