"""Requests to applications, and their operations."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import uuid4

import httpx2

from ..operation import Operation
from ..payload import ABSENT, frozen_copy, payload_digest
from ..protocol.canonical import canonical_bytes
from ..protocol.errors import ProtocolError
from ..protocol.resource_path import hides_dot_segment
from ..question import demand_scope
from ..settings import demand
from .verifiers import path_of, read_url

_ID = re.compile(r"[\x21-\x7e]{1,256}")
_TOKEN = re.compile(r"[\w!#$%&'*+.^`|~-]+", re.ASCII)
_FIELD_NAME = re.compile(_TOKEN.pattern.encode())
_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_REFUSED_METHODS = ("CONNECT", "TRACE", "TRACK")
# The HTTP client sets them. A `Host` of the caller would lead the proof to another application.
_REFUSED_HEADERS = (
    *("host", "content-length", "transfer-encoding", "connection"),
    *("keep-alive", "upgrade", "expect"),
)


@dataclass(frozen=True, slots=True)
class Request:
    """A request, ready to send. Later changes to the caller's objects do not affect it.

    `payload`: the body as canonical JSON, or `None` without a body and for bytes.
    """

    url: httpx2.URL
    method: str
    headers: httpx2.Headers
    body: bytes
    digest: bytes
    payload: bytes | None


def read_request(
    address: str, scope: str, method: str | None, body: object, headers: Mapping[str, str] | None
) -> Request:
    """Reads a request. Raises TypeError if no guard could bind it, or if the client could not send it."""
    demand_scope(scope, "scope")
    url = read_url(address)
    demand(not hides_dot_segment(path_of(url)), "url: must not hide a . or .. segment")
    demand(
        not isinstance(body, str), "body: must be plain data or bytes. Pass the object itself, not its JSON"
    )
    try:
        payload = frozen_copy(body)
        digest = payload_digest(payload)
        has_body = payload is not ABSENT
        content = payload if isinstance(payload, bytes) else canonical_bytes(payload) if has_body else b""
    except ProtocolError as error:
        raise TypeError("body: has no canonical JSON") from error
    sent = httpx2.Headers(headers or {})
    for raw_name, value in sent.raw:
        is_field = _FIELD_NAME.fullmatch(raw_name) is not None and _CONTROL.search(value) is None
        demand(is_field, "headers: a name or a value has characters that HTTP does not allow")
    for name in _REFUSED_HEADERS:
        demand(name not in sent, f"headers: leave out {name}, because the HTTP client sets it")
    chosen = (method or ("POST" if has_body else "GET")).upper()
    is_method = _TOKEN.fullmatch(chosen) is not None and chosen not in _REFUSED_METHODS
    demand(is_method, "method: must be one that an application can receive")
    sent.setdefault("accept", "*/*")
    sent["accept-encoding"] = "identity"
    if has_body and "content-type" not in sent:
        sent["content-type"] = (
            "application/octet-stream" if isinstance(payload, bytes) else "application/json"
        )
    is_data = has_body and not isinstance(payload, bytes)
    return Request(url, chosen, sent, content, digest, content if is_data else None)


def described_operation(
    request: Request,
    action: str | None,
    resource_id: str | None,
    session_id: str | None,
    invocation_id: str | None,
) -> Operation:
    """Returns the operation of a request. Raises TypeError for an id that no header can carry."""
    for name, value in (("invocation_id", invocation_id), ("session_id", session_id)):
        is_id = value is None or _ID.fullmatch(value) is not None
        demand(is_id, f"{name}: must have 1 to 256 visible ASCII characters")
    return Operation(
        action=request.method if action is None else action,
        invocation_id=str(uuid4()) if invocation_id is None else invocation_id,
        resource_id=resource_id,
        requested_path=request.url.raw_path.decode("ascii"),
        session_id=session_id,
    )
