"""The scopes that an application may require (wire format §6)."""

import re

_GROUPS = {
    "meeting": "attend speak video chat share_screen record",
    "comms:message": "read send delete",
    "comms:email": "read send delete",
    "comms:calendar": "read write",
    "files": "read write",
    "identity": "prove delegate",
    "presence": "represent",
    "transact": "purchase sell",
    "payments": "send receive authorize",
    "contract": "read sign",
    "data": "read write delete export share",
    "execute": "tool code",
    "generate": "content deepfake",
    "physical": "enter exit actuate manipulate",
    "robot": "operate move interact",
    "drone": "fly deliver capture",
    "vehicle": "operate transport charge",
    "infrastructure": "monitor control access",
    "actuate": "valve motor switch",
}
_CANONICAL = frozenset(
    f"{group}:{action}" for group, actions in _GROUPS.items() for action in actions.split()
)
_CUSTOM = re.compile(r"custom(?::[A-Za-z0-9][A-Za-z0-9._-]*){2,4}", re.ASCII)
_MAX_LENGTH = 256

CUSTOM_FORM = "custom:<area>:<action>"


def is_requirable_scope(scope: str) -> bool:
    """Returns whether `scope` is canonical, or a custom scope of two to four parts. Wildcards are neither."""
    is_custom = _CUSTOM.fullmatch(scope) is not None and len(scope) <= _MAX_LENGTH
    return scope in _CANONICAL or is_custom
