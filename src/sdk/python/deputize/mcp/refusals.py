"""Refusals as MCP clients read them. The sentences are the same as in TypeScript."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..agent.errors import REFUSALS
from ..authority import receipt_id_of
from ..payload import plain_copy
from ..record import VerificationRecord
from .wire import AUTHORITY

# The JSON-RPC error for a method without `isError` in its result.
CLOSED_METHOD = -32602, "This server permits no agent to call this method. Nothing was done."

_OWN: Mapping[str, str] = {
    "tool_without_rule": "This server permits no agent to call this tool. Nothing was done.",
    "argument_required": "The call lacks an argument on which the permission depends. Nothing was done.",
    "argument_invalid": ("An argument on which the permission depends has the wrong type. Nothing was done."),
    "call_unsupported": "The call has input that no proof can cover. Nothing was done.",
}
_DENIED = "The authority does not permit this action. Nothing was done."
_ASK = "Ask the person for whom you act."


@dataclass(frozen=True, slots=True)
class ToolRefusal:
    """A result with `isError: true`.

    The model reads `text`, so it is fixed: it has no argument, no description and no text of others. `meta`
    has the code, the required scope and the id of the receipt. If an approval could resolve a denial, it also
    has `evaluation_id` and `access_request` of verify.
    """

    text: str
    meta: dict[str, Any]


def own_refusal(code: str, required_scope: str | None = None) -> ToolRefusal:
    """Refuses a call for a reason of the guard itself, without asking the service."""
    return _refusal(_OWN[code], {"code": code, "required_scope": required_scope})


def guard_refusal(record: VerificationRecord) -> ToolRefusal:
    """Turns the guard's refusal into a result."""
    code = "denied" if record.refusal is None else record.refusal.code
    _, sentence = REFUSALS.get(code, (None, _DENIED))
    details = {
        "code": code,
        "required_scope": record.required_scope,
        "receipt_id": receipt_id_of(record.answer),
        "evaluation_id": record.answer.get("evaluation_id"),
        "access_request": plain_copy(record.answer.get("access_request")),
    }
    return _refusal(sentence, details)


def _refusal(sentence: str, details: Mapping[str, object]) -> ToolRefusal:
    given = {name: value for name, value in details.items() if value is not None}
    return ToolRefusal(f"{sentence} {_ASK}", {AUTHORITY: given})
