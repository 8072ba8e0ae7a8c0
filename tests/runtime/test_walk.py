"""Random walks over the real service: whatever is called, the store verifies and the lists agree with the log."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, consumes, invariant, multiple, rule

from beamwright.contexts.access.actor import DeactivateActor, ForgetActor, ReactivateActor, RegisterActor
from beamwright.contexts.trust.control import ReleaseSurfaceControl, TakeSurfaceControl
from beamwright.contexts.trust.doors import DefineConduit
from beamwright.contexts.trust.presence import CloseVisitPresence, OpenVisitPresence
from beamwright.contexts.trust.retirement import RetireConduit, RetireZone
from beamwright.contexts.trust.visit_moves import CompleteVisit, RecordVisitArrival, StartVisit, VoidVisit
from beamwright.contexts.trust.visit_registration import RegisterVisit
from beamwright.contexts.trust.zone import DefineZone, UpdateZone
from beamwright.kernel import wellknown
from beamwright.kernel.value import replace
from tests.live import Cluster
from tests.runtime.test_projector import ADMINISTRATOR
from tests.walks import Walk, walk

NAMES = st.sampled_from(["alpha", "Alpha", "beta", "gamma"])


class AccessWalk(Walk):
    """Zones, conduits, visits, presence, control and actors, called in any order."""

    zones = Bundle("zones")
    conduits = Bundle("conduits")
    visits = Bundle("visits")
    people = Bundle("people")

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.keys: dict[str, Any] = {}

    @rule(target=zones, name=NAMES)
    def define_zone(self, name: str) -> Any:
        made = self.call(DefineZone(name=name))
        return made.zone_id if made else multiple()

    @rule(zone=zones, name=NAMES)
    def rename_zone(self, zone: UUID, name: str) -> None:
        self.call(UpdateZone(zone_id=zone, name=name))

    @rule(zone=zones)
    def retire_zone(self, zone: UUID) -> None:
        self.call(RetireZone(zone_id=zone, reason="walk"))

    @rule(target=conduits, one=zones, two=zones)
    def define_conduit(self, one: UUID, two: UUID) -> Any:
        made = self.call(DefineConduit(name=uuid4().hex, source_zone_id=one, target_zone_id=two))
        return made.conduit_id if made else multiple()

    @rule(conduit=consumes(conduits))
    def retire_conduit(self, conduit: UUID) -> None:
        self.call(RetireConduit(conduit_id=conduit, reason="walk"))

    @rule(target=visits, code=NAMES)
    def register_visit(self, code: str) -> Any:
        start = datetime.now(UTC)
        made = self.call(
            RegisterVisit(
                code=code,
                title="walk",
                facility_code="home",
                surface_id=wellknown.HTTP_SURFACE,
                type="User",  # type: ignore[arg-type]
                planned_start_at=start,
                planned_end_at=start + timedelta(days=1),
                members={wellknown.ADMINISTRATOR: "Lead"},  # type: ignore[dict-item]
            )
        )
        return made.visit_id if made else multiple()

    @rule(
        visit=visits,
        move=st.sampled_from(
            [
                lambda id: RecordVisitArrival(visit_id=id),
                lambda id: StartVisit(visit_id=id),
                lambda id: OpenVisitPresence(visit_id=id, mode="Remote"),  # type: ignore[arg-type]
                lambda id: CloseVisitPresence(visit_id=id),
                lambda id: TakeSurfaceControl(visit_id=id),
                lambda id: ReleaseSurfaceControl(visit_id=id),
                lambda id: CompleteVisit(visit_id=id),
                lambda id: VoidVisit(visit_id=id, reason="walk"),
            ]
        ),
    )
    def move_visit(self, visit: UUID, move: Callable[[UUID], Any]) -> None:
        self.call(move(visit))

    @rule(target=people)
    def register_actor(self) -> Any:
        return self.call(RegisterActor(name="Somebody")).actor_id

    @rule(actor=people)
    def deactivate(self, actor: UUID) -> None:
        self.call(DeactivateActor(actor_id=actor, reason="Departed"))  # type: ignore[arg-type]

    @rule(actor=people)
    def reactivate(self, actor: UUID) -> None:
        self.call(ReactivateActor(actor_id=actor))

    @rule(actor=people)
    def forget(self, actor: UUID) -> None:
        assert self.call(ForgetActor(actor_id=actor)) is not None

    @rule(key=st.sampled_from("abc"), name=NAMES)
    def same_key_gives_one_answer(self, key: str, name: str) -> None:
        """N calls with one key are one call."""
        request = self.keys.setdefault(key, DefineZone(name=f"{name} {key}"))
        call = replace(ADMINISTRATOR, idempotency_key=key)
        first = self.call(request, call)
        again = self.call(request, call)
        assert bytes(again) == bytes(self.keys.setdefault(f"answer {key}", again) or b"")
        assert first is not None

    @invariant()
    def nobody_is_locked_out(self) -> None:
        assert self.app.authority.current.administrators((), datetime.now(UTC))


def test_whatever_is_called_the_store_verifies_and_the_lists_agree_with_the_log(cluster: Cluster) -> None:
    walk(AccessWalk, cluster, examples=12, steps=30)
