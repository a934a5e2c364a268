"""The parts of the guard that every WSGI application needs, such as one of Flask or Django."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ..authority import Authority, Refused
from ..protocol.errors import ProtocolError
from ..route import (
    Body,
    RequestView,
    Route,
    asks_for_challenge,
    call_of,
    proof_of,
    refusal_body,
    unproven_call,
)
from .body import INVALID, invalid

if TYPE_CHECKING:
    from ..guard import Guard

# The characters of a path that no client has to encode (RFC 3986, section 3.3).
_PLAIN = "/!$&'()*+,;=:@~"
NO_STORE = {"cache-control": "no-store"}


@dataclass(frozen=True, slots=True)
class Rejection:
    """The response to a refused request, in JSON."""

    status: int
    body: bytes


def authorize_request(
    guard: "Guard", route: Route, request: object, view: RequestView, read: Callable[[], Body]
) -> Authority | Rejection:
    """Returns the authority of a request, or the refusal to send. Reads no body without a proof."""
    proof = proof_of(route, request, view)
    try:
        body = read() if proof else None
    except ProtocolError:
        return Rejection(INVALID, invalid())
    call = call_of(route, request, view, proof, body) if proof and body else unproven_call(route, request)
    authorization = guard.authorize(call)
    if not isinstance(authorization, Refused):
        return authorization
    refusal = authorization.refusal
    challenge = guard.challenge(view.address) if asks_for_challenge(view, refusal) else None
    return Rejection(refusal.status, refusal_body(view, refusal, challenge))


def target_of(environ: Mapping[str, Any]) -> str:
    """Returns the path and query of a request.

    Many servers provide them unchanged. From others, an application gets only the decoded path. Then a
    request whose path has a needless encoding is refused if its proof is bound to the path.
    """
    for name in ("REQUEST_URI", "RAW_URI"):
        target = environ.get(name)
        if isinstance(target, str) and target.startswith("/"):
            return target
    decoded = f"{environ.get('SCRIPT_NAME', '')}{environ.get('PATH_INFO', '')}"
    path = quote(decoded.encode("latin-1"), safe=_PLAIN)
    query = environ.get("QUERY_STRING", "")
    return f"{path}?{query}" if query else path
