"""Calls of verify."""

import json
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace

from .operation import BoundOperation, Operation, Verifier, bind_operation
from .payload import ABSENT, frozen_copy, payload_digest
from .principals import Principals
from .proof import Proof, ProofSource, read_proof
from .protocol.resource_path import hides_dot_segment
from .protocol.scopes import CUSTOM_FORM, is_requirable_scope
from .record import Cause
from .settings import demand

Facts = Mapping[str, str | int | float]


@dataclass(frozen=True, slots=True)
class AuthorizeCall:
    """The action to authorize.

    - `required_scope`: the scope that the action requires. Without a scope, the action is refused
    - `proof`: the proof from the request. Without a proof, the action is refused
    - `payload`: the input of the action, plain data or bytes. An operation's proof must be bound to it
    - `operation`: if set, requires a proof that was made for this one action
    - `context`: facts about the request, such as `amount`, `currency` or `path`, with the names that verify
      expects. With an operation, leave out `resource_id` and `path`: they are the operation's
    - `unread_body`: whether the request's body is not in `payload`. A proof cannot be bound to such a body
    - `described`: the header `X-Service-Operation` of the request, in which the agent describes its proof.
      The guard uses it only to name what differs, for `on_fault`
    - `request`: method and path of the request, without its query. The guard uses it only for `on_fault`
    - `principals`: root ids of the principals who may act with this request, such as the one who is logged
      in. They apply in addition to those of the guard. May be a function that the guard calls after `allow`
    """

    required_scope: str | None
    proof: ProofSource | None
    payload: object = ABSENT
    operation: Operation | None = None
    context: Facts | None = None
    unread_body: bool = False
    described: str | None = None
    principals: Principals | Callable[[], Principals | Awaitable[Principals]] | None = None
    request: str | None = None


@dataclass(frozen=True, slots=True)
class ReadCall:
    """A call that the guard has read. Later changes to the caller's objects have no effect on it.

    To hash the operation, the guard needs the name of its verifier.
    """

    required_scope: str
    proof: Proof
    payload: object
    context: Facts
    operation: Operation | None
    digest: bytes


@dataclass(frozen=True, slots=True)
class Question:
    """A call of verify, ready to send."""

    required_scope: str
    operation: BoundOperation | None
    payload: object
    body: bytes


def read_call(call: AuthorizeCall) -> ReadCall | Cause:
    """Returns the cause if the guard can refuse the request without calling verify.

    Raises TypeError if the application passed invalid arguments.
    """
    scope = call.required_scope
    if not scope:
        return "no_scope"
    demand_scope(scope)
    if call.proof is None or call.proof == "":
        return "no_proof"
    proof = read_proof(call.proof)
    if proof is None:
        return "malformed_proof"
    context = _facts_of(call)
    fault = _fault_of(context)
    if fault is not None:
        return fault
    try:
        payload = frozen_copy(call.payload)
        if call.operation is None:
            return ReadCall(scope, proof, payload, context, None, b"")
        if call.unread_body:
            return "unbindable_payload"
        agent_id = call.operation.agent_id if call.operation.agent_id is not None else proof.agent_id
        if not agent_id or not call.operation.invocation_id:
            return "incomplete_operation"
        operation = replace(call.operation, agent_id=agent_id)
        return ReadCall(scope, proof, payload, context, operation, payload_digest(payload))
    except ValueError:
        return "unbindable_payload"


def question_of(read: ReadCall, verifier: Verifier | None) -> Question | Cause:
    """Returns the call of verify, or the cause if the operation has no hash."""
    others: dict[str, object] = {"required_scope": read.required_scope}
    try:
        operation = None
        if read.operation is not None and verifier is not None:
            operation = bind_operation(
                read.operation,
                agent_id=read.operation.agent_id or "",
                required_scope=read.required_scope,
                verifier=verifier,
                payload_digest=read.digest,
            )
            others["operation"] = dict(operation)
        if read.context:
            others["context"] = dict(read.context)
        rest = json.dumps(others, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        body = f'{{"{read.proof.member}":{read.proof.json},{rest[1:]}'.encode()
    except ValueError:
        # Also text and numbers of the context that JSON cannot represent.
        return "unbindable_payload"
    return Question(read.required_scope, operation, read.payload, body)


def demand_scope(scope: object, name: str = "required_scope") -> None:
    """Raises TypeError for a scope that no certificate can grant, which is a mistake of the application.

    `name`: the setting that has the scope.
    """
    demand(
        isinstance(scope, str) and is_requirable_scope(scope),
        f"{name}: must be one scope of the vocabulary, or {CUSTOM_FORM} of two to four parts; no wildcard",
    )


def _facts_of(call: AuthorizeCall) -> Facts:
    """Returns the facts of a call. With an operation, takes its resource and path, without the path's query.

    Raises TypeError if the context names others, because they would belong to another action.
    """
    facts = dict(call.context or {})
    if call.operation is None:
        return facts
    path = (call.operation.requested_path or "").split("?", 1)[0]
    for name, value in (("resource_id", call.operation.resource_id or ""), ("path", path)):
        demand(
            facts.get(name, value) == value, f"context: leave out {name}, because the operation determines it"
        )
        if value:
            facts[name] = value
    return facts


def _fault_of(facts: Facts) -> Cause | None:
    amount = facts.get("amount", 0)
    is_number = isinstance(amount, int | float) and not isinstance(amount, bool) and 0 <= amount < math.inf
    if not is_number:
        return "invalid_amount"
    return "hidden_dot_segment" if hides_dot_segment(str(facts.get("path", ""))) else None
