"""The parts of MCP messages that carry a proof. The names are the same as in TypeScript."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from ..payload import ABSENT
from ..protocol.plain import is_object
from ..settings import demand

# The name of the proof in `params._meta`, of a refusal in a result's `_meta`, and of the capability.
AUTHORITY = "io.deputize/authority"

# Methods that read no content and do nothing. They need no proof.
OPEN_METHODS = (
    *("initialize", "ping", "server/discover", "logging/setLevel"),
    *("tools/list", "prompts/list", "resources/list", "resources/templates/list"),
)

# A name without `/`, so that no two servers can have the same action `<server>/<tool>`.
_SERVER_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,63}", re.ASCII)


def actions_of(server: str) -> Callable[[str], str]:
    """Returns the action of a tool. Raises TypeError for a server's name that could hide a tool's name."""
    is_name = isinstance(server, str) and _SERVER_NAME.fullmatch(server) is not None  # pyright: ignore[reportUnnecessaryIsInstance]
    demand(is_name, "server: must have 1 to 64 letters, digits, _, . or -, and no /")
    return lambda tool: f"{server}/{tool}"


def input_of(given: object, input_responses: object) -> dict[str, object]:
    """Returns all input of a call, to which its proof is bound.

    Absent arguments are an empty object. `input_responses` may be `ABSENT`.
    """
    payload: dict[str, object] = {"arguments": {} if given is None else given}
    if input_responses is not ABSENT:
        payload["inputResponses"] = input_responses
    return payload


def without_authority(meta: object) -> dict[str, Any] | None:
    """Returns `_meta` without the entry of `AUTHORITY`, which belongs to one call only."""
    if not is_object(meta):
        return None
    return {name: value for name, value in meta.items() if name != AUTHORITY}


def authority_in(meta: object) -> Mapping[str, Any]:
    """Returns the entry of `AUTHORITY` in `_meta`, or an empty mapping."""
    entry = meta.get(AUTHORITY) if is_object(meta) else None
    return entry if is_object(entry) else {}


def name_in(meta: object) -> str | None:
    """Returns the id that the caller gave to its call.

    An entry with any other member comes from another call, and counts as none.
    """
    entry = authority_in(meta)
    named = entry.get("invocation_id")
    return named if isinstance(named, str) and len(entry) == 1 else None
