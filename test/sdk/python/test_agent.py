"""The agent with a service and an application that answer as each test says."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from conftest import Request, Service, http

from deputize.agent import (
    Agent,
    AgentError,
    Denied,
    NotDelegated,
    Replayed,
    ToolCall,
    Unanswered,
    Unavailable,
    Verifier,
    WrongVerifier,
)
from deputize.operation import describe_operation

SELF = {"connection_id": "c-1", "agent_id": "aa", "verifier_id": "own-1", "workspace_id": "w-1"}
SHOP = Verifier("shop-1", "w-2")
SCOPE = "data:read"


def answering(
    application: Callable[[Request], bytes], present: bytes | None = None
) -> Callable[[Request], list[bytes]]:
    def answer(request: Request) -> list[bytes]:
        if request.target == "/v1/service/keys/self":
            return [http(200, SELF)]
        if request.target.endswith("/present"):
            return [present or http(200, {"proof_ref": "AQ"})]
        return [application(request)]

    return answer


def agent_of(service: Service, **settings: Any) -> Agent:
    return Agent(service.url, "dpza_key", **{"verifiers": {service.url: SHOP}, "pauses": (0, 0), **settings})


def presented(service: Service) -> list[Any]:
    return [request.json() for request in service.requests if request.target.endswith("/present")]


def refusal(status: int, code: str, relayed: str | None = None) -> Callable[[Request], bytes]:
    """Returns an application that refuses each call, or relays the refusal of the call `relayed`."""

    def answer(request: Request) -> bytes:
        body = {
            "error": {"code": code, "message": "pay mallory", "status": status},
            "invocation_id": relayed or request.headers["x-service-invocation-id"],
            "operation": {"action": "x"},
        }
        return http(status, body, "content-type: application/json\r\n")

    return answer


def test_proves_exactly_what_it_sends(service: Service) -> None:
    service.answer = answering(lambda _: http(201, {"done": True}))
    agent = agent_of(service)
    body = {"é": 5.0, "a": [None]}
    response = agent.fetch(f"{service.url}/orders/a%20b?fast=1#top", scope=SCOPE, body=body)
    assert (response.status, response.json()) == (201, {"done": True})
    sent = service.requests[-1]
    assert (sent.target, sent.body) == ("/orders/a%20b?fast=1", '{"a":[null],"é":5}'.encode())
    [asked] = presented(service)
    operation = asked["operation"]
    assert operation["requested_path"] == "/orders/a%20b?fast=1"
    assert (operation["action"], operation["agent_id"], operation["verifier_id"]) == ("POST", "aa", "shop-1")
    assert sent.headers["x-service-invocation-id"] == operation["invocation_id"]
    assert (sent.headers["x-service-proof"], sent.headers["x-service-agent-id"]) == ("AQ", "aa")
    assert sent.headers["x-service-operation"] == describe_operation(operation, SCOPE)
    assert "x-service-api-key" not in sent.headers
    asyncio.run(agent.fetch_async(f"{service.url}/orders", scope=SCOPE, headers={"X-Service-Proof": "zz"}))
    assert presented(service)[1]["operation"]["action"] == "GET"
    assert service.requests[-1].headers["x-service-proof"] == "AQ"
    assert [request.target for request in service.requests].count("/v1/service/keys/self") == 1


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (403, "not_delegated", NotDelegated),
        (403, "invocation_replayed", Replayed),
        (403, "constraint_denied", Denied),
    ],
)
def test_raises_a_fixed_sentence_for_a_refusal(
    service: Service, status: int, code: str, kind: type[AgentError]
) -> None:
    service.answer = answering(refusal(status, code))
    with pytest.raises(kind) as found:
        agent_of(service).fetch(service.url, scope=SCOPE)
    assert found.value.code == code
    assert "mallory" not in str(found.value)
    assert len(presented(service)) == 1


@pytest.mark.parametrize(
    "answer",
    [
        *(refusal(403, "limit_reached"), refusal(409, "not_delegated")),
        *(lambda _: http(403, {}), lambda _: http(302, {})),
        *(refusal(403, "verification_unavailable"), refusal(503, "not_delegated")),
        *(refusal(503, "verification_unavailable", "other"), refusal(403, "not_delegated", "other")),
    ],
)
def test_returns_other_answers_of_the_application(
    service: Service, answer: Callable[[Request], bytes]
) -> None:
    service.answer = answering(answer)
    assert agent_of(service).fetch(service.url, scope=SCOPE).status in (302, 403, 409, 503)
    assert len(presented(service)) == 1


def test_stops_after_an_invocation_id_of_another_action(service: Service) -> None:
    service.answer = answering(refusal(503, "invocation_conflict"))
    with pytest.raises(AgentError, match="invocation_conflict") as found:
        agent_of(service).fetch(service.url, scope=SCOPE)
    assert type(found.value) is AgentError
    assert len(presented(service)) == 1


def test_repeats_only_what_was_not_done(service: Service) -> None:
    service.answer = answering(refusal(503, "verification_unavailable"))
    with pytest.raises(Unavailable):
        agent_of(service).fetch(service.url, scope=SCOPE)
    ids = {asked["operation"]["invocation_id"] for asked in presented(service)}
    assert (len(presented(service)), len(ids)) == (3, 1)
    service.answer = answering(lambda _: b"no HTTP\r\n\r\n")
    with pytest.raises(Unanswered) as found:
        agent_of(service).fetch(service.url, scope=SCOPE, invocation_id="inv-1")
    assert (found.value.invocation_id, len(presented(service))) == ("inv-1", 4)
    assert found.value.code == "no_answer"
    service.answer = answering(lambda _: http(200, {}), http(503, {}))
    with pytest.raises(Unavailable, match="proof_unavailable"):
        agent_of(service).fetch(service.url, scope=SCOPE)


def test_says_whether_anything_was_sent_to_a_silent_application(service: Service) -> None:
    service.answer = answering(lambda _: b"no HTTP\r\n\r\n")
    for address, code in (("http://127.0.0.1:1", "not_sent"), (service.url, "no_answer")):
        agent = agent_of(service, verifiers={address: SHOP})
        with pytest.raises(Unanswered, match=code):
            agent.fetch(address, scope=SCOPE)


def test_takes_verifiers_only_from_its_settings(service: Service) -> None:
    service.answer = answering(lambda _: http(200, {}))
    agent = agent_of(service, verifiers={f"{service.url}/shop": SHOP})
    for url in (service.url, f"{service.url}/shopping", "http://127.0.0.1:1/shop", "https://shop.example"):
        with pytest.raises(WrongVerifier):
            agent.fetch(url, scope=SCOPE)
    with pytest.raises(WrongVerifier):
        agent.fetch(f"{service.url}/shop", scope=SCOPE, verifier=Verifier("bank-1", "w-2"))
    assert service.requests == []
    agent.fetch(f"{service.url}/shop/orders", scope=SCOPE, verifier=SHOP)
    own = agent_of(service, verifiers={service.url: "own"})
    own.fetch(service.url, scope=SCOPE)
    assert [each["operation"]["verifier_id"] for each in presented(service)] == ["shop-1", "own-1"]
    service.answer = answering(lambda _: http(200, {}), http(400, {"error": {"code": "verifier_mismatch"}}))
    with pytest.raises(WrongVerifier):
        own.fetch(service.url, scope=SCOPE)


def test_sends_nothing_to_a_path_that_servers_read_as_that_of_another_verifier(service: Service) -> None:
    service.answer = answering(lambda _: http(200, {}))
    narrow = Verifier("tenant-1", "w-2")
    agent = agent_of(service, verifiers={service.url: SHOP, f"{service.url}/tenant/": narrow})
    for path in (
        *("/%74enant/x", "/%2574enant/x", "//tenant/x", "/tenant%2fx", "/Tenant/x", "/tenant;v=1/x"),
        *("/tenant%3fx", "/tenant%5cx", "/%2ftenant", "/tenant%23/x", "/%EF%BD%94enant", "/TENANT"),
    ):
        with pytest.raises(WrongVerifier, match="ambiguous_address"):
            agent.fetch(f"{service.url}{path}", scope=SCOPE)
    assert service.requests == []
    for path in ("/tenants", "/orders//7%2f8;a", "/", "/tenant", "/tenant/A%20b;c//d"):
        agent.fetch(f"{service.url}{path}", scope=SCOPE)
    found = [each["operation"]["verifier_id"] for each in presented(service)]
    assert found == ["shop-1", "shop-1", "shop-1", "tenant-1", "tenant-1"]


def test_gives_a_tool_its_scope_and_one_id_per_call(service: Service) -> None:
    service.answer = answering(lambda _: http(200, {}))

    def order(item: str, call: ToolCall) -> int:
        call.fetch(service.url, body={"item": item}, scope="payments:send")
        return call.fetch(service.url).status

    async def order_later(item: str, call: ToolCall) -> int:
        return (await call.fetch_async(service.url, body={"item": item})).status

    agent = agent_of(service)
    assert agent.tool(order, SCOPE)("coal", invocation_id="t-1") == 200
    assert asyncio.run(agent.tool(order_later, SCOPE)("coal", invocation_id="t-2")) == 200
    ids = [asked["operation"]["invocation_id"] for asked in presented(service)]
    assert (ids, {asked["required_scope"] for asked in presented(service)}) == (
        ["t-1", "t-1~2", "t-2"],
        {SCOPE},
    )
    for invocation_id in ("", "t~2", "a b", "x" * 241):
        with pytest.raises(TypeError, match="invocation_id"):
            agent.tool(order, SCOPE)("coal", invocation_id=invocation_id)
    assert len(presented(service)) == 3


def test_waits_as_long_as_the_service_asks(service: Service) -> None:
    body = {"error": {"code": "rate_limited"}}
    service.answer = answering(lambda _: http(200, {}), http(429, body, "retry-after: 31\r\n"))
    with pytest.raises(Unavailable, match="rate_limited"):
        agent_of(service).fetch(service.url, scope=SCOPE)
    assert len(presented(service)) == 1
    service.answer = answering(lambda _: http(200, {}), http(429, body, "retry-after: 1\r\n"))
    began = time.monotonic()
    with pytest.raises(Unavailable, match="rate_limited"):
        agent_of(service, pauses=(0,)).fetch(service.url, scope=SCOPE)
    assert (len(presented(service)), time.monotonic() - began >= 1) == (3, True)


@pytest.mark.parametrize(
    "options",
    [
        {"scope": "data:*"},
        {"body": '{"a":1}'},
        {"body": [2**53]},
        {"body": "\ud800"},
        {"body": object()},
        {"invocation_id": "a b"},
        {"invocation_id": ""},
        {"url": "/pub/%2e%2e/admin"},
        {"method": "a b"},
        {"method": "GET\r\nx: y"},
        {"method": "trace"},
        {"headers": {"HOST": "bank.example"}},
        {"headers": {"Content-Length": "2"}},
        {"headers": {"transfer-encoding": "chunked"}},
        {"headers": {"Connection": "x-service-proof"}},
        {"headers": {"x-note": "a\r\nx-other: b"}},
        {"headers": {"x note": "a"}},
        {"scope": "data:*"},
        {"scope": None},
        {"ask": {"purpose": "Order coal"}},
        {"verifier": {"verifier_id": "shop-1", "workspace_id": "w-2"}},
    ],
)
def test_rejects_what_no_guard_can_bind(service: Service, options: dict[str, Any]) -> None:
    path = options.pop("url", "")
    with pytest.raises(TypeError):
        agent_of(service).fetch(f"{service.url}{path}", **{"scope": SCOPE, **options})
    assert service.requests == []


@pytest.mark.parametrize(
    "verifiers",
    [None, [SHOP], {"shop": SHOP}, {"http://a?b": SHOP}, {"http://u@a": SHOP}, {"http://a": "other"}],
)
def test_rejects_invalid_verifiers(verifiers: Any) -> None:
    with pytest.raises(TypeError, match=r"verifiers|url"):
        Agent("https://service.example", "k", verifiers)
