"""The authority for an allowed action."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeVar

from .enforcement import Refusal
from .operation import BoundOperation
from .protocol.plain import is_mapping, is_sequence
from .record import VerificationRecord

# How an allowed action ended. The guard sends it to `POST …/invocations/{id}/outcome`.
Outcome = Literal["executed", "failed", "refused_by_receiver", "not_attempted"]

T = TypeVar("T")


class Report(Protocol):
    """Reports the outcome in the background. Only the first call counts.

    If the proof was not bound to an operation, does nothing.
    """

    def __call__(self, outcome: Outcome, detail: str | None = None) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """The authority for an allowed action, which the protected code receives.

    `payload`: a read-only copy of the authorized payload, to which an operation's proof is bound. Act on this
    copy. Call `report` before the action ends to report another outcome.
    """

    required_scope: str
    agent_id: str | None
    human_id: str | None
    cert_id: str | None
    granted_scope: tuple[str, ...]
    receipt_id: str | None
    receipt_hash: str | None
    operation: BoundOperation | None
    payload: Any
    record: VerificationRecord
    report: Report


@dataclass(frozen=True, slots=True)
class Refused:
    """The refusal to send to the caller."""

    refusal: Refusal
    record: VerificationRecord


@dataclass(frozen=True, slots=True)
class Executed(Generic[T]):
    """The value of an action that ran, and its authority."""

    value: T
    authority: Authority


def grant_authority(
    record: VerificationRecord, required_scope: str, payload: object, report: Report
) -> Authority:
    """Creates the authority for an allowed action."""
    answer = record.answer
    scopes = answer.get("granted_scope")
    granted = scopes if is_sequence(scopes) else ()
    return Authority(
        required_scope=required_scope,
        agent_id=_text(answer.get("agent_id")),
        human_id=_text(answer.get("human_id")),
        cert_id=_text(answer.get("cert_id")),
        granted_scope=tuple(each for each in granted if isinstance(each, str)),
        receipt_id=receipt_id_of(answer),
        receipt_hash=_text(answer.get("receipt_hash")),
        operation=record.operation,
        payload=payload,
        record=record,
        report=report,
    )


def receipt_id_of(answer: Mapping[str, Any]) -> str | None:
    """Returns the receipt's id from a response of verify, if the response contains a receipt."""
    receipt = answer.get("receipt")
    return _text(receipt.get("receipt_id")) if is_mapping(receipt) else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
