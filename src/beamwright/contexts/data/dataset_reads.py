"""Reads of datasets: their views, and the list that finds them by what they are and came from."""

from collections.abc import Sequence
from typing import Annotated
from uuid import UUID

from msgspec import Meta

from beamwright.kernel.aggregate import Filter, Test
from beamwright.kernel.operation import World
from beamwright.kernel.value import Time, Value

from .dataset import Dataset, DatasetIntent, DatasetRole, DatasetStatus, datasets

type Short = Annotated[str, Meta(max_length=200)]


class DatasetExtras(Value):
    """What a dataset's view shows beyond its state."""

    suspect: bool


async def dataset_extras(world: World, states: Sequence[Dataset]) -> list[DatasetExtras]:
    return [DatasetExtras(suspect=dataset.suspect) for dataset in states]


datasets.reads(
    "/datasets",
    filters=(
        Filter[Dataset](
            name="status",
            type=frozenset[DatasetStatus],
            of=lambda dataset: dataset.status,
            test=Test.ONE_OF,
        ),
        Filter[Dataset](
            name="intent",
            type=frozenset[DatasetIntent],
            of=lambda dataset: dataset.intent,
            test=Test.ONE_OF,
        ),
        Filter[Dataset](
            name="role", type=frozenset[DatasetRole], of=lambda dataset: dataset.role, test=Test.ONE_OF
        ),
        "facility_code",
        "visit_id",
        "producing_run_id",
        "producing_procedure_id",
        "subject_id",
        Filter[Dataset](
            name="derived_from",
            type=frozenset[UUID],
            of=lambda dataset: sorted(dataset.derived_from),
            test=Test.CONTAINS_ANY,
        ),
        Filter[Dataset](
            name="used_calibration_id",
            type=UUID,
            of=lambda dataset: sorted(dataset.used_calibration_ids),
            test=Test.CONTAINS,
        ),
        Filter[Dataset](name="suspect", type=bool, of=lambda dataset: dataset.suspect),
        Filter[Dataset](name="media_type", type=Short, of=lambda dataset: dataset.encoding.media_type),
        Filter[Dataset](name="checksum", type=Short, of=lambda dataset: dataset.checksum.value),
        Filter[Dataset](
            name="created_from", type=Time, of=lambda dataset: dataset.registered_at, test=Test.AT_LEAST
        ),
        Filter[Dataset](
            name="created_until", type=Time, of=lambda dataset: dataset.registered_at, test=Test.BEFORE
        ),
    ),
    sorts=("created_at", "name", "byte_size"),
    text=("words",),
    extras=(DatasetExtras, dataset_extras),
)
