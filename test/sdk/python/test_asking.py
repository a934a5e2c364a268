"""Runs the cases of asking that the two languages share. `asking_cases.test.ts` runs them in TypeScript."""

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from conftest import Request, Service, http

from deputize.agent import Agent, Ask, AwaitingApproval, Denied, Question, Verifier

FILE: Any = json.loads(Path(__file__).parents[1].joinpath("asking.json").read_text())
SELF = {"connection_id": "c-1", "agent_id": "aa", "verifier_id": "own-1", "workspace_id": "w-1"}
ASKING = "/v1/service/access-requests"
KINDS = ("present", "application", "asking", "asked")


def kind_of(target: str) -> str:
    if target == "/v1/service/keys/self":
        return "self"
    if target.endswith("/present"):
        return "present"
    if target == ASKING:
        return "asking"
    return "asked" if target.startswith(f"{ASKING}/") else "application"


def playing(service: Service, case: dict[str, Any]) -> Callable[[Request], list[bytes]]:
    """Answers each kind of call with its answers, one after the other. The last one stays."""
    left = {kind: list(case[kind]) for kind in KINDS}

    def answer(request: Request) -> list[bytes]:
        kind = kind_of(request.target)
        if kind == "self":
            return [http(200, SELF)]
        found = FILE["answers"][left[kind][0]] if len(left[kind]) == 1 else FILE["answers"][left[kind].pop(0)]
        invocation = request.headers.get("x-service-invocation-id", "")
        body = json.dumps(found["body"]).replace("{base}", service.url).replace("{invocation}", invocation)
        headers = {"content-type": "application/json", **found.get("headers", {})}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return [http(found["status"], body.encode(), lines)]

    return answer


def call_of(request: Request) -> str:
    kind = kind_of(request.target)
    if kind == "application":
        return f"application {request.headers['x-service-invocation-id']}"
    if kind != "present":
        return "ask" if kind == "asking" else kind
    body = request.json()
    return " ".join(["present", body["operation"]["invocation_id"], *filter(None, [body.get("cert_id")])])


def error_of(error: Denied) -> dict[str, object]:
    """Returns the members of an error that a case can name."""
    found: dict[str, object] = {
        **{"error": type(error).__name__, "code": error.code, "ask_fault": error.ask_fault},
        **{"invocation_id": error.invocation_id, "evaluation_id": error.evaluation_id},
    }
    if isinstance(error, AwaitingApproval):
        found |= {"task_id": error.task_id, "url": error.url}
    return found


@pytest.mark.parametrize("case", FILE["cases"], ids=lambda case: case["name"])
def test_asks(service: Service, case: dict[str, Any]) -> None:
    service.answer = playing(service, case)
    questions: list[Question] = []
    agent = Agent(
        service.url,
        "dpza_key",
        {service.url: Verifier("shop-1", "w-2")},
        pauses=(0, 0),
        on_ask=questions.append,
    )
    item = "x" * case["item"] if isinstance(case["item"], int) else case["item"]
    ask = None if case["ask"] is None else Ask(**case["ask"])
    try:
        response = agent.fetch(
            f"{service.url}/orders", scope="data:read", invocation_id="i-1", body={"item": item}, ask=ask
        )
        result: dict[str, object] = {"status": response.status}
    except Denied as error:
        result = error_of(error)
    assert result == json.loads(json.dumps(case["result"]).replace("{base}", service.url))
    assert [call_of(request) for request in service.requests] == ["self", *case["calls"]]
    assert len(questions) == case["questions"]
    asked = [request.json() for request in service.requests if kind_of(request.target) == "asking"]
    if asked:
        presented = next(request for request in service.requests if kind_of(request.target) == "present")
        is_presented = case["calls"][1] == "ask"
        evaluation_id = "c2VhbGVk" if is_presented else "01a1fd7f-0000-7000-8000-000000000001"
        payload = {"payload": {"item": item}} if case["shown"] else {}
        assert asked[0] == {
            "subject": {"type": "agent", "id": "aa"},
            "denial": {"evaluation_id": evaluation_id},
            "requested_access": {"scopes": ["data:read"]},
            "context": {
                "purpose": "Refund order 7",
                "operation": presented.json()["operation"],
                **payload,
            },
        }


def asking_agent(service: Service, answers: dict[str, list[str]]) -> Agent:
    script = {"present": ["not presented"], "application": ["done"], "asking": ["asked"], **answers}
    service.answer = playing(service, {"asked": ["pending"], **script})
    return Agent(service.url, "dpza_key", {service.url: Verifier("shop-1", "w-2")}, pauses=(0, 0))


def test_stops_waiting_when_the_caller_is_cancelled(service: Service) -> None:
    agent = asking_agent(service, {})

    async def act() -> bool:
        ask = Ask("Refund order 7", wait=600)
        call = asyncio.create_task(agent.fetch_async(service.url, scope="data:read", ask=ask))
        while not any(kind_of(request.target) == "asked" for request in service.requests):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        call.cancel()
        await asyncio.wait([call])
        return call.cancelled()

    assert asyncio.run(act())
    assert "application" not in [kind_of(request.target) for request in service.requests]


def test_withdraws_a_question(service: Service) -> None:
    agent = asking_agent(service, {"asked": ["cancelled", "not_found"]})
    agent.cancel_ask("a/b")
    assert service.requests[-1].target == f"{ASKING}/a%2Fb/cancel"
    with pytest.raises(Exception, match="not_found"):
        asyncio.run(agent.cancel_ask_async("a"))


def test_sends_the_end_of_the_authority_and_only_plain_data(service: Service) -> None:
    agent = asking_agent(service, {})
    until = datetime(2026, 12, 1, 13, tzinfo=UTC)
    with pytest.raises(AwaitingApproval):
        agent.fetch(service.url, scope="data:read", body=b"{}", ask=Ask("Refund", until=until))
    asked = service.requests[-1].json()
    assert asked["requested_access"]["requested_until"] == "2026-12-01T13:00:00.000Z"
    assert "payload" not in asked["context"]


@pytest.mark.parametrize(
    "options",
    [
        *({"purpose": ""}, {"purpose": " "}, {"purpose": 5}),
        *({"wait": -1}, {"wait": 86_401}, {"wait": "1"}, {"wait": True}, {"wait": float("nan")}),
        *({"until": datetime(2026, 12, 1)}, {"until": "2026-12-01T00:00:00Z"}),
    ],
)
def test_rejects_an_invalid_ask(options: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=r"^ask\."):
        Ask(**{"purpose": "Refund order 7", **options})


def test_rejects_an_id_that_leaves_no_room_for_the_next_one(service: Service) -> None:
    agent = asking_agent(service, {})
    with pytest.raises(TypeError, match="250 characters"):
        agent.fetch(service.url, scope="data:read", invocation_id="x" * 251, ask=Ask("Refund"))
    assert service.requests == []
