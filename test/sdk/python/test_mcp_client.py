"""The proofs of an MCP client with a service and a session that answer as each test says."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest
from conftest import Request, Service, http

from deputize.agent import Agent, NotDelegated, Verifier, WrongVerifier
from deputize.mcp import AUTHORITY
from deputize.mcp.client import with_authority

SELF = {"connection_id": "c-1", "agent_id": "aa", "verifier_id": "own-1", "workspace_id": "w-1"}
SCOPES = {"send_payment": "payments:send"}
PAYMENT = {"to": "bob", "amount": 5}


@dataclass
class Result:
    meta: dict[str, Any] | None = None


@dataclass
class Session:
    """A session that keeps what it would send. `lost`: how many of the next calls get no answer."""

    sent: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    lost: int = 0
    answer: dict[str, Any] | None = None

    async def call_tool(
        self, name: str, arguments: Any = None, *others: Any, meta: Any, **more: Any
    ) -> Result:
        self.sent.append({"name": name, "arguments": arguments, "others": others, "meta": meta, **more})
        if self.lost > 0:
            self.lost -= 1
            raise TimeoutError
        return Result(None if self.answer is None else {AUTHORITY: self.answer})

    def entries(self) -> list[dict[str, Any]]:
        return [sent["meta"][AUTHORITY] for sent in self.sent]


def presenting(request: Request) -> list[bytes]:
    is_self = request.target.endswith("/keys/self")
    return [http(200, SELF if is_self else {"proof_ref": "AQ"})]


def agent_of(service: Service) -> Agent:
    return Agent(service.url, "dpza_key", {"mcp:bank": Verifier("bank-1", "w-2")}, pauses=())


def presented(service: Service) -> list[Any]:
    return [request.json() for request in service.requests if request.target.endswith("/present")]


def test_a_call_has_a_proof_of_exactly_its_input(service: Service) -> None:
    service.answer = presenting
    session = Session()
    scopes: Any = {"send_payment": {"scope": "payments:send", "resource": "to"}}
    proven: Any = with_authority(session, agent_of(service), server="bank", scopes=scopes)
    asyncio.run(proven.call_tool("send_payment", PAYMENT, 7, meta={"progressToken": 1}))
    [sent] = session.sent
    invocation_id = sent["meta"][AUTHORITY]["invocation_id"]
    assert sent == {
        "name": "send_payment",
        "arguments": PAYMENT,
        "others": (7,),
        "meta": {
            "progressToken": 1,
            AUTHORITY: {
                "proof_ref": "AQ",
                "agent_id": "aa",
                "invocation_id": invocation_id,
                "resource_id": "bob",
            },
        },
    }
    [asked] = presented(service)
    operation = asked["operation"]
    named = {name: operation[name] for name in ("verifier_id", "workspace_id", "action", "resource_id")}
    assert named == {
        "verifier_id": "bank-1",
        "workspace_id": "w-2",
        "action": "bank/send_payment",
        "resource_id": "bob",
    }
    assert operation["invocation_id"] == invocation_id


def test_only_a_lost_call_that_is_sent_again_keeps_its_id_attack_11(service: Service) -> None:
    service.answer = presenting
    session, agent = Session(lost=1), agent_of(service)
    given = dict(PAYMENT)

    async def call(on: Session, *, is_lost: bool = False, meta: Any = None) -> None:
        bank: Any = on
        try:
            await bank.call_tool("send_payment", given, meta=meta)
        except TimeoutError:
            assert is_lost

    async def calls() -> list[str]:
        other = Session()
        for each in (session, other):
            with_authority(each, agent, server="bank", scopes=SCOPES)
        await call(session, is_lost=True)
        await call(other)
        await call(other)
        session.lost = 1
        await call(session, is_lost=True)
        given["amount"] = 6
        await call(session)
        for _ in range(2):
            await call(session, meta={AUTHORITY: {"invocation_id": "mine"}})
        ids = [entry["invocation_id"] for entry in session.entries()]
        return [entry["invocation_id"] for entry in other.entries()] + ids

    again, third, first, *others = asyncio.run(calls())
    assert again == first
    assert others[-2:] == ["mine", "mine"]
    assert len({first, third, *others}) == 5


def test_a_further_round_of_a_named_call_has_an_id_of_its_own(service: Service) -> None:
    service.answer = presenting
    session = Session()
    bank: Any = with_authority(session, agent_of(service), server="bank", scopes=SCOPES)
    meta = {AUTHORITY: {"invocation_id": "mine"}}
    answers = {"confirm": {"action": "accept", "content": {"amount": 5}}}
    asyncio.run(bank.call_tool("send_payment", PAYMENT, meta=meta, input_responses=answers))
    [sent] = session.sent
    assert sent["meta"][AUTHORITY]["invocation_id"].startswith("mine~")
    assert sent["input_responses"] == answers


def test_no_proof_of_another_call_is_passed_on_attack_9(service: Service) -> None:
    service.answer = presenting
    session = Session()
    bank: Any = with_authority(session, agent_of(service), server="bank", scopes=SCOPES)
    outer = {AUTHORITY: {"proof_ref": "outer", "agent_id": "bb", "invocation_id": "outer"}, "kept": 1}
    asyncio.run(bank.call_tool("send_payment", PAYMENT, meta=outer))
    asyncio.run(bank.call_tool("health", {}, meta=outer))
    assert session.sent[0]["meta"][AUTHORITY]["invocation_id"] != "outer"
    assert session.sent[0]["meta"]["kept"] == 1
    assert session.sent[1]["meta"] == {"kept": 1}


def test_the_client_follows_no_link_and_no_verifier_of_a_refusal_attack_5(service: Service) -> None:
    service.answer = presenting
    session = Session()
    bank: Any = with_authority(session, agent_of(service), server="bank", scopes=SCOPES)
    verifier = {"verifier_id": "evil", "workspace_id": "evil"}
    found: list[object] = []
    for endpoint in ("https://evil.example/v1/ask", f"{service.url}/v1/ask"):
        session.answer = {"code": "not_delegated", "access_request": {"endpoint": endpoint}, **verifier}
        result = asyncio.run(bank.call_tool("send_payment", dict(PAYMENT)))
        found.append(result.meta[AUTHORITY].get("access_request"))
    assert found == [None, {"endpoint": f"{service.url}/v1/ask"}]
    assert [each["operation"]["verifier_id"] for each in presented(service)] == ["bank-1", "bank-1"]


def test_nothing_is_sent_without_a_proof(service: Service) -> None:
    service.answer = presenting
    session = Session()
    evil: Any = with_authority(session, agent_of(service), server="evil", scopes=SCOPES)
    with pytest.raises(WrongVerifier):
        asyncio.run(evil.call_tool("send_payment", PAYMENT))
    session = Session()
    bank: Any = with_authority(session, agent_of(service), server="bank", scopes=SCOPES)
    for given, meta in (
        ({**PAYMENT, "note": "\ud800"}, None),
        ({**PAYMENT, "amount": float("nan")}, None),
        ({**PAYMENT, "at": object()}, None),
        (PAYMENT, {AUTHORITY: {"invocation_id": "a~1"}}),
    ):
        with pytest.raises(TypeError):
            asyncio.run(bank.call_tool("send_payment", given, meta=meta))
    denied = {"error": {"code": "no_active_delegation"}}
    service.answer = lambda request: (
        presenting(request) if request.target.endswith("/self") else [http(404, denied)]
    )
    with pytest.raises(NotDelegated):
        asyncio.run(bank.call_tool("send_payment", PAYMENT))
    assert session.sent == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"scopes": ["send_payment"]},
        {"scopes": {"pay": "all"}},
        {"scopes": {"pay": {"scope": "payments:send", "amount": "amount"}}},
        {"scopes": {"pay": {"scope": "payments:send", "resource": 1}}},
        {"server": "bank/pay"},
        {"ask": "Pay Bob"},
        {"verifier": "bank-1"},
    ],
)
def test_the_client_refuses_invalid_settings(wrong: dict[str, Any], service: Service) -> None:
    settings: dict[str, Any] = {"server": "bank", "scopes": SCOPES, **wrong}
    with pytest.raises(TypeError):
        with_authority(Session(), agent_of(service), **settings)
