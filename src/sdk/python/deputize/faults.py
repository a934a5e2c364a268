"""Faults that the application's developer must know about."""

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from .enforcement import NO_DECISION, Ruling, error_code_of
from .operation import BoundOperation, differences_of
from .protocol.plain import is_object


@dataclass(frozen=True, slots=True)
class GuardFault:
    """For `on_fault`.

    `status` and `code` are those of the service's response.

    - `key_refused`: the service refused the API key
    - `verification_failed`: the service did not decide, for the reason `cause`
    - `proof_for_other_operation`: the proof was not made for the route's `operation`. `differs` names the
      members that differ, if the agent described its proof; `operation` alone means that the route has none.
      Callers can cause it, and an agent's description is not proven. `is_described`: whether the header
      `X-Service-Operation` arrived
    - `request_not_accepted`: the service did not accept the guard's request, for example its context, and did
      not decide. `message` is the service's. Callers can cause it where their input becomes context
    - `invocation_conflict`: one invocation id came with two different actions. Callers can cause it
    - `credits_exhausted`: the account of the API key has no credit for a decision
    - `body_not_read`: a request to a bound route had a body of another type than JSON and
      `application/octet-stream`. Callers can cause it
    - an outcome, a scope or the setting `verifier` was not accepted, the service did not return the
      verifier's identity, or a function of the settings failed

    `request` is the method and the path of the request, without its query.
    """

    kind: Literal[
        "outcome_not_reported",
        "scope_not_accepted",
        "key_refused",
        "verifier_not_accepted",
        "verification_failed",
        "proof_for_other_operation",
        "request_not_accepted",
        "invocation_conflict",
        "credits_exhausted",
        "body_not_read",
        "verifier_not_read",
        "record_not_retained",
        "principals_not_read",
    ]
    required_scope: str | None = None
    invocation_id: str | None = None
    outcome: str | None = None
    status: int | None = None
    error: Exception | None = None
    code: str | None = None
    cause: str | None = None
    operation: BoundOperation | None = None
    differs: tuple[str, ...] | None = None
    is_described: bool | None = None
    request: str | None = None
    message: str | None = None


_HINTS: Mapping[str, str] = {
    "key_refused": "the service refused the API key. Use a verify key of your platform's connection",
    "verifier_not_accepted": "the API key belongs to another verifier than the setting verifier",
    "verification_failed": "the service did not decide. Check base_url",
    "request_not_accepted": (
        "the service did not accept the guard's request. Check the route's scope and context"
    ),
    "invocation_conflict": "one invocation id came with two actions. Agents need a new id for each action",
    "credits_exhausted": "the account of the API key has no credit, so the service does not decide",
    "proof_for_other_operation": (
        "a request had a proof of another operation than its route's. Compare the agent's call with the route"
    ),
    "body_not_read": "a request had a body that is neither JSON nor application/octet-stream",
    "verifier_not_read": "the service did not return the verifier of the API key",
    "scope_not_accepted": "the service does not accept a required scope",
    "outcome_not_reported": "the service did not accept the outcome of an action",
    "record_not_retained": "the function retain failed",
    "principals_not_read": "the function principals failed",
}
_UNDESCRIBED = (
    "The request had no header X-Service-Operation, which names what differs. See whether a proxy removes it"
)
# Characters that a line of a log must not contain, because callers choose the path.
_UNSHOWN = re.compile(r"[^\x21-\x7e]")
_UNSHOWN_IN_TEXT = re.compile(r"[^\x20-\x7e]")
_MOST_SHOWN = 200
_LOG = logging.getLogger("deputize.guard")
KEY_REFUSED = (401, 403)


def shown_request(method: str, target: str | None) -> str:
    """Returns method and path for a log: without query, control characters and spaces, and shortened."""
    path = (target or "").split("?", 1)[0]
    return f"{method} {_UNSHOWN.sub('_', path[:_MOST_SHOWN])}"


def warn_once() -> Callable[[GuardFault], object]:
    """Returns a function that logs the first fault of each kind as a warning, without secrets.

    It also logs the first fault for each set of members that differ.
    """
    logged: set[tuple[str, tuple[str, ...] | None]] = set()

    def warn(fault: GuardFault) -> None:
        if (fault.kind, fault.differs) in logged:
            return
        logged.add((fault.kind, fault.differs))
        shown = {
            "request": fault.request,
            "status": fault.status,
            "code": fault.code,
            "cause": fault.cause,
            "required_scope": fault.required_scope,
            "differs": fault.differs and ",".join(fault.differs),
            "message": fault.message,
        }
        text = "".join(f", {name} {value}" for name, value in shown.items() if value is not None)
        hint = _HINTS[fault.kind]
        if fault.is_described is False and fault.differs is None:
            hint = f"{hint}. {_UNDESCRIBED}"
        _LOG.warning("deputize guard: %s%s: %s. Set on_fault to see each fault.", fault.kind, text, hint)

    return warn


def fault_of(
    ruling: Ruling,
    required_scope: str,
    operation: BoundOperation | None,
    described: str | None,
    request: str | None = None,
) -> GuardFault | None:
    """Returns the fault of the application, the agent or the service that verify's response shows, if any."""
    if ruling.finding == "bad_proof":
        if error_code_of(ruling.answer) == "invalid_request":
            return _request_fault_of(ruling, required_scope, request)
        fault = _binding_fault_of(ruling, required_scope, operation, described)
        return fault and replace(fault, is_described=described is not None, request=request)
    if ruling.finding == "invalid_scope":
        return GuardFault("scope_not_accepted", required_scope=required_scope)
    if ruling.finding == "invocation_conflict":
        return GuardFault("invocation_conflict", code=ruling.finding, request=request)
    if ruling.refusal is not NO_DECISION or ruling.finding == "indeterminate":
        return None
    status, code = ruling.status, error_code_of(ruling.answer)
    if status == 402:
        return GuardFault("credits_exhausted", status=status, code=code)
    if code == "verifier_mismatch" and status == 403:
        return GuardFault("verifier_not_accepted", status=status, code=code)
    if status in KEY_REFUSED:
        return GuardFault("key_refused", status=status, code=code)
    return GuardFault("verification_failed", status=status, code=code, cause=ruling.finding)


def _request_fault_of(ruling: Ruling, required_scope: str, request: str | None) -> GuardFault:
    error = ruling.answer.get("error")
    message = error.get("message") if is_object(error) else None
    return GuardFault(
        "request_not_accepted",
        required_scope=required_scope,
        status=ruling.status,
        code="invalid_request",
        message=_UNSHOWN_IN_TEXT.sub("_", message[:_MOST_SHOWN]) if isinstance(message, str) else None,
        request=request,
    )


def _binding_fault_of(
    ruling: Ruling, required_scope: str, operation: BoundOperation | None, described: str | None
) -> GuardFault | None:
    code = error_code_of(ruling.answer)
    differs = None if operation is None else differences_of(described, operation, required_scope)
    # A proof for another verifier has a challenge that this connection does not know.
    is_other = code == "invalid_challenge" and differs is not None
    if code != "session_context_mismatch" and not is_other:
        return None
    return GuardFault(
        "proof_for_other_operation",
        required_scope=required_scope,
        code=code,
        operation=operation,
        differs=("operation",) if operation is None else differs,
    )
