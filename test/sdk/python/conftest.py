"""A service of raw sockets, which answers as each test says."""

import json
import socketserver
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from deputize.guard import Guard, GuardSettings, Verifier

RECEIPT_ID = "01a1fd7f-0000-7000-8000-000000000001"
ALLOW: dict[str, Any] = {
    "decision": "allow",
    "agent_id": "aa",
    "human_id": "0123456789abcdef0123456789abcdef",
    "granted_scope": ["payments:send"],
    "receipt": {"receipt_id": RECEIPT_ID},
}

DENIED: dict[str, Any] = {"decision": "deny", "decision_reason": "not_delegated"}
# A denial that an approval could resolve.
ASKABLE: dict[str, Any] = {**DENIED, "evaluation_id": "id-1", "access_request": {"endpoint": "https://a"}}


@dataclass
class Request:
    target: str
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


def http(status: int, body: object, headers: str = "") -> bytes:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return f"HTTP/1.1 {status} S\r\n{headers}content-length: {len(text)}\r\n\r\n".encode() + text


@dataclass
class Service:
    """`answer` returns the bytes to write for a request, in parts. Then the connection stays open."""

    url: str = ""
    requests: list[Request] = field(default_factory=list[Request])
    answer: Callable[[Request], Iterator[bytes] | list[bytes]] = lambda _: [http(200, ALLOW)]

    def verified(self) -> list[Any]:
        return [request.json() for request in self.requests if request.target.endswith("/verify")]

    def reported(self) -> list[Any]:
        return [request.json() for request in self.requests if request.target.endswith("/outcome")]

    def guard(self, **settings: Any) -> Guard:
        verifier = Verifier("connection-1", "account-1")
        return Guard(self.url, "dpz_key", GuardSettings(**{"verifier": verifier, **settings}))


@pytest.fixture
def service() -> Iterator[Service]:
    found = Service()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while first := self.rfile.readline():
                headers: dict[str, str] = {}
                while (line := self.rfile.readline().decode().rstrip("\r\n")) != "":
                    name, value = line.split(": ", 1)
                    headers[name.lower()] = value
                body = self.rfile.read(int(headers.get("content-length", "0")))
                request = Request(first.decode().split(" ")[1], headers, body)
                found.requests.append(request)
                try:
                    for part in found.answer(request):
                        self.wfile.write(part)
                except OSError:
                    return

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        block_on_close = False

    with Server(("127.0.0.1", 0), Handler) as server:
        found.url = f"http://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield found
        server.shutdown()
