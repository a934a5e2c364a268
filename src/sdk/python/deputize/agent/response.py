"""Responses of applications, and the refusals of their guards."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..protocol.plain import is_object
from .errors import AgentError, refusal_error

_MOST_OF_REFUSAL = 65_536


@dataclass(frozen=True, slots=True)
class Response:
    """An application's response, which may be an error of the application."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    def json(self) -> Any:
        return json.loads(self.content)


def refusal_of(response: Response, invocation_id: str) -> AgentError | None:
    """Returns the error of a guard's refusal, or `None` for any other response.

    Reads only the code and the id of a denial, and only a code that guards send with this status. It must
    name this invocation, because an application can relay the refusal of another call after it has acted. A
    challenge or an operation in the body has no effect.
    """
    is_json = response.headers.get("content-type", "").startswith("application/json")
    if response.status not in (403, 503) or not is_json or len(response.content) > _MOST_OF_REFUSAL:
        return None
    try:
        body = response.json()
    except (ValueError, RecursionError):
        return None
    if not is_object(body) or body.get("invocation_id") != invocation_id:
        return None
    error = body.get("error")
    if not is_object(error):
        return None
    code = error.get("code")
    expected = 503 if code in ("verification_unavailable", "invocation_conflict") else 403
    if error.get("status") != expected or response.status != expected:
        return None
    return refusal_error(code, invocation_id, body.get("evaluation_id"))
