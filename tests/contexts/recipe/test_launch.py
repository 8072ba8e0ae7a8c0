"""Launch specifications and the argument vectors they give."""

from typing import Any

import pytest

from beamwright.contexts.recipe.launch import (
    InvalidLaunchSpecError,
    LaunchArg,
    LaunchArgStyle,
    LaunchSpec,
    MissingLaunchParameterError,
    UnsafeLaunchUriError,
    argument_vector,
    checked_launch_spec,
    not_boolean,
    unknown_parameters,
)
from beamwright.kernel.value import replace
from tests.contexts.recipe.schemas import closed

RECON = LaunchSpec(base_command=("tomopy", "recon"))
ITERATIONS = LaunchArg(name="num_iter", flag="--iterations")
VERBOSE = LaunchArg(name="verbose", flag="-v", style=LaunchArgStyle.FLAG_ONLY)
FIRST = LaunchArg(name="algorithm", position=0)
SECOND = LaunchArg(name="center", position=1)


def with_args(*args: LaunchArg) -> LaunchSpec:
    return replace(RECON, args=args)


def arguments(spec: LaunchSpec, **parameters: Any) -> tuple[str, ...]:
    """What follows the base command."""
    return argument_vector(spec, parameters)[len(spec.base_command) :]


@pytest.mark.parametrize(
    "spec",
    [
        RECON,
        replace(RECON, base_command=("x" * 255,) * 32),
        with_args(ITERATIONS, VERBOSE, SECOND, FIRST),
        replace(RECON, input_arg="-i", output_arg="--output"),
        with_args(*(LaunchArg(name=f"p{number}", position=number) for number in range(64))),
    ],
)
def test_a_launch_spec_is_accepted(spec: LaunchSpec) -> None:
    assert checked_launch_spec(spec) == spec


@pytest.mark.parametrize(
    "spec",
    [
        replace(RECON, base_command=()),
        replace(RECON, base_command=("x",) * 33),
        replace(RECON, base_command=("",)),
        replace(RECON, base_command=("x" * 256,)),
        replace(RECON, base_command=("tomopy\n",)),
        with_args(*(LaunchArg(name=f"p{number}", position=number) for number in range(65))),
        with_args(ITERATIONS, replace(ITERATIONS, flag="-n")),
        with_args(LaunchArg(name="center")),
        with_args(replace(FIRST, flag="--algorithm")),
        with_args(SECOND),
        with_args(FIRST, replace(SECOND, position=0)),
        with_args(replace(FIRST, position=-1)),
        with_args(replace(FIRST, style=LaunchArgStyle.FLAG_ONLY)),
        with_args(replace(ITERATIONS, flag="iterations")),
        with_args(replace(ITERATIONS, flag="--iterations=1")),
        with_args(replace(ITERATIONS, flag="---n")),
        replace(RECON, input_arg="input"),
        replace(RECON, output_arg="--out put"),
    ],
)
def test_a_malformed_launch_spec_is_refused(spec: LaunchSpec) -> None:
    with pytest.raises(InvalidLaunchSpecError):
        checked_launch_spec(spec)


def test_an_argument_vector_has_its_parts_in_order() -> None:
    spec = replace(with_args(SECOND, ITERATIONS, FIRST, VERBOSE), input_arg="--in", output_arg="--out")
    parameters = {"num_iter": 5, "verbose": True, "algorithm": "gridrec", "center": 640.5}
    uris = ["file:///data/a.h5", "s3://bucket/b.h5"]
    assert argument_vector(spec, parameters, uris, "https://store/out.h5") == (
        *("tomopy", "recon"),
        *("--iterations", "5", "-v"),
        *("gridrec", "640.5"),
        *("--in", "file:///data/a.h5", "--in", "s3://bucket/b.h5"),
        *("--out", "https://store/out.h5"),
    )


def test_uris_without_a_flag_stand_alone() -> None:
    got = argument_vector(RECON, {}, ["file:///a"], "file:///b")
    assert got == ("tomopy", "recon", "file:///a", "file:///b")


def test_an_absent_value_is_skipped() -> None:
    assert arguments(with_args(ITERATIONS, VERBOSE, FIRST)) == ()


def test_null_is_no_value() -> None:
    assert arguments(with_args(ITERATIONS), num_iter=None) == ()


@pytest.mark.parametrize("arg", [ITERATIONS, VERBOSE, FIRST])
def test_a_required_value_must_be_given(arg: LaunchArg) -> None:
    with pytest.raises(MissingLaunchParameterError) as refused:
        arguments(with_args(replace(arg, required=True)))
    assert refused.value.context == {"parameters": [arg.name]}


def test_a_position_is_not_skipped_before_another() -> None:
    with pytest.raises(MissingLaunchParameterError) as refused:
        arguments(with_args(FIRST, SECOND), center=1)
    assert refused.value.context == {"parameters": ["algorithm"]}


@pytest.mark.parametrize(("value", "tokens"), [(True, ("-v",)), (False, ()), (1, ())])
def test_a_flag_alone_is_passed_for_true(value: Any, tokens: tuple[str, ...]) -> None:
    assert arguments(with_args(VERBOSE), verbose=value) == tokens


@pytest.mark.parametrize(
    ("value", "token"),
    [
        ("; rm -rf /", "; rm -rf /"),
        ("", ""),
        (True, "true"),
        (False, "false"),
        (5, "5"),
        (2**53 + 1, "9007199254740993"),
        (5.0, "5"),
        (0.1, "0.1"),
        (1e-7, "1e-7"),
        ([1, 2.5], "[1,2.5]"),
        ({"b": 1, "a": "x"}, '{"a":"x","b":1}'),
    ],
)
def test_the_text_of_a_value(value: Any, token: str) -> None:
    assert arguments(with_args(ITERATIONS), num_iter=value) == ("--iterations", token)


@pytest.mark.parametrize(
    "uri",
    ["", "/data/a", "data", "http://host/a", "ftp://host/a", "-file:///a", "file:///a\n", "s3://b\x00"],
)
def test_an_unsafe_uri_is_refused_as_input_and_as_output(uri: str) -> None:
    with pytest.raises(UnsafeLaunchUriError):
        argument_vector(RECON, {}, [uri])
    with pytest.raises(UnsafeLaunchUriError):
        argument_vector(RECON, {}, [], uri)


DECLARED = closed(num_iter={"type": "integer"}, verbose={"type": "boolean"})


@pytest.mark.parametrize(
    ("schema", "unknown"),
    [(None, ["algorithm", "num_iter"]), ({}, []), (DECLARED, ["algorithm"])],
)
def test_arguments_must_be_declared_unless_the_schema_is_open(schema: Any, unknown: list[str]) -> None:
    assert unknown_parameters(with_args(ITERATIONS, FIRST), schema) == unknown


@pytest.mark.parametrize(
    ("kind", "others"), [("boolean", []), ("integer", ["verbose"]), (["boolean", "string"], ["verbose"])]
)
def test_a_flag_alone_needs_a_boolean(kind: Any, others: list[str]) -> None:
    assert not_boolean(with_args(VERBOSE), closed(verbose={"type": kind})) == others


def test_an_open_schema_takes_a_flag_alone() -> None:
    assert not_boolean(with_args(VERBOSE), {}) == []
