"""Proofs of actions that reach their application in another way than `Agent.fetch`."""

import re
from dataclasses import dataclass
from uuid import uuid4

from ..operation import Operation
from ..payload import ABSENT, frozen_copy, payload_digest
from ..protocol.canonical import canonical_bytes
from ..protocol.errors import ProtocolError
from ..question import demand_scope
from ..settings import demand
from .asking import Ask, check_options

_ID = re.compile(r"[\x21-\x7e]{1,256}")


@dataclass(frozen=True, slots=True)
class ActionProof:
    """A proof of one action, with the ids that the application's guard needs."""

    proof_ref: str
    agent_id: str
    invocation_id: str


@dataclass(frozen=True, slots=True)
class ReadAction:
    """An action. Later changes to the caller's objects do not affect it.

    `payload`: canonical JSON, or `None` for bytes and without a payload.
    """

    scope: str
    described: Operation
    digest: bytes
    payload: bytes | None
    ask: Ask | None


def read_action(
    scope: str,
    action: str,
    given: object,
    resource_id: str | None,
    requested_path: str | None,
    invocation_id: str | None,
    ask: Ask | None,
) -> ReadAction:
    """Reads an action. Raises TypeError if no guard could bind it."""
    demand_scope(scope, "scope")
    check_options(ask, None, invocation_id)
    chosen = str(uuid4()) if invocation_id is None else invocation_id
    demand(_ID.fullmatch(chosen) is not None, "invocation_id: must have 1 to 256 visible ASCII characters")
    try:
        payload = frozen_copy(given)
        digest = payload_digest(payload)
        is_data = payload is not ABSENT and not isinstance(payload, bytes)
        text = canonical_bytes(payload) if is_data else None
    except ProtocolError as error:
        raise TypeError("payload: has no canonical JSON") from error
    described = Operation(
        action=action, invocation_id=chosen, resource_id=resource_id, requested_path=requested_path
    )
    return ReadAction(scope, described, digest, text, ask)
