"""Operations: the single actions for which proofs are made."""

import re
from dataclasses import dataclass
from hashlib import sha256
from types import MappingProxyType
from typing import TypeGuard

from .protocol.binding import request_hash


@dataclass(frozen=True, slots=True)
class Verifier:
    """The verifier of a proof: the connection's registered name, or its id if unnamed, and its account."""

    verifier_id: str
    workspace_id: str


def is_verifier(given: object) -> TypeGuard[Verifier]:
    """Returns whether a value is a verifier whose members are texts that are not empty."""
    return isinstance(given, Verifier) and all(map(is_name, (given.verifier_id, given.workspace_id)))


def is_name(given: object) -> bool:
    """Returns whether a value is text that is not empty."""
    return isinstance(given, str) and given != ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """The single action for which a proof was made, as the application describes it.

    `action`: its name, exactly as the agent bound it. `invocation_id`: the id that the agent gave to this one
    action. The service makes only one decision for each id. `agent_id` defaults to the agent of the bundle.
    With a route, omitted members are read from the request.
    """

    action: str
    invocation_id: str | None = None
    agent_id: str | None = None
    resource_id: str | None = None
    requested_path: str | None = None
    session_id: str | None = None
    action_profile: str | None = None


# An operation in the form that verify expects. Hashes have the form `sha256:<hex>`.
BoundOperation = MappingProxyType[str, str]


def bind_operation(
    operation: Operation, *, agent_id: str, required_scope: str, verifier: Verifier, payload_digest: bytes
) -> BoundOperation:
    """Returns the operation to which the agent must have bound its proof, with the hashes of wire format §4.

    Raises `ProtocolError` `invalid_utf8` for text with a lone surrogate.
    """
    resource_id, requested_path = operation.resource_id or "", operation.requested_path or ""
    digest = request_hash(required_scope, operation.action, resource_id, requested_path, payload_digest)
    bound = {
        "verifier_id": verifier.verifier_id,
        "workspace_id": verifier.workspace_id,
        "agent_id": agent_id,
        "action": operation.action,
        "resource_id": resource_id,
        "requested_path": requested_path,
        "session_id": operation.session_id or "",
        "invocation_id": operation.invocation_id or "",
        "request_hash": f"sha256:{digest.hex()}",
    }
    if payload_digest:
        bound["payload_digest"] = f"sha256:{payload_digest.hex()}"
    if operation.action_profile is not None:
        bound["action_profile"] = operation.action_profile
    return MappingProxyType(bound)


# The members of an operation that a proof covers, and the scope.
_BOUND_MEMBERS = (
    *("required_scope", "action", "resource_id", "requested_path", "payload_digest"),
    *("verifier_id", "workspace_id", "agent_id", "session_id", "invocation_id"),
)
_DESCRIBED = re.compile("([a-z_]{1,32})=([0-9a-f]{8})", re.ASCII)
_MOST_DESCRIBED = 32


def describe_operation(operation: BoundOperation, required_scope: str) -> str:
    """Returns what an agent tells an application about its proof, in the header `X-Service-Operation`.

    It has the name of each member, and the first 8 hex digits of its value's SHA-256, such as
    `action=9aee6b1b`. With it, the guard can name the members that differ. It proves nothing.
    """
    digests = _digests_of(operation, required_scope)
    return ", ".join(f"{name}={digest}" for name, digest in digests.items())


def differences_of(
    described: str | None, operation: BoundOperation, required_scope: str
) -> tuple[str, ...] | None:
    """Returns the members whose values differ from an agent's description.

    `None` if there is no valid description, or if no described member differs.
    """
    if described is None:
        return None
    members = [_DESCRIBED.fullmatch(each) for each in re.split(", ?", described)[:_MOST_DESCRIBED]]
    given: dict[str, str] = {}
    for member in members:
        if member is None:
            return None
        given[member[1]] = member[2]
    own = _digests_of(operation, required_scope)
    return tuple(name for name, digest in own.items() if given.get(name, digest) != digest) or None


def _digests_of(operation: BoundOperation, required_scope: str) -> dict[str, str]:
    values = {**operation, "required_scope": required_scope}
    return {name: sha256(values.get(name, "").encode()).hexdigest()[:8] for name in _BOUND_MEMBERS}
