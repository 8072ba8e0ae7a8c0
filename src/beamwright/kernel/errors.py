"""The error hierarchy. A surface maps a class to a status by its base, never by message."""

from collections.abc import Collection, Sequence
from typing import Any, ClassVar
from uuid import UUID


class DomainError(Exception):
    """The request was refused."""

    status: ClassVar[int] = 500
    retry_after: ClassVar[int | None] = None

    def __init__(self, detail: str, **context: Any) -> None:
        super().__init__(detail)
        self.detail = detail
        self.context = context

    @classmethod
    def title(cls) -> str:
        """The condition in a sentence: the first line of the class's own docstring."""
        return next(base.__doc__ for base in cls.__mro__ if base.__doc__).strip().splitlines()[0]


class InvalidError(DomainError):
    """The request is malformed whatever the state of the facility."""

    status = 400


class InvalidObjectTypeError(InvalidError):
    """No aggregate has this name."""


class UnauthenticatedError(DomainError):
    """A valid bearer token is needed."""

    status = 401


class DeniedError(DomainError):
    """The caller may not do this."""

    status = 403


class NotFoundError(DomainError):
    """There is no such object within the caller's reach."""

    status = 404

    @classmethod
    def of(cls, aggregate: str, id: object) -> "NotFoundError":
        return cls(f"{aggregate} {id} does not exist or is outside your reach.", id=str(id))

    @classmethod
    def all_of(cls, aggregate: str, missing: Sequence["NotFoundError"]) -> "NotFoundError":
        """One refusal for several objects."""
        ids = sorted({str(error.context["id"]) for error in missing})
        if len(ids) == 1:
            return cls.of(aggregate, ids[0])
        return cls(f"{aggregate} {', '.join(ids)} do not exist or are outside your reach.", ids=ids)


class ConflictError(DomainError):
    """The request is well formed but the current state refuses it."""

    status = 409


class CannotTransitionError(ConflictError):
    """The current status does not allow this move."""

    @classmethod
    def of(cls, id: UUID, current: str, allowed: Collection[str]) -> "CannotTransitionError":
        return cls(
            f"{id} is {current}; this is allowed from {', '.join(sorted(allowed)) or 'no status'}.",
            id=str(id),
            current=current,
            allowed=sorted(allowed),
        )


class ConcurrencyError(ConflictError):
    """Another writer changed what this decision was based on; read again and retry."""


class IdempotencyInProgressError(ConflictError):
    """The first call with this idempotency key is still running."""

    retry_after = 1


class ShapeError(DomainError):
    """The request does not have the shape that the operation declares."""

    status = 422


class IdempotencyKeyReusedError(ShapeError):
    """This idempotency key was used before with another request."""


class UnavailableError(DomainError):
    """A part that the service depends on is away; try again shortly."""

    status = 503
    retry_after = 5


class DatabaseUnavailableError(UnavailableError):
    """The database does not answer; nothing was recorded."""


class StorageFullError(UnavailableError):
    """The disk of the database is full; nothing was recorded."""

    retry_after = 30


class OverloadedError(UnavailableError):
    """The service is answering as many calls as it can at once."""

    retry_after = 1


class ReadModelBehindError(UnavailableError):
    """The list has not caught up with the given consistency token in time."""

    retry_after = 1


class IdentityProviderUnavailableError(UnavailableError):
    """The identity provider does not answer, so the token cannot be verified."""


class AuthorizationDeniedError(DeniedError):
    """No policy allows this call, or one denies it."""


class IdentityNotLinkedError(DeniedError):
    """The token is valid, but its login is linked to no actor."""
