"""Records of verifications, for the application to keep."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Literal, cast

from .enforcement import NO_AUTHORITY, NO_DECISION, Finding, Refusal, Ruling
from .operation import BoundOperation
from .payload import frozen_copy

# Why the action runs or does not run: the result of verify, why the guard did not call verify, or why it did
# not act on `allow`.
Cause = (
    Finding
    | Literal[
        "no_scope",
        "no_proof",
        "malformed_proof",
        "unbindable_payload",
        "incomplete_operation",
        "invalid_amount",
        "hidden_dot_segment",
        "no_api_key",
        "verifier_not_read",
        "replayed",
        "principal_not_accepted",
        "principals_not_read",
        "record_not_retained",
    ]
)


@dataclass(frozen=True, slots=True)
class VerificationRecord:
    """The record of a verification. It does not contain the proof, the payload or the API key.

    `asked_at`: time at which verify was called or would have been called. ISO 8601, UTC. `status`: status of
    verify's response, or `None` if no complete response arrived. `answer`: the response, including the
    receipt and its hash, read-only at every level. `refusal`: `None` if the application may act.
    """

    cause: Cause
    required_scope: str | None
    operation: BoundOperation | None
    asked_at: str
    status: int | None
    answer: Mapping[str, Any]
    refusal: Refusal | None


_OWN_REFUSALS: Mapping[str, Refusal] = {
    "replayed": Refusal(
        403, "invocation_replayed", "This invocation was decided before; nothing was done again"
    ),
    "principal_not_accepted": Refusal(
        403, "principal_not_accepted", "Authority of this principal is not accepted here"
    ),
    "principals_not_read": NO_DECISION,
    "no_api_key": NO_DECISION,
    "verifier_not_read": NO_DECISION,
    "record_not_retained": NO_DECISION,
}


def refusal_of(cause: Cause, ruling: Ruling | None) -> Refusal:
    """Returns the refusal for a cause, or that of verify's response."""
    return _OWN_REFUSALS.get(cause) or (ruling and ruling.refusal) or NO_AUTHORITY


def verification_record(
    cause: Cause,
    scope: str | None,
    operation: BoundOperation | None,
    asked_at: str,
    ruling: Ruling | None,
    refusal: Refusal | None,
) -> VerificationRecord:
    """Creates the record of a verification. Without `ruling`, verify was not called."""
    answer = frozen_copy({} if ruling is None else ruling.answer)
    status = None if ruling is None else ruling.status
    return VerificationRecord(
        cause, scope, operation, asked_at, status, cast(MappingProxyType[str, Any], answer), refusal
    )


def timestamp() -> str:
    """Returns the current time as the service writes times: in UTC, with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
