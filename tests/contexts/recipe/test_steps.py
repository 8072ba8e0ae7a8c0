"""Recipe steps: their form, what they refer to, and expansion."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beamwright.contexts.recipe.expansion import (
    Expansion,
    InvalidRecipeBindingsError,
    RecipeBindingsStaleAgainstCurrentCapabilityError,
    UnboundRecipeBindingError,
    expand,
)
from beamwright.contexts.recipe.step_rules import (
    DuplicateRecipeCaptureError,
    DuplicateRecipeOutputError,
    EmptyRecipeStepsError,
    InvalidRecipeStepError,
    RecipeBindingReferencesUnknownParameterError,
    RecipeBindingTypeMismatchError,
    RecipeRequiresCapabilityParametersSchemaError,
    UnboundRecipeCaptureError,
    UnboundRecipeOutputError,
    bindings_of,
    check_bindings_declared,
    checked_steps,
)
from beamwright.contexts.recipe.steps import (
    BindingRef,
    CaptureRef,
    RecipeActionStep,
    RecipeCaptureStep,
    RecipeSetpointStep,
    RecipeStep,
    StepLists,
    addresses,
    sentinel,
    uses,
    walk,
)
from beamwright.kernel.errors import DomainError
from tests.contexts.recipe.schemas import closed

type Json = dict[str, Any]

B, C, S, OUT = {"__binding__": "x"}, {"__capture__": "c"}, {"__steering__": "s"}, {"__output__": "o"}
PV = "ca://2bm:m1"

_decode = msgspec.json.Decoder(tuple[RecipeStep, ...]).decode


def read(*steps: Json) -> tuple[RecipeStep, ...]:
    """Steps as a request carries them."""
    return _decode(msgspec.json.encode(steps))


def setpoint(value: Any = 1, **more: Any) -> Json:
    return {"kind": "Setpoint", "address": PV, "value": value, **more}


def action(params: Any = None, **more: Any) -> Json:
    return {"kind": "Action", "name": "collect", "params": params or {}, **more}


def equals(expected: Any, **more: Any) -> Json:
    return {"kind": "Check", "address": PV, "criterion": {"kind": "Equals", "expected": expected}, **more}


def within(expected: Any, tolerance: Any) -> Json:
    criterion = {"kind": "WithinTolerance", "expected": expected, "tolerance": tolerance}
    return {"kind": "Check", "address": PV, "criterion": criterion}


def capture(name: str = "c", **more: Any) -> Json:
    return {"kind": "Capture", "address": PV, "capture_name": name, **more}


def compute(**more: Any) -> Json:
    return {"kind": "Compute", "command": ["reconstruct"], **more}


def artifact(name: str = "o", **more: Any) -> Json:
    return compute(output_uri="file:///data/out", output_name=name, **more)


def lists(*steps: Json, closing: tuple[Json, ...] = ()) -> StepLists:
    return StepLists(steps=read(*steps), closing_steps=read(*closing))


def refusal(steps: tuple[Json, ...], closing: tuple[Json, ...] = ()) -> DomainError | None:
    try:
        checked_steps(read(*steps), read(*closing))
    except DomainError as error:
        return error
    return None


def place(error: DomainError | None) -> tuple[Any, ...]:
    assert error is not None
    return tuple(error.context[key] for key in ("list", "step_index", "path"))


@pytest.mark.parametrize(
    "step",
    [
        setpoint(True),
        setpoint(1.5, verify=True, label="Energy", timeout=5),
        setpoint("open"),
        setpoint([1, 2.5]),
        setpoint(B),
        setpoint(S),
        setpoint([1, B]),
        action({"deep": [{"a": S}, B, "text"]}),
        equals("Closed"),
        equals([1, 2], timeout=0),
        equals(S),
        within(5, 0.1),
        within(S, B),
        capture("c1"),
        compute(capture_name="peak", parameters={"angle": S}, resources={"cpus": 4, "gpu_count": 1}),
        compute(input_uris=["file:///raw", B], output_uri=B, output_name="o1"),
    ],
)
def test_what_a_step_may_say(step: Json) -> None:
    assert refusal((step,)) is None


# One row per rule of form: the step, and where in it the fault is.
MALFORMED: list[tuple[Json, str]] = [
    (setpoint(label=" "), "/label"),
    (setpoint(label="x" * 101), "/label"),
    (setpoint(timeout=0), "/timeout"),
    (setpoint(timeout=-1), "/timeout"),
    (setpoint(timeout=86_401), "/timeout"),
    (equals(1, timeout=-1), "/timeout"),
    (setpoint(address="2bm:m1"), "/address"),
    (setpoint(address="ca://a b"), "/address"),
    (setpoint(address="c://"), "/address"),
    (setpoint(address="ca://" + "x" * 251), "/address"),
    (setpoint({"target": B}), "/value"),
    (setpoint({"__binding__": "x", "y": 1}), "/value"),
    (setpoint({"__binding__": 5}), "/value"),
    (setpoint({"__other__": "x"}), "/value"),
    (setpoint({"__binding__": ""}), "/value"),
    (setpoint({"__capture__": "Upper"}), "/value"),
    (setpoint(OUT), "/value"),
    (setpoint([1, "two"]), "/value/1"),
    (setpoint([True]), "/value/0"),
    (setpoint([1, OUT]), "/value/1"),
    (setpoint([0] * 10_001), "/value"),
    (setpoint(10**400), "/value"),
    (action(name=" "), "/name"),
    (action(name="x" * 101), "/name"),
    (action(B), "/params"),
    (action({"__binding__": "x", "y": 1}), "/params"),
    (action({"a": {"__binding__": "x", "y": 1}}), "/params/a"),
    (action({"a/b": [{"__x": 1}]}), "/params/a~1b/0"),
    (action({"a": OUT}), "/params/a"),
    (action({"a": None}), "/params/a"),
    (action({"a": "x" * 17_000}), "/params"),
    (equals({"not": "a reference"}), "/criterion/expected"),
    (equals(OUT), "/criterion/expected"),
    (within(5, -0.1), "/criterion/tolerance"),
    (within(5, S), "/criterion/tolerance"),
    (within({"a": 1}, 1), "/criterion/expected"),
    (capture("Upper"), "/capture_name"),
    (capture("x" * 51), "/capture_name"),
    (compute(command=[]), "/command"),
    (compute(command=["a"] * 65), "/command"),
    (compute(command=["a", " "]), "/command/1"),
    (compute(input_uris=["file:///a"] * 65), "/input_uris"),
    (compute(input_uris=["file:///a", ""]), "/input_uris/1"),
    (compute(input_uris=[S]), "/input_uris/0"),
    (compute(output_uri=OUT), "/output_uri"),
    (compute(output_uri="has space"), "/output_uri"),
    (compute(output_uri="file:///o", capture_name="c"), "/capture_name"),
    (compute(output_name="o"), "/output_name"),
    (compute(capture_name="Upper"), "/capture_name"),
    (compute(parameters=B), "/parameters"),
    (compute(resources={"cpus": 0}), "/resources/cpus"),
    (compute(resources={"gpu_count": -1}), "/resources/gpu_count"),
    (compute(resources={"system_memory": 0}), "/resources/system_memory"),
]


@pytest.mark.parametrize(("step", "path"), MALFORMED)
def test_a_malformed_step_is_refused_with_its_place(step: Json, path: str) -> None:
    error = refusal((setpoint(), step))
    assert isinstance(error, InvalidRecipeStepError)
    assert place(error) == ("steps", 1, path)


@pytest.mark.parametrize(
    "step",
    [
        {"kind": "Loop", "steps": []},
        {"kind": "Setpoint", "address": PV},
        setpoint(surprise=1),
        {"kind": "Check", "address": PV, "criterion": {"kind": "Near", "expected": 1}},
        {"kind": "Check", "address": PV, "criterion": {"kind": "Equals", "expected": 1, "tolerance": 1}},
        compute(resources={"disks": 1}),
        setpoint([[1]]),
        setpoint(address=B),
        setpoint(None),
    ],
)
def test_another_shape_than_an_arm_has_is_not_read_at_all(step: Json) -> None:
    with pytest.raises(msgspec.ValidationError):
        read(step)


@pytest.mark.parametrize(
    ("steps", "closing", "error", "where"),
    [
        ((action({"a": C}),), (), UnboundRecipeCaptureError, ("steps", 0, "/params/a")),
        ((setpoint(C), capture("c")), (), UnboundRecipeCaptureError, ("steps", 0, "/value")),
        (
            (compute(capture_name="c", parameters={"a": C}),),
            (),
            UnboundRecipeCaptureError,
            ("steps", 0, "/parameters/a"),
        ),
        ((setpoint(),), (setpoint(C),), UnboundRecipeCaptureError, ("closing_steps", 0, "/value")),
        ((capture("c"), compute(capture_name="c")), (), DuplicateRecipeCaptureError, ("steps", 1, "")),
        ((capture("c"),), (capture("c"),), DuplicateRecipeCaptureError, ("closing_steps", 0, "")),
        ((compute(input_uris=[OUT]),), (), UnboundRecipeOutputError, ("steps", 0, "/input_uris/0")),
        (
            (capture("o"), compute(input_uris=[OUT])),
            (),
            UnboundRecipeOutputError,
            ("steps", 1, "/input_uris/0"),
        ),
        ((artifact("o"), artifact("o")), (), DuplicateRecipeOutputError, ("steps", 1, "")),
    ],
)
def test_captures_and_outputs_come_before_their_use_and_once(
    steps: tuple[Json, ...], closing: tuple[Json, ...], error: type, where: tuple[Any, ...]
) -> None:
    got = refusal(steps, closing)
    assert type(got) is error
    assert place(got) == where


def test_later_steps_use_what_earlier_ones_left() -> None:
    steps = (capture("c"), setpoint(C), artifact("o"), compute(input_uris=[OUT], parameters={"c": C}))
    assert refusal(steps) is None


def test_a_closing_step_uses_a_capture_of_a_main_step() -> None:
    assert refusal((capture("c"),), (setpoint(C),)) is None


def test_a_closing_step_has_no_steering() -> None:
    error = refusal((setpoint(S),), (setpoint(), action({"a": [S]})))
    assert isinstance(error, InvalidRecipeStepError)
    assert place(error) == ("closing_steps", 1, "/params/a/0")


def test_the_namespaces_of_captures_and_outputs_are_apart() -> None:
    assert refusal((capture("o"), artifact("o"))) is None


def test_a_recipe_has_steps() -> None:
    assert isinstance(refusal((), (setpoint(),)), EmptyRecipeStepsError)


@pytest.mark.parametrize(
    ("steps", "closing", "where"),
    [
        ((setpoint(),) * 1001, (), ("steps", 1000, "")),
        ((setpoint(),), (setpoint(),) * 101, ("closing_steps", 100, "")),
    ],
)
def test_a_recipe_has_not_too_many_steps(
    steps: tuple[Json, ...], closing: tuple[Json, ...], where: tuple[Any, ...]
) -> None:
    error = refusal(steps, closing)
    assert isinstance(error, InvalidRecipeStepError)
    assert place(error) == where


def test_form_is_judged_over_both_lists_before_the_order_of_captures() -> None:
    error = refusal((setpoint(C),), (setpoint(label=" "),))
    assert place(error) == ("closing_steps", 0, "/label")


def test_text_is_trimmed() -> None:
    steps = read(setpoint(label=" Energy "), action(name=" collect "), compute(command=[" run "]))
    got = checked_steps(steps, ()).steps
    assert got == read(setpoint(label="Energy"), action(name="collect"), compute(command=["run"]))


def deep(levels: int) -> Json:
    nested: Json = {"a": 1}
    for _ in range(levels - 1):
        nested = {"a": nested}
    return nested


def test_params_nest_in_sixteen_levels() -> None:
    assert checked_steps([RecipeActionStep(name="collect", params=deep(16))], ())


@pytest.mark.parametrize("levels", [17, 100_000])
def test_params_that_nest_deeper_are_refused_without_looking_into_them(levels: int) -> None:
    with pytest.raises(InvalidRecipeStepError) as refused:
        checked_steps([RecipeActionStep(name="collect", params=deep(levels))], ())
    assert refused.value.context["path"] == "/params"


def test_addresses_are_listed_once_and_sorted() -> None:
    steps = (
        setpoint(address="ca://b"),
        capture("c", address="ca://a"),
        action(),
        equals(1, address="ca://b"),
    )
    assert addresses(lists(*steps)) == ["ca://a", "ca://b"]


PARAMETERS = closed(
    x={"type": "number"},
    whole={"type": "integer"},
    flag={"type": "boolean"},
    text={"type": "string"},
    points={"type": "array", "items": {"type": "number"}},
    words={"type": "array", "items": {"type": "string"}},
    either={"type": ["number", "string"]},
    mode={"enum": ["a", "b"]},
    speeds={"enum": [1, 2.5]},
    nested={
        "type": "object",
        "properties": {"a": {"type": "number"}},
        "additionalProperties": False,
        "unevaluatedProperties": False,
    },
)


def bound(name: str) -> Json:
    return {"__binding__": name}


def declared(*steps: Json, schema: Any = PARAMETERS) -> DomainError | None:
    try:
        check_bindings_declared(lists(*steps), schema)
    except DomainError as error:
        return error
    return None


def test_a_binding_needs_a_declared_schema() -> None:
    assert isinstance(declared(setpoint(B), schema=None), RecipeRequiresCapabilityParametersSchemaError)


def test_steps_without_bindings_need_none() -> None:
    assert declared(setpoint(1), capture(), schema=None) is None


def test_a_binding_names_a_declared_parameter() -> None:
    error = declared(setpoint(B), setpoint(bound("unknown")))
    assert isinstance(error, RecipeBindingReferencesUnknownParameterError)
    assert place(error) == ("steps", 1, "/value")


def test_under_an_open_schema_any_name_can_be_bound() -> None:
    assert declared(within(bound("anything"), bound("else")), schema={}) is None


@pytest.mark.parametrize(
    ("step", "fitting"),
    [
        (setpoint(bound("x")), True),
        (setpoint(bound("flag")), True),
        (setpoint(bound("text")), True),
        (setpoint(bound("points")), True),
        (setpoint(bound("either")), True),
        (setpoint(bound("mode")), True),
        (setpoint(bound("words")), False),
        (setpoint(bound("nested")), False),
        (setpoint([bound("whole")]), True),
        (setpoint([bound("points")]), False),
        (equals(bound("text")), True),
        (within(bound("whole"), bound("x")), True),
        (within(bound("text"), 1), False),
        (within(1, bound("flag")), False),
        (within(1, bound("either")), False),
        (within(1, bound("speeds")), True),
        (compute(input_uris=[bound("text")]), True),
        (compute(input_uris=[bound("x")]), False),
        (compute(output_uri=bound("flag")), False),
        (action({"a": bound("nested")}), True),
        (compute(parameters={"a": [bound("words")]}), True),
    ],
)
def test_the_type_of_a_parameter_fits_its_place(step: Json, fitting: bool) -> None:
    error = declared(step)
    assert (error is None) is fitting
    assert fitting or isinstance(error, RecipeBindingTypeMismatchError)


def expanded(*steps: Json, bindings: Json, schema: Any = PARAMETERS) -> Expansion | type[DomainError]:
    try:
        return expand(lists(*steps), bindings, schema)
    except DomainError as error:
        return type(error)


def test_expansion_replaces_a_binding_by_its_value_with_its_type() -> None:
    got = expanded(
        setpoint(bound("points")),
        action({"a": [bound("flag"), bound("whole")], "b": "x"}),
        within(bound("x"), bound("whole")),
        compute(input_uris=[bound("text")], output_uri=bound("text")),
        bindings={"points": [1, 2], "flag": True, "whole": 3, "x": 0.5, "text": "file:///a"},
    )
    assert isinstance(got, Expansion)
    assert got.lists == lists(
        setpoint([1, 2]),
        action({"a": [True, 3], "b": "x"}),
        within(0.5, 3),
        compute(input_uris=["file:///a"], output_uri="file:///a"),
    )


def test_expansion_leaves_what_execution_resolves() -> None:
    steps = (capture(), setpoint(C), setpoint(S), artifact(), compute(input_uris=[OUT]))
    got = expanded(*steps, bindings={})
    assert isinstance(got, Expansion)
    assert got.lists == lists(*steps)


def test_text_that_looks_like_a_reference_is_text() -> None:
    steps = (setpoint("__binding__"), action({"a": '{"__binding__": "x"}'}))
    got = expanded(*steps, bindings={"x": 1})
    assert isinstance(got, Expansion)
    assert got.lists == lists(*steps)


def test_the_hash_of_steps_is_of_what_is_executed() -> None:
    one, other = expanded(setpoint(B), bindings={"x": 1}), expanded(setpoint(1), bindings={})
    assert isinstance(one, Expansion) and isinstance(other, Expansion)
    assert one.steps_hash == other.steps_hash
    assert one.bindings_hash != other.bindings_hash


def test_the_hash_tells_main_from_closing_steps() -> None:
    main = expand(lists(setpoint(), setpoint()), {}, None)
    closing = expand(lists(setpoint(), closing=(setpoint(),)), {}, None)
    assert main.steps_hash != closing.steps_hash


@pytest.mark.parametrize(
    ("step", "bindings", "schema", "error"),
    [
        (
            setpoint(bound("gone")),
            {"gone": "?"},
            PARAMETERS,
            RecipeBindingsStaleAgainstCurrentCapabilityError,
        ),
        (setpoint(B), {}, None, RecipeBindingsStaleAgainstCurrentCapabilityError),
        (setpoint(1), {"x": 1}, None, InvalidRecipeBindingsError),
        (setpoint(B), {"x": "text"}, PARAMETERS, InvalidRecipeBindingsError),
        (setpoint(B), {"other": 1}, PARAMETERS, InvalidRecipeBindingsError),
        (setpoint(B), {"x": {"__capture__": "c"}}, {}, InvalidRecipeBindingsError),
        (action({"a": B}), {"x": {"b": [{"__steering__": "s"}]}}, {}, InvalidRecipeBindingsError),
        (action({"a": B}), {"x": 1, "__y": 1}, {}, InvalidRecipeBindingsError),
        (setpoint(B), {}, PARAMETERS, UnboundRecipeBindingError),
        (setpoint(B), {"whole": 1}, PARAMETERS, UnboundRecipeBindingError),
        (within(1, B), {"x": -1}, PARAMETERS, InvalidRecipeBindingsError),
        (within(1, B), {"x": "wide"}, {}, InvalidRecipeBindingsError),
        (setpoint(B), {"x": {"a": 1}}, {}, InvalidRecipeBindingsError),
        (setpoint([B]), {"x": [1]}, {}, InvalidRecipeBindingsError),
        (compute(output_uri=B), {"x": 5}, {}, InvalidRecipeBindingsError),
        (action({"a": B}), {"x": "y" * 17_000}, {}, InvalidRecipeBindingsError),
        (action({"a": B}), {"x": deep(16)}, {}, InvalidRecipeBindingsError),
        (action({"a": B}), {"x": deep(100_000)}, {}, InvalidRecipeBindingsError),
    ],
)
def test_expansion_names_the_cause(step: Json, bindings: Json, schema: Any, error: type) -> None:
    assert expanded(step, bindings=bindings, schema=schema) == error


def test_every_missing_binding_is_named() -> None:
    with pytest.raises(UnboundRecipeBindingError) as refused:
        expand(lists(setpoint(B), closing=(setpoint(bound("whole")),)), {}, PARAMETERS)
    assert refused.value.context["names"] == ["whole", "x"]


def test_a_step_keeps_its_index() -> None:
    placed = list(walk(lists(setpoint(), action(), closing=(capture(),))))
    assert [(each.list, each.step_index, each.step.kind) for each in placed] == [
        ("steps", 0, "Setpoint"),
        ("steps", 1, "Action"),
        ("closing_steps", 0, "Capture"),
    ]


def test_a_reference_is_an_object_of_its_one_key() -> None:
    assert sentinel(B) == BindingRef(name="x")
    assert sentinel(C) == CaptureRef(name="c")
    assert [sentinel(each) for each in ({**B, "y": 1}, {"__x__": "a"}, {"__binding__": 1}, "x", [B])] == [
        None
    ] * 5


SCALARS = st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5)
REFS = st.sampled_from([{"__binding__": name} for name in ("a", "b")] + [{"__steering__": "s"}])
DATA = st.recursive(
    SCALARS | REFS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("xyz", max_size=3), inner, max_size=3)
    ),
    max_leaves=12,
)


def filled(value: Any, bindings: Json) -> Any:
    """The oracle: a value with its bindings put in, written another way than the code."""
    text = msgspec.json.encode(value).decode()
    for name, bound_value in bindings.items():
        text = text.replace(f'{{"__binding__":"{name}"}}', msgspec.json.encode(bound_value).decode())
    return msgspec.json.decode(text)


@given(st.dictionaries(st.text("xyz", max_size=3), DATA, max_size=4), SCALARS, SCALARS)
def test_expansion_replaces_every_binding_and_nothing_else(params: Json, a: Any, b: Any) -> None:
    steps = StepLists(steps=(RecipeActionStep(name="collect", params=params),))
    bindings = {"a": a, "b": b}
    got = expand(steps, bindings, {}).lists
    assert got == StepLists(steps=(RecipeActionStep(name="collect", params=filled(params, bindings)),))
    assert not list(bindings_of(got))
    assert [use.path for use in uses(got.steps[0])] == [
        use.path for use in uses(steps.steps[0]) if not isinstance(use.ref, BindingRef)
    ]


def test_arms_carry_their_kind_on_the_wire() -> None:
    step = RecipeSetpointStep(address=PV, value=1)
    assert msgspec.to_builtins(step) == setpoint(1, verify=False, label=None, timeout=30.0)


def test_arms_have_their_own_timeouts() -> None:
    got = [step.timeout for step in read(setpoint(), action(), equals(1), capture(), compute())]
    assert got == [30, 3600, 0, 10, 3600]


def test_a_capture_holds_no_reference() -> None:
    assert list(uses(RecipeCaptureStep(address=PV, capture_name="c"))) == []
