"""The guard in FastAPI, with a service that answers as each test says."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any

import httpx2
import pytest
from conftest import ALLOW, ASKABLE, Service, http
from fastapi import FastAPI, HTTPException, Request, Response
from pydantic import BaseModel

from deputize.frameworks.fastapi import GuardMiddleware
from deputize.guard import ABSENT, Authority, Guard, Operation

PROOF = {"x-service-proof": "AQ", "x-service-agent-id": "aa", "x-service-invocation-id": "inv-1"}
JSON = {"content-type": "application/json"}


class Order(BaseModel):
    amount: float


def application(guard: Guard, ran: list[Any]) -> FastAPI:
    app = FastAPI()

    @app.post("/orders")
    async def place(order: Order, who: Annotated[Authority, guard("data:write")]) -> object:
        ran.append((order.amount, who.payload["amount"]))
        if order.amount == 13:
            raise HTTPException(409)
        if order.amount == 14:
            raise RuntimeError
        return Response(status_code=201)

    def operation(request: Request) -> Operation:
        return Operation(action="refund", resource_id=request.path_params["order"])

    @app.post("/orders/{order}/refund")
    def refund(request: Request, who: Annotated[Authority, guard("data:write", operation=operation)]) -> None:
        ran.append(who.payload)

    return app


def post(app: FastAPI, path: str, body: str | bytes, headers: dict[str, str]) -> httpx2.Response:
    async def send() -> httpx2.Response:
        transport = httpx2.ASGITransport(app, raise_app_exceptions=False)
        async with httpx2.AsyncClient(transport=transport, base_url="http://orders.example") as client:
            return await client.post(path, content=body, headers=headers)

    return asyncio.run(send())


def test_runs_the_handler_only_after_allow(service: Service) -> None:
    ran: list[Any] = []
    app = application(service.guard(), ran)
    app.add_middleware(GuardMiddleware)
    assert post(app, "/orders", '{"amount":5.0}', {**JSON, **PROOF}).status_code == 201
    assert ran == [(5.0, 5.0)]
    refused = post(app, "/orders", '{"amount":5}', JSON)
    message = "No authority was demonstrated for this action"
    error = {"code": "no_authority_demonstrated", "message": message, "status": 403}
    assert (refused.status_code, refused.json()) == (403, {"error": error})
    assert refused.headers["cache-control"] == "no-store"
    marked = post(app, "/orders", '{"amount":5}', {**JSON, "x-service-invocation-id": "inv-1"})
    assert marked.json() == {"error": error, "invocation_id": "inv-1"}
    service.answer = lambda _: [http(200, ASKABLE)]
    refused = post(app, "/orders", '{"amount":5}', {**JSON, **PROOF})
    message = "The agent's authority does not permit this action"
    error = {"code": "not_delegated", "message": message, "status": 403}
    expected = {"error": error, "invocation_id": "inv-1", "evaluation_id": "id-1"}
    assert (refused.status_code, refused.json()) == (403, expected)
    service.answer = lambda _: [http(500, ALLOW)]
    assert post(app, "/orders", '{"amount":5}', {**JSON, **PROOF}).status_code == 503
    assert len(ran) == 1


def test_names_what_differs_to_the_developer_only(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    app = application(service.guard(), [])
    app.add_middleware(GuardMiddleware)
    code = "session_context_mismatch"
    service.answer = lambda _: [http(400, {"error": {"code": code, "message": "", "status": 400}})]
    described = {"x-service-operation": "action=9aee6b1b, resource_id=7902699b"}
    for headers in (described, described, {}):
        refused = post(app, "/orders/7/refund?token=1", "{}", {**JSON, **PROOF, **headers})
        assert (refused.status_code, "action" in refused.json()["error"]) == (403, False)
        assert list(refused.json()) == ["error", "invocation_id"]
    post(app, "/orders", '{"amount":5}', {**JSON, **PROOF})
    lines = [record.getMessage().split(":") for record in caplog.records if record.name == "deputize.guard"]
    start = " proof_for_other_operation, request POST {}, code session_context_mismatch, required_scope data"
    refund = start.format("/orders/7/refund")
    assert [line[1:3] for line in lines] == [
        [refund, "write, differs action"],
        [refund, "write"],
        [start.format("/orders"), "write, differs operation"],
    ]
    assert ["no header X-Service-Operation" in line[3] for line in lines] == [False, True, False]


def test_reads_no_body_without_a_proof_and_no_large_one(service: Service) -> None:
    ran: list[Any] = []
    app = application(service.guard(), ran)
    app.add_middleware(GuardMiddleware)
    parts: list[bytes] = []

    async def body() -> AsyncIterator[bytes]:
        for _ in range(40):
            parts.append(b" " * 100_000)
            yield parts[-1]

    async def send(headers: dict[str, str]) -> httpx2.Response:
        transport = httpx2.ASGITransport(app, raise_app_exceptions=False)
        async with httpx2.AsyncClient(transport=transport, base_url="http://orders.example") as client:
            return await client.post("/orders/7/refund", content=body(), headers={**JSON, **headers})

    assert (asyncio.run(send({})).status_code, parts) == (403, [])
    refused = asyncio.run(send(PROOF))
    assert (refused.status_code, refused.json()["error"]["code"]) == (413, "invalid_request")
    assert len(parts) == 11
    assert (ran, service.requests) == ([], [])


def test_needs_the_middleware(service: Service) -> None:
    ran: list[Any] = []
    app = application(service.guard(), ran)
    assert post(app, "/orders", '{"amount":5}', {**JSON, **PROOF}).status_code == 500
    assert (ran, service.requests) == ([], [])


def test_refuses_in_a_mounted_application(service: Service) -> None:
    ran: list[Any] = []
    outer, inner = FastAPI(), application(service.guard(), ran)
    for app in (outer, inner):
        app.add_middleware(GuardMiddleware)
    outer.mount("/shop", inner)
    refused = post(outer, "/shop/orders", '{"amount":5}', JSON)
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "no_authority_demonstrated")
    bound = {**JSON, **PROOF}
    assert post(outer, "/shop/orders", '{"amount":5}', bound).status_code == 201
    assert len(ran) == 1


def test_gives_a_challenge_only_to_a_caller_who_asks(service: Service) -> None:
    challenge = {"challenge": "AQ==", "expires_at": "2026-01-01T00:00:00Z"}
    service.answer = lambda _: [http(200, challenge)]
    app = application(service.guard(), [])
    app.add_middleware(GuardMiddleware)
    assert "challenge" not in post(app, "/orders", '{"amount":5}', JSON).json()
    assert service.requests == []
    asking = {**JSON, "x-service-challenge": "wanted"}
    assert post(app, "/orders", '{"amount":5}', asking).json()["challenge"] == challenge


def test_binds_a_proof_to_the_request_as_it_arrived(service: Service) -> None:
    ran: list[Any] = []
    guard = service.guard()
    app = application(guard, ran)
    app.add_middleware(GuardMiddleware)
    path = "/orders/a%20b/refund?fast=%31"
    assert post(app, path, '{"amount":1e2}', {**JSON, **PROOF}).status_code == 200
    [sent] = service.verified()
    assert (sent["operation"]["requested_path"], sent["operation"]["resource_id"]) == (path, "a b")
    assert post(app, path, "", PROOF).status_code == 200
    assert "payload_digest" not in service.verified()[1]["operation"]
    assert ran == [{"amount": 100.0}, ABSENT]
    for body, headers, status in (
        ('{"amount":1,"amount":2}', JSON, 400),
        ('{"amount":NaN}', JSON, 400),
        ('{"amount":9007199254740993}', JSON, 400),
        (b"\xef\xbb\xbf{}", JSON, 400),
        ('{"amount":1}', {}, 403),
        ('{"amount":1}', {"content-type": "text/plain"}, 403),
        ("a=1", {"content-type": "application/x-www-form-urlencoded"}, 403),
    ):
        refused = post(app, path, body, {**headers, **PROOF})
        code = "invalid_request" if status == 400 else "no_authority_demonstrated"
        assert (refused.status_code, refused.json()["error"]["code"]) == (status, code), body
    guard.flush()
    assert (len(ran), len(service.verified())) == (2, 2)
    assert post(app, path, b"\xff", {**PROOF, "content-type": "application/octet-stream"}).status_code == 200
    assert ran[2] == b"\xff"


def test_refuses_ambiguous_json_without_an_operation_too(service: Service) -> None:
    ran: list[Any] = []
    app = application(service.guard(), ran)
    app.add_middleware(GuardMiddleware)
    refused = post(app, "/orders", '{"amount":1,"amount":2}', {**JSON, **PROOF})
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_request")
    assert (ran, service.requests) == ([], [])


def test_refuses_an_encoded_dot_segment_and_a_header_with_two_values(service: Service) -> None:
    ran: list[Any] = []
    app = application(service.guard(), ran)
    app.add_middleware(GuardMiddleware)
    assert post(app, "/orders/%2e%2e%2fadmin/refund", "{}", {**JSON, **PROOF}).status_code in (403, 404)
    two = [*PROOF.items(), *JSON.items(), ("x-service-proof", "AR")]

    async def send() -> int:
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://a") as client:
            return (await client.post("/orders/7/refund", content="{}", headers=two)).status_code

    assert asyncio.run(send()) == 403
    assert (ran, service.requests) == ([], [])


def test_reports_the_status_of_each_response(service: Service) -> None:
    guard = service.guard()
    app = FastAPI()
    app.add_middleware(GuardMiddleware)

    @app.post("/{status}")
    def answer(status: int, who: Annotated[Authority, guard("data:write", operation=True)]) -> Response:
        if status == 0:
            raise LookupError
        if status == 422:
            raise HTTPException(status)
        return Response(status_code=status)

    for status, outcome, detail in (
        (204, "executed", "HTTP 204"),
        (409, "refused_by_receiver", "HTTP 409"),
        (422, "refused_by_receiver", "HTTP 422"),
        (503, "failed", "HTTP 503"),
        (0, "failed", "LookupError"),
    ):
        post(app, f"/{status}", "", PROOF)
        guard.flush()
        report = service.reported()[-1]
        assert (report["outcome"], report["detail"]) == (outcome, detail)
        assert service.verified()[-1]["operation"]["action"] == "POST"


def test_fails_always_in_a_mounted_application_without_the_middleware(service: Service) -> None:
    ran: list[Any] = []
    inner, outer = application(service.guard(), ran), FastAPI()
    outer.add_middleware(GuardMiddleware)
    outer.mount("/shop", inner)
    for headers in (PROOF, {}):
        assert post(outer, "/shop/orders", '{"amount":5}', {**JSON, **headers}).status_code == 500
    assert (ran, service.requests) == ([], [])
    inner.middleware_stack = None
    inner.add_middleware(GuardMiddleware)
    assert post(outer, "/shop/orders", '{"amount":5}', {**JSON, **PROOF}).status_code == 201
