"""Conduit: its rules, its status grid and its verdict log."""

import asyncio
from typing import Any
from uuid import UUID

import msgspec
import pytest

from beamwright.contexts.trust.conduit import (
    ConduitDefined,
    ConduitNotFoundError,
    ConduitRetired,
    ConduitUpdated,
    InvalidConduitNameError,
    ListVerdicts,
    UpdateConduit,
    VerdictLevel,
    conduits,
)
from beamwright.contexts.trust.doors import ConduitZoneRetiredError, DefineConduit
from beamwright.contexts.trust.retirement import ConduitInUse, RetireConduit
from beamwright.contexts.trust.zone import Zone, ZoneNotFoundError, ZoneStatus
from tests.contexts.trust.examples import CONDUIT, CONDUIT_DEFINED, ZONE, SmallWorld, check_columns, conduit
from tests.rules import NEW_ID, NOW, outcome

SERVICE = UUID(int=2)
ACTIVE = Zone(id=ZONE, name="Clients", description=None)
RETIRED_ZONE = Zone(id=SERVICE, name="Service", description=None, status=ZoneStatus.RETIRED)
RETIRED = ConduitRetired(conduit_id=CONDUIT, occurred_at=NOW, reason="rebuilt")
DEFINE = DefineConduit(name=" Within ", source_zone_id=ZONE, target_zone_id=ZONE)


def test_define_makes_a_path_within_a_zone_that_keeps_commands() -> None:
    assert outcome(DEFINE, (ACTIVE, ACTIVE)) == [
        ConduitDefined(
            conduit_id=NEW_ID,
            occurred_at=NOW,
            name="Within",
            source_zone_id=ZONE,
            target_zone_id=ZONE,
            verdict_level=VerdictLevel.COMMANDS,
        )
    ]


@pytest.mark.parametrize("ends", [(ACTIVE, RETIRED_ZONE), (RETIRED_ZONE, ACTIVE)])
def test_define_refuses_a_retired_zone_at_either_end(ends: tuple[Zone, Zone]) -> None:
    assert outcome(DEFINE, ends) == ConduitZoneRetiredError


def test_define_refuses_a_blank_name_before_an_unknown_zone() -> None:
    unnamed = DefineConduit(name=" ", source_zone_id=ZONE, target_zone_id=ZONE)
    world: Any = SmallWorld()
    with pytest.raises(InvalidConduitNameError):
        asyncio.run(unnamed.gather(world))
    with pytest.raises(ZoneNotFoundError):
        asyncio.run(DEFINE.gather(world))


def test_define_refuses_a_blank_name_before_a_retired_zone() -> None:
    unnamed = DefineConduit(name=" ", source_zone_id=ZONE, target_zone_id=ZONE)
    assert outcome(unnamed, (ACTIVE, RETIRED_ZONE)) == InvalidConduitNameError


def test_update_keeps_what_is_absent() -> None:
    got = outcome(UpdateConduit(conduit_id=CONDUIT, verdict_level=VerdictLevel.ALL), conduit())
    assert got == [
        ConduitUpdated(
            conduit_id=CONDUIT, occurred_at=NOW, name="Clients to service", verdict_level=VerdictLevel.ALL
        )
    ]


def test_update_that_changes_nothing_is_a_no_op() -> None:
    assert outcome(UpdateConduit(conduit_id=CONDUIT, name="Clients to service "), conduit()) == []


def test_update_refuses_a_blank_name_before_the_status() -> None:
    assert outcome(UpdateConduit(conduit_id=CONDUIT, name=" "), conduit(RETIRED)) == InvalidConduitNameError


def test_update_changes_the_fold() -> None:
    renamed = ConduitUpdated(conduit_id=CONDUIT, occurred_at=NOW, name="Door", verdict_level=VerdictLevel.ALL)
    assert (conduit(renamed).name, conduit(renamed).verdict_level) == ("Door", VerdictLevel.ALL)


def test_name_is_claimed_in_any_case_until_retired() -> None:
    assert [claim.key for claim in conduits.claims(conduit())] == ["clients to service"]
    assert conduits.claims(conduit(RETIRED)) == []


def test_verdicts_are_listed_from_a_time_until_another() -> None:
    body = f'{{"conduit_id": "{CONDUIT}", "from": "2026-01-01T00:00:00Z"}}'
    assert msgspec.json.decode(body, type=ListVerdicts).from_ == NOW


def test_verdicts_of_an_unknown_conduit_are_not_found() -> None:
    world: Any = SmallWorld()
    with pytest.raises(ConduitNotFoundError):
        asyncio.run(ListVerdicts(conduit_id=CONDUIT).answer(world))


GRID = """
          update  retire
Active    Active  Retired
Retired   -       -
"""


def test_status_grid() -> None:
    check_columns(
        GRID,
        conduits,
        {"Active": [CONDUIT_DEFINED], "Retired": [CONDUIT_DEFINED, RETIRED]},
        {
            "update": (UpdateConduit(conduit_id=CONDUIT, name="Other"), lambda conduit: conduit),
            "retire": (
                RetireConduit(conduit_id=CONDUIT, reason="rebuilt"),
                lambda conduit: ConduitInUse(conduit=conduit),
            ),
        },
    )
