"""What makes a list of steps a recipe: form, captures and outputs that come first, bindings that are declared."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, assert_never

from beamwright.kernel import text
from beamwright.kernel.declared_schema import Schema, children, nested_deeper, types
from beamwright.kernel.errors import ConflictError, InvalidError
from beamwright.kernel.value import Value, encode, replace

from .parameters_schema import undeclared
from .steps import (
    ADDRESS,
    LONGEST_ADDRESS,
    LONGEST_TIMEOUT,
    MOST_NUMBERS,
    NAME,
    SHORTEST_ADDRESS,
    BindingRef,
    CaptureRef,
    ComputeResources,
    OutputRef,
    Part,
    Place,
    PlacedStep,
    RecipeActionStep,
    RecipeCaptureStep,
    RecipeCheckStep,
    RecipeComputeStep,
    RecipeSetpointStep,
    RecipeStep,
    Sentinel,
    SteeringRef,
    StepListName,
    StepLists,
    Use,
    admits,
    deposited_capture,
    leaves,
    parts,
    produced_output,
    sentinel,
    uses,
    visible,
    walk,
)

MOST_STEPS, MOST_CLOSING_STEPS = 1000, 100
MOST_TOKENS, MOST_URIS = 64, 64
MOST_BYTES, MOST_LEVELS = 16 * 1024, 16
LONGEST_BINDING = 200
MOST_CPUS, MOST_GPUS, MOST_MEMORY = 1_000_000, 10_000, 2**53


class EmptyRecipeStepsError(InvalidError):
    """A recipe has at least one step."""


class InvalidRecipeStepError(InvalidError):
    """A step is malformed; `list`, `step_index` and `path` say where."""


class UnboundRecipeCaptureError(InvalidError):
    """A step uses a capture that no earlier step deposits."""


class DuplicateRecipeCaptureError(InvalidError):
    """Two steps deposit a capture of one name."""


class UnboundRecipeOutputError(InvalidError):
    """A step uses an output that no earlier compute step produces."""


class DuplicateRecipeOutputError(InvalidError):
    """Two compute steps produce an output of one name."""


class RecipeRequiresCapabilityParametersSchemaError(ConflictError):
    """The steps have bindings, and the capability declares no parameters."""


class RecipeBindingReferencesUnknownParameterError(ConflictError):
    """A binding names no parameter of the capability."""


class RecipeBindingTypeMismatchError(ConflictError):
    """A parameter's type does not fit the place of its binding."""


class StepFault(Value):
    """A rule that steps break, and where: `path` points into the step."""

    refusal: type[InvalidError]
    detail: str
    list: StepListName = StepListName.STEPS
    step_index: int = 0
    path: str = ""

    def raised(self, refusal: type[InvalidError] | None = None) -> InvalidError:
        """The refusal, in the class that another aggregate may have for all of these."""
        if self.refusal is EmptyRecipeStepsError:
            return (refusal or self.refusal)(self.detail)
        where = {"list": self.list.value, "step_index": self.step_index, "path": self.path}
        return (refusal or self.refusal)(f"{self.list}[{self.step_index}]{self.path}: {self.detail}", **where)


# Where in a step something is wrong, and what.
type Faults = Iterator[tuple[str, str]]


def checked_steps(
    steps: Sequence[RecipeStep],
    closing_steps: Sequence[RecipeStep],
    refusal: type[InvalidError] | None = None,
) -> StepLists:
    """The lists with their text trimmed, or the first refusal; rules that need no capability."""
    lists = StepLists(steps=tuple(map(_trimmed, steps)), closing_steps=tuple(map(_trimmed, closing_steps)))
    for fault in step_faults(lists):
        raise fault.raised(refusal)
    return lists


def step_faults(lists: StepLists) -> Iterator[StepFault]:
    """The broken rules in the order in which they are to be reported."""
    if not lists.steps:
        yield StepFault(refusal=EmptyRecipeStepsError, detail="Give at least one step.")
    yield from form_faults(lists)
    yield from _order_faults(
        lists, CaptureRef, deposited_capture, UnboundRecipeCaptureError, DuplicateRecipeCaptureError
    )
    yield from _order_faults(
        lists, OutputRef, produced_output, UnboundRecipeOutputError, DuplicateRecipeOutputError
    )


def form_faults(lists: StepLists) -> Iterator[StepFault]:
    """What is wrong with each step by itself."""
    yield from _count_faults(lists)
    for placed in walk(lists):
        for path, detail in _faults(placed):
            yield _fault(placed, InvalidRecipeStepError, path, detail)


def _count_faults(lists: StepLists) -> Iterator[StepFault]:
    for name, most, found in (
        (StepListName.STEPS, MOST_STEPS, len(lists.steps)),
        (StepListName.CLOSING_STEPS, MOST_CLOSING_STEPS, len(lists.closing_steps)),
    ):
        if found > most:
            detail = f"there are {found} steps; at most {most} are allowed."
            yield StepFault(refusal=InvalidRecipeStepError, detail=detail, list=name, step_index=most)


def _fault(placed: PlacedStep, refusal: type[InvalidError], path: str, detail: str) -> StepFault:
    return StepFault(
        refusal=refusal, detail=detail, list=placed.list, step_index=placed.step_index, path=path
    )


def _order_faults(
    lists: StepLists,
    kind: type[Sentinel],
    left_by: Callable[[RecipeStep], str | None],
    unbound: type[InvalidError],
    duplicate: type[InvalidError],
) -> Iterator[StepFault]:
    """References to what no earlier step leaves behind, and names that are left twice."""
    known: set[str] = set()
    for placed in walk(lists):
        for use in uses(placed.step):
            if isinstance(use.ref, kind) and use.ref.name not in known:
                yield _fault(placed, unbound, use.path, f"no earlier step provides “{use.ref.name}”.")
        name = left_by(placed.step)
        if name in known:
            yield _fault(placed, duplicate, "", f"an earlier step provides “{name}” already.")
        if name is not None:
            known.add(name)


def _trimmed(step: RecipeStep) -> RecipeStep:
    label = None if step.label is None else step.label.strip()
    match step:
        case RecipeActionStep():
            return replace(step, label=label, name=step.name.strip())
        case RecipeComputeStep():
            return replace(step, label=label, command=tuple(token.strip() for token in step.command))
        case RecipeSetpointStep():
            return replace(step, label=label, address=step.address.strip())
        case RecipeCheckStep():
            return replace(step, label=label, address=step.address.strip())
        case RecipeCaptureStep():
            return replace(step, label=label, address=step.address.strip())
        case _:
            assert_never(step)


def _faults(placed: PlacedStep) -> Faults:
    step = placed.step
    if step.label is not None:
        yield from _text_faults("/label", step.label, 100, "label")
    # A check may judge a single reading, without waiting.
    waits = step.timeout > 0 or (step.timeout == 0 and isinstance(step, RecipeCheckStep))
    if not (waits and step.timeout <= LONGEST_TIMEOUT):
        yield "/timeout", f"must be more than 0 s and at most {LONGEST_TIMEOUT} s; 0 is for a Check."
    yield from _literal_faults(step)
    for part in parts(step):
        yield from _part_faults(part, closing=placed.list is StepListName.CLOSING_STEPS)


def _literal_faults(step: RecipeStep) -> Faults:
    match step:
        case RecipeSetpointStep() | RecipeCheckStep():
            yield from _address_faults(step.address)
        case RecipeActionStep():
            yield from _text_faults("/name", step.name, 100, "action's name")
        case RecipeCaptureStep():
            yield from _address_faults(step.address)
            yield from _name_faults("/capture_name", step.capture_name)
        case RecipeComputeStep():
            yield from _compute_faults(step)
        case _:
            assert_never(step)


def _compute_faults(step: RecipeComputeStep) -> Faults:
    if not 1 <= len(step.command) <= MOST_TOKENS:
        yield "/command", f"must have 1 to {MOST_TOKENS} tokens."
    for index, token in enumerate(step.command):
        yield from _text_faults(f"/command/{index}", token, 255, "token")
    if len(step.input_uris) > MOST_URIS:
        yield "/input_uris", f"may have at most {MOST_URIS} URIs."
    yield from _name_faults("/capture_name", step.capture_name)
    yield from _name_faults("/output_name", step.output_name)
    if step.capture_name is not None and step.output_uri is not None:
        yield "/capture_name", "a step with output_uri yields an artifact; name that with output_name."
    if step.output_name is not None and step.output_uri is None:
        yield "/output_name", "a step without output_uri yields measurements; name one with capture_name."
    if step.resources is not None:
        yield from _resource_faults(step.resources)


def _resource_faults(resources: ComputeResources) -> Faults:
    for name, least, most in (
        ("cpus", 1, MOST_CPUS),
        ("system_memory", 1, MOST_MEMORY),
        ("gpu_count", 0, MOST_GPUS),
        ("gpu_memory", 1, MOST_MEMORY),
    ):
        asked: int | None = getattr(resources, name)
        if asked is not None and not least <= asked <= most:
            yield f"/resources/{name}", f"must be {least} to {most}."


def _text_faults(path: str, value: str, most: int, what: str) -> Faults:
    try:
        text.trimmed(value, most, InvalidRecipeStepError, what)
    except InvalidRecipeStepError as fault:
        yield path, fault.detail


def _name_faults(path: str, name: str | None) -> Faults:
    if name is not None and not re.fullmatch(NAME, name):
        yield path, f"must match {NAME}."


def _address_faults(address: str) -> Faults:
    fits = SHORTEST_ADDRESS <= len(address) <= LONGEST_ADDRESS
    if not (fits and visible(address) and re.fullmatch(ADDRESS, address)):
        yield (
            "/address",
            f"must be `<scheme>://<rest>` of {SHORTEST_ADDRESS} to {LONGEST_ADDRESS} visible characters.",
        )


def _part_faults(part: Part, *, closing: bool) -> Faults:
    if part.place is Place.OBJECT:
        # First of all, as what nests without end cannot even be measured.
        if nested_deeper(part.value, MOST_LEVELS):
            yield part.path, f"may nest in at most {MOST_LEVELS} levels."
            return
        if (size := len(encode(part.value))) > MOST_BYTES:
            yield part.path, f"may have at most {MOST_BYTES} bytes of JSON, not {size}."
    count = len(children(part.value))
    if part.place is Place.VALUE and count > MOST_NUMBERS:
        yield part.path, f"may have at most {MOST_NUMBERS} numbers, not {count}."
    for leaf in leaves(part):
        ref = sentinel(leaf.value)
        if ref is not None and leaf.place is not Place.OBJECT:
            yield from _ref_faults(leaf, ref, closing=closing)
        elif not admits(leaf.place, leaf.value):
            yield leaf.path, f"must be {leaf.place}."


def _ref_faults(leaf: Part, ref: Sentinel, *, closing: bool) -> Faults:
    if not isinstance(ref, leaf.refs):
        allowed = ", ".join(each.key for each in leaf.refs)
        yield leaf.path, f"`{ref.key}` may not stand here; allowed are {allowed}."
    if closing and isinstance(ref, SteeringRef):
        yield leaf.path, "closing steps run after the last pass, so they have no steering coordinates."
    if isinstance(ref, BindingRef):
        yield from _text_faults(leaf.path, ref.name, LONGEST_BINDING, "binding's name")
    else:
        yield from _name_faults(leaf.path, ref.name)


class PlacedBinding(Value):
    """A binding within the lists."""

    placed: PlacedStep
    use: Use

    @property
    def where(self) -> dict[str, Any]:
        return {
            "list": self.placed.list.value,
            "step_index": self.placed.step_index,
            "path": self.use.path,
            "name": self.use.ref.name,
        }


def bindings_of(lists: StepLists) -> Iterator[PlacedBinding]:
    """Every binding of the lists, in order."""
    for placed in walk(lists):
        for use in uses(placed.step):
            if isinstance(use.ref, BindingRef):
                yield PlacedBinding(placed=placed, use=use)


def check_bindings_declared(lists: StepLists, schema: Schema | None) -> None:
    """Gate: each binding is a parameter of the capability whose type fits its place."""
    bound = list(bindings_of(lists))
    if bound and schema is None:
        names = sorted({each.use.ref.name for each in bound})
        raise RecipeRequiresCapabilityParametersSchemaError(
            f"The capability declares no parameters, and the steps bind {', '.join(names)}: declare them with"
            " version_capability, or {} for no constraint.",
            names=names,
        )
    unknown = undeclared(schema, (each.use.ref.name for each in bound))
    for each in bound:
        if each.use.ref.name in unknown:
            raise RecipeBindingReferencesUnknownParameterError(
                f"The capability declares no parameter {', '.join(unknown)}.", names=unknown, **each.where
            )
    properties: dict[str, dict[str, Any]] = (schema or {}).get("properties", {})
    for each in bound:
        node = properties.get(each.use.ref.name)
        if node is not None and not fits(node, each.use.place):
            raise RecipeBindingTypeMismatchError(
                f"Parameter {each.use.ref.name} can be of type {', '.join(sorted(types(node)))}, where"
                f" {each.use.place} is needed.",
                types=sorted(types(node)),
                **each.where,
            )


_NUMERIC = frozenset({"number", "integer"})
_TYPES = {
    Place.VALUE: _NUMERIC | {"boolean", "string", "array"},
    Place.NUMBER: _NUMERIC,
    Place.TOLERANCE: _NUMERIC,
    Place.URI: frozenset({"string"}),
}


def fits(node: dict[str, Any], place: Place) -> bool:
    """Whether whatever a parameter admits is of a type that may stand at a place."""
    if place not in _TYPES:
        return True
    if "enum" in node or "const" in node:
        listed: list[Any] = node["enum"] if "enum" in node else [node["const"]]
        return all(admits(place, value) for value in listed)
    admitted = types(node)
    numbers = "array" not in admitted or types(node.get("items", {})) <= _NUMERIC
    return admitted <= _TYPES[place] and numbers
