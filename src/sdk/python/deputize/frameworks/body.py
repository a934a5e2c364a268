"""Bodies of requests, for every framework."""

import json
from email.message import Message

from ..payload import ABSENT
from ..protocol.errors import ProtocolError
from ..protocol.strict_json import parse_body
from ..route import Body

TOO_LARGE = 413


def is_other_type(content_type: str | None) -> bool:
    """Returns whether a body has a type that frameworks do not parse as JSON. The guard does not read it."""
    if not content_type:
        return False
    message = Message()
    message["content-type"] = content_type
    subtype = message.get_content_subtype()
    is_json = subtype == "json" or subtype.endswith("+json")
    return not (message.get_content_maintype() == "application" and is_json)


def read_body(content_type: str | None, body: bytes) -> Body:
    """Parses a body strictly. Anything but JSON stays unread."""
    if body == b"":
        return Body(ABSENT, is_unread=False)
    if not content_type or is_other_type(content_type):
        return Body(ABSENT, is_unread=True)
    try:
        return Body(parse_body(body), is_unread=False)
    except ProtocolError:
        return Body(ABSENT, is_unread=True)


def too_large() -> bytes:
    """Returns the body of the response to a request whose body is too large."""
    error = {"code": "invalid_request", "message": "The body is too large", "status": TOO_LARGE}
    return json.dumps({"error": error}).encode()
