"""What a principal can be, and its part in a visit: the words that actors, visits and policies share."""

from enum import StrEnum


class ActorKind(StrEnum):
    HUMAN = "human"
    AGENT = "agent"
    SERVICE_ACCOUNT = "service_account"


class VisitRole(StrEnum):
    LEAD = "Lead"
    MEMBER = "Member"
    SUPPORT = "Support"
    OBSERVER = "Observer"


class VisitStatus(StrEnum):
    PLANNED = "Planned"
    ARRIVED = "Arrived"
    IN_PROGRESS = "InProgress"
    ON_HOLD = "OnHold"
    COMPLETED = "Completed"
    CANCELLED = "Cancelled"
    ABORTED = "Aborted"
    VOIDED = "Voided"
