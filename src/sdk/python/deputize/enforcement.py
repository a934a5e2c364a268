"""The enforcement table (specification §4)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from .protocol.errors import ProtocolError
from .protocol.plain import is_object
from .protocol.strict_json import parse_json
from .service.exchange import MAX_ANSWER_BYTES, Exchange, Unanswered

# The result of a call to verify, one value for each row of the table. `invalid_scope` is a fault of the
# application: the service did not accept the required scope. `invocation_conflict` is a fault of the caller:
# it used one invocation id for two actions.
Finding = Literal[
    "allow",
    "deny",
    "indeterminate",
    "unknown_decision",
    "unparseable",
    "bad_proof",
    "invalid_scope",
    "invocation_conflict",
    "unexpected_status",
    "timeout",
    "network",
    "answer_too_large",
]


@dataclass(frozen=True, slots=True)
class Refusal:
    """The application's refusal: an HTTP status, a stable code, and a message that reveals no details.

    `evaluation_id`: with it, the agent can ask a person, if an approval could resolve the denial.
    """

    status: Literal[403, 503]
    code: str
    message: str
    evaluation_id: str | None = None


@dataclass(frozen=True, slots=True)
class Ruling:
    """The action that the table requires. The application executes only without a `refusal`.

    `status`: HTTP status of verify's response, or `None` if no complete response arrived. `answer`: fields of
    the response, empty if it is not a JSON object.
    """

    finding: Finding
    status: int | None
    answer: Mapping[str, Any]
    refusal: Refusal | None


_MAX_DEPTH = 32
_MAX_REASON = 256
_CODE = re.compile(r"\w{1,64}", re.ASCII)
_EVALUATION_ID = re.compile(r"[\w-]{1,256}", re.ASCII)
_NOTHING: Mapping[str, Any] = MappingProxyType({})

NO_AUTHORITY = Refusal(403, "no_authority_demonstrated", "No authority was demonstrated for this action")
NO_DECISION = Refusal(503, "verification_unavailable", "Authority could not be verified; nothing was done")
# A repetition cannot change it: the invocation id belongs to another action.
_CONFLICT = Refusal(
    503, "invocation_conflict", "The invocation id was used for another action; nothing was done"
)


def rule(exchange: Exchange) -> Ruling:
    """Applies the table to verify's response. Permits execution only for status 200 and `allow`."""
    if isinstance(exchange, Unanswered):
        return Ruling(exchange.fault, None, _NOTHING, NO_DECISION)
    answer = _read_object(exchange.body)
    if exchange.status == 200:
        return _decided(answer)
    fields = _NOTHING if answer is None else answer
    if exchange.status == 409 and error_code_of(fields) == "invocation_conflict":
        return Ruling("invocation_conflict", 409, fields, _CONFLICT)
    if exchange.status != 400:
        return Ruling("unexpected_status", exchange.status, fields, NO_DECISION)
    if error_code_of(fields) == "invalid_scope":
        return Ruling("invalid_scope", 400, fields, NO_DECISION)
    return Ruling("bad_proof", 400, fields, NO_AUTHORITY)


def error_code_of(answer: Mapping[str, Any]) -> str | None:
    """Returns the code of the service's error, if the answer contains one."""
    error = answer.get("error")
    code = error.get("code") if is_object(error) else None
    return code if isinstance(code, str) and _CODE.fullmatch(code) else None


def _decided(answer: Mapping[str, Any] | None) -> Ruling:
    if answer is None:
        return Ruling("unparseable", 200, _NOTHING, NO_DECISION)
    match answer.get("decision"):
        case "allow":
            return Ruling("allow", 200, answer, None)
        case "deny":
            return Ruling("deny", 200, answer, _denial(answer))
        case "indeterminate":
            return Ruling("indeterminate", 200, answer, NO_DECISION)
        case _:
            return Ruling("unknown_decision", 200, answer, NO_DECISION)


def _denial(answer: Mapping[str, Any]) -> Refusal:
    reason, given = answer.get("decision_reason"), answer.get("evaluation_id")
    code = reason[:_MAX_REASON] if isinstance(reason, str) and reason else "denied"
    is_id = isinstance(given, str) and _EVALUATION_ID.fullmatch(given) is not None
    evaluation_id = given if is_id and isinstance(answer.get("access_request"), dict) else None
    return Refusal(403, code, "The agent's authority does not permit this action", evaluation_id)


def _read_object(body: bytes) -> dict[str, Any] | None:
    """Parses a JSON object strictly. Returns `None` for any other body, and if a key occurs twice."""
    try:
        value = parse_json(body, max_bytes=MAX_ANSWER_BYTES, max_depth=_MAX_DEPTH)
    except ProtocolError:
        return None
    return value if is_object(value) else None
