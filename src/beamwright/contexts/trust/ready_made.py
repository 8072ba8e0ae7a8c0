"""Ready-made policies: who may do what in an installation where nobody has decided yet."""

from collections.abc import Iterable
from uuid import UUID

from beamwright.kernel.roles import ActorKind, VisitRole, VisitStatus
from beamwright.kernel.value import Value
from beamwright.kernel.wellknown import (
    ADMINISTRATOR,
    ADMINISTRATOR_POLICY,
    AGENT_POLICY,
    CATALOGUE_SEEDER,
    HTTP_SURFACE,
    IDENTIFIER_MINTER,
    IN_PROCESS_SURFACE,
    LAPTOP_POLICY,
    LOCAL_OPERATOR,
    MCP_SURFACE,
    MONITOR,
    MONITOR_POLICY,
    OBSERVER_POLICY,
    OPERATOR_POLICY,
    PEER_POLICY,
    REACTOR,
    RUN_CONDUCTOR,
    SAFETY_OFFICER_POLICY,
    SCHEDULER,
    SCIENTIST_POLICY,
)

from .policy import GrantEffect, GrantScope, GrantScopeKind, Principals


class SeedGrant(Value):
    """A grant before its patterns were held against the operations that there are."""

    principals: Principals | None = None
    effect: GrantEffect = GrantEffect.ALLOW
    scope: GrantScope
    surface_ids: frozenset[UUID] = frozenset()
    patterns: tuple[str, ...]


class SeedPolicy(Value):
    """A ready-made policy."""

    id: UUID
    name: str
    description: str
    principals: Principals = Principals()
    grants: tuple[SeedGrant, ...]
    suspended: str | None = None


EVERYTHING = GrantScope(kind=GrantScopeKind.EVERYTHING)
OWNER = GrantScope(kind=GrantScopeKind.OWNER)
IN_PROCESS = frozenset({IN_PROCESS_SURFACE})

OPERATIONAL = (
    "equipment",
    "recipe",
    "run",
    "data",
    "decision",
    "subject",
    "calibration",
    "supply",
    "campaign",
    "caution",
    "operation",
    "safety",
    "enclosure",
)
OPERATIONAL_READS = tuple(f"{context}:@reads" for context in OPERATIONAL)
WIND_DOWN = (
    *(
        f"{context}:{verb}_*"
        for context in ("run", "operation", "campaign")
        for verb in ("hold", "stop", "abort", "truncate", "complete", "close", "end")
    ),
    "release_surface_control",
    "close_visit_presence",
)
CLEARANCES = (
    "register_clearance",
    "revise_clearance",
    "submit_clearance",
    "amend_clearance",
    "withdraw_clearance",
)
TEAM_READS = (
    *OPERATIONAL_READS,
    "get_visit",
    "list_visits",
    "list_visit_presence",
    # The feed shows each of them only what its single reads reach.
    "list_events",
    "list_presence",
    "get_surface",
    "list_surfaces",
    "get_surface_control",
    "get_facility",
    "list_facilities",
    "get_agent",
    "list_agents",
    "get_command_proposal",
    "list_command_proposals",
)
OBSERVER_OPERATIONS = (*TEAM_READS, "propose_command")
STANDING_TOOLS = (
    "get_current_actor",
    "list_permissions",
    "get_agent",
    "get_agent_spend",
    "get_command_proposal",
    "list_command_proposals",
    "propose_command",
    "withdraw_command_proposal",
    "append_inferences",
)
OBSERVATIONS = ("observe_enclosure_status", "observe_supply_status")
# How a compute job ended is told by whoever ran it.
JOB_ENDS = ("end_run_conduct",)
PREPARATION = (
    *CLEARANCES,
    "register_subject",
    "describe_subject",
    "declare_subject_hazards",
    "register_campaign",
)
EXPERIMENT = (
    "run:@commands",
    "operation:@commands",
    "campaign:@commands",
    "subject:@commands",
    "register_dataset",
    "describe_dataset",
    "promote_dataset",
    "register_distribution",
    "verify_distribution",
    "record_acquisition",
    "ingest_scan",
    "register_decision",
    "rate_decision",
    "append_decision_logbook_entry",
    "open_visit_presence",
    "take_surface_control",
    "request_surface_control",
    "give_surface_control",
    "refuse_surface_control",
    "propose_command",
    "regenerate_run_debrief",
)
EXPERIMENT_AT_FACILITY = (
    "define_plan",
    "version_plan",
    "recipe:update_plan_*",
    "register_caution",
    "acknowledge_caution",
    "append_calibration_revision",
    "propose_command",
)
OPERATION_OF_A_SITE = (
    "equipment:*",
    "recipe:*",
    "run:*",
    "operation:*",
    "campaign:*",
    "subject:*",
    "data:*",
    "calibration:*",
    "supply:*",
    "caution:*",
    "decision:*",
    "enclosure:@reads",
    "safety:@reads",
    *CLEARANCES,
    "trust:*_visit",
    "trust:*_visits",
    "trust:*_visit_*",
    "trust:*_surface_control",
    "list_events",
    "list_presence",
    "get_surface",
    "list_surfaces",
    "get_facility",
    "list_facilities",
    "agent:@reads",
    "propose_command",
    "approve_command_proposal",
    "reject_command_proposal",
    "regenerate_run_debrief",
    "redraft_caution_proposal",
)
DEFINITIONS = (
    "equipment:define_*",
    "equipment:version_*",
    "equipment:deprecate_*",
    "equipment:update_family_*",
    "recipe:@commands",
    "get_actor",
    "list_actors",
    "suspend_agent",
)


def ready_made_policies(self_facility_code: str) -> list[SeedPolicy]:
    own = GrantScope(kind=GrantScopeKind.FACILITY, facility_codes=frozenset({self_facility_code}))
    return [
        administrator_policy(),
        scientist_policy(),
        operator_policy(own),
        observer_policy(own),
        safety_officer_policy(own),
        agent_policy(),
        monitor_policy(),
        laptop_policy(),
        peer_policy(),
    ]


def people(*actor_ids: UUID) -> Principals:
    return Principals(actor_ids=frozenset(actor_ids))


def team(letters: str) -> Principals:
    """The members of a visit, each role by its first letter."""
    return Principals(visit_roles=frozenset(role for role in VisitRole if role[0] in letters))


def own_visits(*statuses: VisitStatus) -> GrantScope:
    return GrantScope(kind=GrantScopeKind.OWN_VISITS, visit_statuses=frozenset(statuses))


def own_visit_facilities(*statuses: VisitStatus) -> GrantScope:
    return GrantScope(kind=GrantScopeKind.OWN_VISIT_FACILITIES, visit_statuses=frozenset(statuses))


def administrator_policy() -> SeedPolicy:
    return SeedPolicy(
        id=ADMINISTRATOR_POLICY,
        name="Administrator",
        description="May do everything.",
        principals=people(ADMINISTRATOR),
        grants=(SeedGrant(scope=EVERYTHING, patterns=("*:*",)),),
    )


def scientist_policy() -> SeedPolicy:
    return SeedPolicy(
        id=SCIENTIST_POLICY,
        name="Scientist",
        description="What people may do with themselves, and with the visits they belong to.",
        grants=(self_service(), *visit_reads(), *visit_work(), *visit_lead()),
    )


def self_service() -> SeedGrant:
    return SeedGrant(
        principals=Principals(kinds=frozenset({ActorKind.HUMAN})),
        scope=OWNER,
        patterns=(
            "get_current_actor",
            "get_actor",
            "list_actors",
            "get_actor_profile",
            "update_actor_profile",
            "list_permissions",
        ),
    )


def visit_reads() -> Iterable[SeedGrant]:
    patterns = (*TEAM_READS, "get_actor", "list_actors")
    for scope in (own_visits(), own_visit_facilities()):
        yield SeedGrant(principals=team("LMSO"), scope=scope, patterns=patterns)


def visit_work() -> Iterable[SeedGrant]:
    """Prepare, work and wind down, as far as the visit has come."""
    planned, arrived, in_progress = VisitStatus.PLANNED, VisitStatus.ARRIVED, VisitStatus.IN_PROGRESS
    yield SeedGrant(
        principals=team("LMS"),
        scope=own_visits(planned, arrived, in_progress),
        patterns=PREPARATION,
    )
    yield SeedGrant(
        principals=team("LMS"),
        scope=own_visits(arrived, in_progress),
        patterns=EXPERIMENT,
    )
    yield SeedGrant(
        principals=team("LMS"),
        scope=own_visit_facilities(arrived, in_progress),
        patterns=EXPERIMENT_AT_FACILITY,
    )
    yield SeedGrant(
        principals=team("LMS"),
        scope=own_visits(arrived, in_progress, VisitStatus.ON_HOLD),
        patterns=WIND_DOWN,
    )


def visit_lead() -> Iterable[SeedGrant]:
    yield SeedGrant(
        principals=team("L"),
        scope=own_visits(
            VisitStatus.PLANNED, VisitStatus.ARRIVED, VisitStatus.IN_PROGRESS, VisitStatus.ON_HOLD
        ),
        patterns=(
            "add_visit_member",
            "remove_visit_member",
            "record_visit_arrival",
            "start_visit",
            "hold_visit",
            "resume_visit",
            "complete_visit",
            "approve_command_proposal",
            "reject_command_proposal",
        ),
    )


def operator_policy(own: GrantScope) -> SeedPolicy:
    at_home = SeedGrant(
        scope=own,
        patterns=OPERATION_OF_A_SITE,
    )
    anywhere = SeedGrant(
        scope=EVERYTHING,
        patterns=DEFINITIONS,
    )
    return SeedPolicy(
        id=OPERATOR_POLICY,
        name="Operator",
        description="Runs the own Site; add a person as principal to make it an operator.",
        grants=(at_home, anywhere),
    )


def observer_policy(own: GrantScope) -> SeedPolicy:
    return SeedPolicy(
        id=OBSERVER_POLICY,
        name="Observer",
        description="Sees the own Site, and may propose commands.",
        grants=(SeedGrant(scope=own, patterns=OBSERVER_OPERATIONS),),
    )


def safety_officer_policy(own: GrantScope) -> SeedPolicy:
    at_home = SeedGrant(
        scope=own,
        patterns=(
            *OBSERVER_OPERATIONS,
            "safety:*",
            "register_enclosure",
            "assign_enclosure_permit_source",
            "decommission_enclosure",
            "caution:*",
            "register_decision",
            "rate_decision",
            "hold_run",
            "stop_run",
            "abort_run",
            "hold_procedure",
            "abort_procedure",
            "hold_campaign",
            "hold_visit",
            "abort_visit",
            "reject_command_proposal",
        ),
    )
    anywhere = SeedGrant(scope=EVERYTHING, patterns=("get_actor", "list_actors", "suspend_agent"))
    return SeedPolicy(
        id=SAFETY_OFFICER_POLICY,
        name="Safety officer",
        description="Keeps the own Site safe, and may stop what is under way there.",
        grants=(at_home, anywhere),
    )


def agent_policy() -> SeedPolicy:
    """Each agent may use only those of these operations that are among its tools."""
    inside = SeedGrant(
        scope=EVERYTHING,
        surface_ids=IN_PROCESS,
        patterns=(
            *OPERATIONAL_READS,
            "agent:@reads",
            "get_facility",
            "list_facilities",
            "get_visit",
            "register_decision",
            "append_inferences",
            "append_run_logbook_entry",
            "request_run_debrief",
            "hold_run",
            "stop_run",
            "promote_caution_proposal",
            "expire_clearance",
        ),
    )
    return SeedPolicy(
        id=AGENT_POLICY,
        name="Agent",
        description="What agents may do inside the service, and with themselves.",
        principals=Principals(kinds=frozenset({ActorKind.AGENT})),
        grants=(
            inside,
            SeedGrant(scope=OWNER, patterns=STANDING_TOOLS),
            SeedGrant(scope=OWNER, surface_ids=IN_PROCESS, patterns=STANDING_TOOLS),
        ),
    )


def monitor_policy() -> SeedPolicy:
    return SeedPolicy(
        id=MONITOR_POLICY,
        name="Monitor",
        description="What the service's own accounts may do; people and agents do not report for monitors.",
        grants=(
            account_grant(MONITOR, *OBSERVATIONS, "enclosure:@reads", "supply:@reads"),
            SeedGrant(
                principals=Principals(kinds=frozenset({ActorKind.HUMAN, ActorKind.AGENT})),
                effect=GrantEffect.DENY,
                scope=EVERYTHING,
                patterns=(*OBSERVATIONS, *JOB_ENDS),
            ),
            account_grant(RUN_CONDUCTOR, *JOB_ENDS, "get_run"),
            account_grant(
                SCHEDULER,
                "*:@reads",
                "expire_command_proposal",
                "expire_visit_presence",
                "sign_seal_pointer",
                "expire_caution",
                "verify_distribution",
                "mark_distribution_stale",
            ),
            account_grant(
                REACTOR,
                "*:@reads",
                "mark_dataset_suspect",
                "clear_dataset_suspicion",
                "mark_edition_suspect",
                "measure_subject",
                "dismount_subject",
                "withdraw_artifact",
                "tombstone_*_persistent_identifier",
            ),
            # A definition names roles, and what a call names its caller must be able to read.
            account_grant(
                CATALOGUE_SEEDER,
                "define_role",
                "define_family",
                "get_role",
                "define_calibration_quantity",
                "version_calibration_quantity",
                "get_calibration_quantity",
                "define_clearance_template",
                "activate_clearance_template",
                "get_clearance_template",
                "get_facility",
            ),
            account_grant(
                IDENTIFIER_MINTER,
                "assign_*_persistent_identifier",
                "fail_*_persistent_identifier",
                "tombstone_*_persistent_identifier",
                *(f"{context}:@reads" for context in ("equipment", "data", "subject")),
            ),
        ),
    )


def account_grant(actor_id: UUID, *patterns: str) -> SeedGrant:
    """What a worker may do as its own account, inside the service only."""
    return SeedGrant(principals=people(actor_id), scope=EVERYTHING, surface_ids=IN_PROCESS, patterns=patterns)


def laptop_policy() -> SeedPolicy:
    return SeedPolicy(
        id=LAPTOP_POLICY,
        name="Laptop",
        description="Lets the local operator do everything where no token is asked for.",
        principals=people(LOCAL_OPERATOR),
        grants=(
            SeedGrant(
                scope=EVERYTHING, surface_ids=frozenset({HTTP_SURFACE, MCP_SURFACE}), patterns=("*:*",)
            ),
        ),
        suspended="Calls need a token here.",
    )


def peer_policy() -> SeedPolicy:
    return SeedPolicy(
        id=PEER_POLICY,
        name="Peer",
        description="What another installation's account may do: deliver, and read what is addressed to it.",
        grants=(
            SeedGrant(
                scope=OWNER,
                patterns=(
                    "receive_artifact",
                    "receive_seal_statement",
                    "get_artifact",
                    "list_artifacts",
                    "get_artifact_envelope",
                    "get_seal",
                    "list_seals",
                    "list_seal_ledger",
                ),
            ),
        ),
    )
