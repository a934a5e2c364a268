"""Operations: the single actions for which proofs are made."""

from dataclasses import dataclass
from types import MappingProxyType

from .protocol.binding import request_hash


@dataclass(frozen=True, slots=True)
class Verifier:
    """The verifier of a proof: the connection's registered name, or its id if unnamed, and its account."""

    verifier_id: str
    workspace_id: str


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
