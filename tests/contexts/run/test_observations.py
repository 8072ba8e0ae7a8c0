"""Samples of a run: what is refused of a batch, and in which order."""

import math
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from beamwright.contexts.run.observations import (
    ENDS,
    AppendObservations,
    InvalidChannelNameError,
    InvalidObservationBatchError,
    InvalidObservationUnitError,
    InvalidObservationValueError,
    ObservationEntry,
    RunObservationsClosedError,
    SamplingProcedure,
    by_column,
    check_window,
    checked,
    microseconds,
)
from beamwright.contexts.run.run import Run, runs
from beamwright.kernel.observations import ObservationBatch, ObservationKind
from beamwright.kernel.units import Unit, UnitSystem
from beamwright.kernel.value import replace
from tests.contexts.run.examples import RUN, STARTED
from tests.rules import NOW, given

SECOND = timedelta(seconds=1)
CELSIUS = Unit(system=UnitSystem.UDUNITS, code="degC")
NO_UNIT = Unit(system=UnitSystem.UDUNITS, code="no such unit")
ENTRY = ObservationEntry(
    event_id=UUID(int=1),
    channel_name="t1",
    value=1.0,
    sampling_procedure=SamplingProcedure.MONITOR,
    sampled_at=NOW,
)


def entry(**changes: Any) -> ObservationEntry:
    return replace(ENTRY, **changes)


def test_entries_become_columns_with_what_they_share_said_once() -> None:
    batch = by_column([entry(), entry(value=2.0), entry(channel_name="t2", unit=CELSIUS, simulated=True)])
    assert batch.kinds == (
        ObservationKind(channel_name="t1", sampling_procedure="Monitor"),
        ObservationKind(channel_name="t2", sampling_procedure="Monitor", simulated=True, unit=CELSIUS),
    )
    assert (batch.kind_numbers, batch.values) == ([0, 0, 1], [1.0, 2.0, 1.0])
    assert batch.event_ids == [UUID(int=1).bytes] * 3


def test_times_keep_their_microseconds() -> None:
    assert microseconds(datetime(1970, 1, 1, 0, 0, 1, 2, tzinfo=UTC)) == 1_000_002


def test_channel_names_are_trimmed() -> None:
    assert checked(by_column([entry(channel_name=" t1 ")])).kinds[0].channel_name == "t1"


@pytest.mark.parametrize(
    ("wrong", "refusal"),
    [
        ({"channel_name": " "}, InvalidChannelNameError),
        ({"channel_name": "x" * 256}, InvalidChannelNameError),
        ({"value": math.nan}, InvalidObservationValueError),
        ({"value": math.inf}, InvalidObservationValueError),
        ({"unit": NO_UNIT}, InvalidObservationUnitError),
        ({"unit": replace(CELSIUS, label="a\nb")}, InvalidObservationUnitError),
        ({"unit": Unit(system="feelings", code="x")}, InvalidObservationUnitError),  # pyright: ignore[reportArgumentType]
        ({"sampling_procedure": "Sometimes"}, InvalidObservationBatchError),
    ],
)
def test_a_refusal_names_the_entry(wrong: dict[str, Any], refusal: type[Exception]) -> None:
    with pytest.raises(refusal) as refused:
        checked(by_column([entry(), entry(value=2.0), entry(**wrong)]))
    assert refused.value.context["index"] == 2  # pyright: ignore[reportAttributeAccessIssue]


def test_names_are_looked_at_before_values_and_values_before_units() -> None:
    unit, value, name = entry(unit=NO_UNIT), entry(value=math.nan), entry(channel_name="")
    for batch, refusal in (
        ([unit, value, name], InvalidChannelNameError),
        ([unit, value], InvalidObservationValueError),
        ([unit], InvalidObservationUnitError),
    ):
        with pytest.raises(refusal):
            checked(by_column(batch))


def test_a_time_that_no_calendar_has_is_refused() -> None:
    far = ObservationBatch(
        kinds=(ObservationKind(channel_name="t1", sampling_procedure="Monitor"),),
        kind_numbers=[0],
        event_ids=[bytes(16)],
        values=[1.0],
        sampled_at=[2**62],
    )
    with pytest.raises(InvalidObservationBatchError):
        checked(far)


def test_more_than_5000_entries_are_too_many() -> None:
    by_column([ENTRY] * 5000)
    with pytest.raises(InvalidObservationBatchError):
        by_column([ENTRY] * 5001)


def test_an_empty_batch_needs_a_source() -> None:
    nothing = ObservationBatch()
    with pytest.raises(InvalidObservationBatchError):
        AppendObservations(run_id=RUN, entries=()).checked_source(nothing)
    alive = AppendObservations(run_id=RUN, entries=(), source_id=" ioc-1 ")
    assert alive.checked_source(nothing) == "ioc-1"


@pytest.mark.parametrize("source_id", [" ", "x" * 101])
def test_a_source_has_a_name(source_id: str) -> None:
    with pytest.raises(InvalidObservationBatchError):
        AppendObservations(run_id=RUN, entries=(ENTRY,), source_id=source_id).checked_source(
            by_column([ENTRY])
        )


OPEN: Run = given(runs, STARTED)
ENDED = replace(OPEN, ended_at=NOW + 10 * SECOND)


@pytest.mark.parametrize(
    ("run", "after_start", "taken"),
    [
        (OPEN, -60 * SECOND, True),
        (OPEN, -60 * SECOND - timedelta(microseconds=1), False),
        (OPEN, timedelta(days=3650), True),
        (ENDED, 10 * SECOND, True),
        (ENDED, 10 * SECOND + timedelta(microseconds=1), False),
    ],
)
def test_samples_are_of_the_time_of_their_run(run: Run, after_start: timedelta, taken: bool) -> None:
    times = [microseconds(NOW), microseconds(NOW + after_start)]
    if taken:
        check_window(run, times)
        return
    with pytest.raises(RunObservationsClosedError) as refused:
        check_window(run, times)
    assert refused.value.context["index"] == 1


def test_every_end_of_a_run_ends_its_samples() -> None:
    assert ENDS == ("RunCompleted", "RunAborted", "RunStopped", "RunTruncated")
