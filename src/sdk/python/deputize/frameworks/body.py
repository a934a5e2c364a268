"""Bodies of requests, for every framework."""

import json
import re

from ..payload import ABSENT
from ..protocol.strict_json import parse_body
from ..route import Body

INVALID, TOO_LARGE = 400, 413
_JSON_TYPE = re.compile(r"application/([\w.-]+\+)?json[ \t]*(;|\Z)", re.ASCII | re.IGNORECASE)
_BYTES_TYPE = re.compile(r"application/octet-stream[ \t]*(;|\Z)", re.ASCII | re.IGNORECASE)


def is_other_type(content_type: str | None) -> bool:
    """Returns whether a body is neither JSON nor bytes. The guard does not read it."""
    if not content_type:
        return False
    return not (_JSON_TYPE.match(content_type) or _BYTES_TYPE.match(content_type))


def read_body(content_type: str | None, body: bytes) -> Body:
    """Reads a body by its type: JSON strictly, and `application/octet-stream` as bytes.

    Any other body stays unread, so no proof can be bound to it. Raises `ProtocolError` if a body of JSON is
    not strictly one document. The guard in JavaScript has the same rules.
    """
    if body == b"":
        return Body(ABSENT, is_unread=False)
    if not content_type or is_other_type(content_type):
        return Body(ABSENT, is_unread=True)
    is_json = _JSON_TYPE.match(content_type) is not None
    return Body(parse_body(body) if is_json else body, is_unread=False)


def invalid() -> bytes:
    """Returns the body of the response to a request whose body is not strictly one JSON document."""
    return _error(INVALID, "The body is not strictly one JSON document")


def too_large() -> bytes:
    """Returns the body of the response to a request whose body is too large."""
    return _error(TOO_LARGE, "The body is too large")


def _error(status: int, message: str) -> bytes:
    return json.dumps({"error": {"code": "invalid_request", "message": message, "status": status}}).encode()
