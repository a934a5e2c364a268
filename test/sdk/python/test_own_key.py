"""The look-up of the names of a key's verifier and agent."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from conftest import ALLOW, Request, Service, http

from deputize.agent import Agent
from deputize.guard import Authority, AuthorizeCall, GuardFault, Operation, Refused
from deputize.service.own_key import LookUp

SELF = {"connection_id": "c-1", "verifier_id": "v-1", "workspace_id": "w-1", "agent_id": None}
OPERATION = Operation(action="refund", invocation_id="inv-1")
BOUND = AuthorizeCall("payments:send", '{"agent_id":"aa"}', {"a": 5}, OPERATION)


def answering(status: int, body: object) -> Any:
    def answer(request: Request) -> list[bytes]:
        return [http(status, body) if request.target.endswith("/keys/self") else http(200, ALLOW)]

    return answer


def look_ups(service: Service) -> int:
    return [request.target for request in service.requests].count("/v1/service/keys/self")


def test_reads_the_name_once_for_all_calls_that_need_it(service: Service) -> None:
    service.answer = answering(200, SELF)
    guard = service.guard(verifier=None)
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(guard.authorize, [BOUND] * 8))
    found.append(asyncio.run(guard.authorize_async(BOUND)))
    assert all(isinstance(each, Authority) for each in found)
    assert {each["operation"]["verifier_id"] for each in service.verified()} == {"v-1"}
    assert look_ups(service) == 1
    assert service.requests[0].headers["x-service-api-key"] == "dpz_key"


def test_reads_no_name_for_a_proof_without_an_operation(service: Service) -> None:
    service.answer = answering(200, SELF)
    service.guard(verifier=None).authorize(AuthorizeCall("payments:send", "AQ"))
    service.guard(verifier=None).authorize(AuthorizeCall("payments:send", None, {}, OPERATION))
    service.guard().authorize(BOUND)
    assert look_ups(service) == 0


@pytest.mark.parametrize(
    ("status", "body"),
    [(401, {}), (503, {}), (302, SELF), (200, {**SELF, "workspace_id": ""}), (200, b"nonsense")],
)
def test_allows_nothing_without_the_name_and_tries_again(service: Service, status: int, body: Any) -> None:
    faults: list[GuardFault] = []
    guard = service.guard(verifier=None, on_fault=faults.append)
    service.answer = answering(status, body)
    refused = guard.authorize(BOUND)
    assert isinstance(refused, Refused)
    assert (refused.refusal.status, refused.record.cause) == (503, "verifier_not_read")
    assert [(fault.kind, fault.status) for fault in faults] == [
        ("key_refused" if status == 401 else "verifier_not_read", status)
    ]
    assert service.verified() == []
    service.answer = answering(200, SELF)
    assert isinstance(guard.authorize(BOUND), Authority)


def test_repeats_a_look_up_after_a_minute_and_after_a_failure() -> None:
    now, reads = 0.0, 0

    async def read(_: str) -> int:
        nonlocal reads
        reads += 1
        if reads == 2:
            raise OSError
        return reads

    async def check() -> None:
        nonlocal now
        found = LookUp(read, lambda: now)
        assert [await found.get("k"), await found.get("k")] == [1, 1]
        now = 59.9
        assert await found.get("k") == 1
        now = 60.0
        with pytest.raises(OSError):
            await found.get("k")
        assert [await found.get("k"), await found.get("k"), await found.get("other")] == [3, 3, 4]

    asyncio.run(check())


def test_a_cancelled_caller_leaves_the_answer_to_the_others(service: Service) -> None:
    service.answer = answering(200, {**SELF, "agent_id": "aa"})
    agent = Agent(service.url, "k", {service.url: "own"}, pauses=())

    async def check() -> None:
        first = asyncio.create_task(agent.fetch_async(service.url, scope="data:read"))
        await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first

    asyncio.run(check())
    assert look_ups(service) <= 1
