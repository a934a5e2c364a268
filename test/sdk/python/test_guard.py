"""The guard with a service that answers as each test says."""

import asyncio
import json
import os
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest
from conftest import ALLOW, RECEIPT_ID, Request, Service, http

from deputize.challenges import ChallengeLimit
from deputize.guard import (
    Authority,
    AuthorizeCall,
    Challenge,
    Executed,
    Guard,
    GuardFault,
    GuardSettings,
    Operation,
    Refused,
    Route,
)
from deputize.protocol.binding import request_hash

SCOPE = "payments:send"
PROOF = '{"agent_id":"aa","n":1.0}'
OWN = ALLOW["human_id"]
OPERATION = Operation(
    action="refund", invocation_id="inv 1", resource_id="order-7", requested_path="/orders/7/refund?fast=1"
)
CALL = AuthorizeCall(SCOPE, PROOF)
BOUND = AuthorizeCall(SCOPE, PROOF, {"b": [1, "é"], "a": 5.0}, OPERATION)


def cause_of(found: Authority | Refused) -> tuple[int, str, str]:
    assert isinstance(found, Refused)
    return found.refusal.status, found.refusal.code, found.record.cause


def no_decision(cause: str) -> tuple[int, str, str]:
    return 503, "verification_unavailable", cause


def no_authority(cause: str) -> tuple[int, str, str]:
    return 403, "no_authority_demonstrated", cause


def test_sends_the_proof_unchanged_with_the_operation(service: Service) -> None:
    guard = service.guard()
    authority = guard.authorize(BOUND)
    assert isinstance(authority, Authority)
    [request] = service.requests
    assert request.target == "/v1/service/verify"
    assert request.headers["x-service-api-key"] == "dpz_key"
    assert request.body.startswith(f'{{"proof_bundle":{PROOF},'.encode())
    digest = sha256('{"a":5,"b":[1,"é"]}'.encode()).digest()
    path = "/orders/7/refund?fast=1"
    assert request.json()["operation"] == {
        "verifier_id": "connection-1",
        "workspace_id": "account-1",
        "agent_id": "aa",
        "action": "refund",
        "resource_id": "order-7",
        "requested_path": path,
        "session_id": "",
        "invocation_id": "inv 1",
        "payload_digest": f"sha256:{digest.hex()}",
        "request_hash": f"sha256:{request_hash(SCOPE, 'refund', 'order-7', path, digest).hex()}",
    }
    assert request.json()["context"] == {"resource_id": "order-7", "path": "/orders/7/refund"}
    assert (authority.agent_id, authority.human_id, authority.receipt_id) == ("aa", OWN, RECEIPT_ID)
    assert authority.granted_scope == (SCOPE,)
    with pytest.raises(TypeError):
        authority.payload["a"] = 500


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (AuthorizeCall(SCOPE, None), "no_proof"),
        (AuthorizeCall(SCOPE, "a, b"), "malformed_proof"),
        (AuthorizeCall(None, PROOF), "no_scope"),
        (AuthorizeCall(SCOPE, PROOF, context={"amount": -0.01}), "invalid_amount"),
        (AuthorizeCall(SCOPE, PROOF, context={"amount": float("nan")}), "invalid_amount"),
        (AuthorizeCall(SCOPE, PROOF, context={"amount": float("inf")}), "invalid_amount"),
        (AuthorizeCall(SCOPE, PROOF, context={"amount": "5"}), "invalid_amount"),
        (AuthorizeCall(SCOPE, PROOF, context={"amount": True}), "invalid_amount"),
        (AuthorizeCall(SCOPE, PROOF, context={"path": "/pub/%2e%2e/admin"}), "hidden_dot_segment"),
        (AuthorizeCall(SCOPE, {"proof_ref": "AQ"}, {}, OPERATION), "incomplete_operation"),
        (AuthorizeCall(SCOPE, PROOF, {}, Operation(action="refund")), "incomplete_operation"),
        (AuthorizeCall(SCOPE, PROOF, [2**53], OPERATION), "unbindable_payload"),
        (AuthorizeCall(SCOPE, PROOF, [float("nan")], OPERATION), "unbindable_payload"),
        (AuthorizeCall(SCOPE, PROOF, ["\ud800"], OPERATION), "unbindable_payload"),
        (AuthorizeCall(SCOPE, PROOF, operation=OPERATION, unread_body=True), "unbindable_payload"),
        (AuthorizeCall(SCOPE, PROOF, json.loads("[" * 65 + "]" * 65)), "unbindable_payload"),
    ],
)
def test_refuses_without_a_call(service: Service, call: AuthorizeCall, expected: str) -> None:
    assert cause_of(service.guard().authorize(call)) == no_authority(expected)
    assert service.requests == []


@pytest.mark.parametrize(
    "call",
    [
        AuthorizeCall("data:*", PROOF),
        AuthorizeCall("custom:refund", None),
        AuthorizeCall(SCOPE, PROOF, {"at": object()}),
        AuthorizeCall(SCOPE, PROOF, {1: 2}),
        AuthorizeCall(SCOPE, PROOF, {}, OPERATION, {"resource_id": "order-8"}),
    ],
)
def test_raises_for_a_mistake_of_the_application(service: Service, call: AuthorizeCall) -> None:
    with pytest.raises(TypeError):
        service.guard().authorize(call)
    assert service.requests == []


def drip(_: Request) -> Iterator[bytes]:
    for byte in http(200, ALLOW):
        yield bytes([byte])
        time.sleep(0.02)


def early_hints(_: Request) -> Iterator[bytes]:
    for _each in range(500):
        yield b"HTTP/1.1 102 Processing\r\n\r\n"
        time.sleep(0.02)


@pytest.mark.parametrize("answer", [drip, early_hints, lambda _: []])
def test_one_limit_ends_the_whole_exchange(service: Service, answer: Any) -> None:
    service.answer = answer
    guard, began = service.guard(timeout=0.3), time.monotonic()
    assert cause_of(guard.authorize(CALL)) == no_decision("timeout")
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (http(307, ALLOW, "location: /v1/service/verify\r\n"), "unexpected_status"),
        (http(200, b" " * 262_145), "answer_too_large"),
        (b"hello\r\n\r\n", "network"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\n{}  ", "network"),
        (http(200, b"\x1f\x8b", "content-encoding: gzip\r\n"), "unparseable"),
        (http(500, ALLOW), "unexpected_status"),
    ],
)
def test_has_no_decision_after_a_faulty_answer(service: Service, answer: bytes, expected: str) -> None:
    service.answer = lambda _: [answer]
    assert cause_of(service.guard().authorize(CALL)) == no_decision(expected)
    assert len(service.requests) == 1


def test_has_no_decision_without_a_service_or_a_key(service: Service) -> None:
    assert cause_of(Guard("http://127.0.0.1:1", "k").authorize(CALL)) == no_decision("network")

    def broken() -> str:
        raise RuntimeError

    for key in (broken, lambda: "", lambda: "line\r\nbreak"):
        assert cause_of(Guard(service.url, key).authorize(CALL)) == no_decision("no_api_key")
    assert service.requests == []


def test_sends_no_cookie_and_uses_no_proxy(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    service.answer = lambda _: [http(200, ALLOW, "set-cookie: a=b\r\n")]
    guard = service.guard()
    for _ in range(2):
        assert isinstance(guard.authorize(CALL), Authority)
    assert "cookie" not in service.requests[1].headers


def test_runs_no_invocation_twice(service: Service) -> None:
    service.answer = lambda _: [http(200, {**ALLOW, "replayed": True})]
    assert cause_of(service.guard().authorize(BOUND)) == (403, "invocation_replayed", "replayed")
    assert isinstance(service.guard(replays="execute").authorize(BOUND), Authority)


def test_accepts_only_the_principals_of_the_application(service: Service) -> None:
    async def later() -> list[str]:
        return [OWN]

    def broken() -> list[str]:
        raise RuntimeError

    assert isinstance(service.guard(principals=[OWN]).authorize(CALL), Authority)
    assert isinstance(service.guard(principals=lambda: {OWN}).authorize(CALL), Authority)
    refused = (403, "principal_not_accepted", "principal_not_accepted")
    assert cause_of(service.guard(principals=[]).authorize(CALL)) == refused
    assert cause_of(service.guard(principals=lambda: ["f" * 32]).authorize(CALL)) == refused
    for unread in (broken, lambda: OWN, lambda: [OWN, "x"], later):
        faults: list[GuardFault] = []
        guard = service.guard(principals=unread, on_fault=faults.append)
        assert cause_of(guard.authorize(BOUND)) == no_decision("principals_not_read")
        assert [fault.kind for fault in faults] == ["principals_not_read"]
        guard.flush()
        assert service.reported()[-1]["outcome"] == "not_attempted"
    assert isinstance(asyncio.run(service.guard(principals=later).authorize_async(CALL)), Authority)
    for wrong in (OWN, [OWN.upper()], [5]):
        with pytest.raises(TypeError):
            service.guard(principals=wrong)


def test_retains_each_record_before_the_action(service: Service) -> None:
    records: list[Any] = []
    guard = service.guard(retain=records.append)
    assert isinstance(guard.run(BOUND, lambda _payload, _who: len(records)), Executed)
    guard.authorize(AuthorizeCall(SCOPE, None))
    assert [record.cause for record in records] == ["allow", "no_proof"]
    assert "dpz_key" not in repr(records)

    def full(_: object) -> None:
        raise OSError

    ran: list[object] = []
    guard = service.guard(retain=full)
    refused = guard.run(BOUND, lambda payload, _who: ran.append(payload))
    assert isinstance(refused, Refused)
    assert cause_of(refused) == no_decision("record_not_retained")
    guard.flush()
    assert (ran, service.reported()[-1]["outcome"]) == ([], "not_attempted")


def test_reports_how_the_action_ended(service: Service) -> None:
    guard = service.guard()

    def fail(_payload: object, _who: Authority) -> None:
        raise LookupError

    async def fine(payload: Any, who: Authority) -> Any:
        who.report("refused_by_receiver", "limit\x00 of the day")
        return payload["a"]

    with pytest.raises(LookupError):
        guard.run(BOUND, fail)
    found = asyncio.run(guard.run_async(BOUND, fine))
    assert isinstance(found, Executed)
    assert found.value == 5
    guard.run(CALL, lambda _payload, _who: None)
    guard.flush()
    [failed, refused] = sorted(service.reported(), key=lambda report: str(report["outcome"]))
    assert (failed["outcome"], failed["detail"], failed["receipt_id"]) == (
        "failed",
        "LookupError",
        RECEIPT_ID,
    )
    assert (refused["outcome"], refused["detail"]) == ("refused_by_receiver", "limit  of the day")
    assert "/v1/service/invocations/inv%201/outcome" in [request.target for request in service.requests]


def test_works_in_a_forked_process(service: Service) -> None:
    with service.guard() as guard:
        assert isinstance(guard.authorize(CALL), Authority)
        held = guard._exchanger._lock  # pyright: ignore[reportPrivateUsage]
        with held, warnings.catch_warnings():
            # The other threads of the test do not matter to the child.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            is_allowed = isinstance(guard.run(BOUND, lambda _payload, _who: None), Executed)
            guard.flush()
            os._exit(0 if is_allowed else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert isinstance(guard.authorize(CALL), Authority)


def test_closes_its_thread_and_ends_its_calls(service: Service) -> None:
    def threads() -> int:
        return [thread.name for thread in threading.enumerate()].count("deputize")

    before = threads()
    with service.guard() as guard:
        guard.authorize(CALL)
        assert threads() == before + 1
    assert threads() == before
    assert isinstance(guard.authorize(CALL), Authority)
    guard.close()
    guard.close()
    assert threads() == before


def test_cuts_a_detail_as_the_service_counts(service: Service) -> None:
    guard = service.guard()
    details = (
        ("é" * 600, "é" * 500),
        ("😀" * 300, "😀" * 250),
        ("a" + "😀" * 300, "a" + "😀" * 249 + "\ufffd"),
        ("a\ud800b\udc00", "a\ufffdb\ufffd"),
        ("a\n" * 400, "a " * 250),
    )
    for given, sent in details:
        authority = guard.authorize(BOUND)
        assert isinstance(authority, Authority)
        authority.report("executed", given)
        guard.flush()
        assert service.reported()[-1]["detail"] == sent


def test_repeats_a_report_and_then_gives_up(service: Service) -> None:
    faults: list[GuardFault] = []
    guard = service.guard(on_fault=faults.append)
    service.answer = lambda request: [http(200 if request.target.endswith("verify") else 503, ALLOW)]
    guard.run(BOUND, lambda _payload, _who: None)
    guard.flush()
    assert len(service.reported()) == 3
    assert [(fault.kind, fault.status) for fault in faults] == [("outcome_not_reported", 503)]


def test_gives_each_network_a_part_of_the_challenges(service: Service) -> None:
    service.answer = lambda _: [http(200, {"challenge": "AQ==", "expires_at": "2026-01-01T00:00:00Z"})]
    limit = ChallengeLimit(8, clock=lambda: 5.0)
    assert [limit.takes("192.0.2.1") for _ in range(3)] == [True, True, False]
    ours = ("2001:db8::1", "2001:db8:0:0:ffff::2", "2001:db8::", "::ffff:192.0.2.1", "::ffff:192.0.2.2")
    assert [limit.takes(address) for address in ours] == [True, True, False, False, True]
    assert [limit.takes(f"198.51.100.{host}") for host in range(4)] == [True, True, True, False]
    assert service.guard().challenge("192.0.2.1") == Challenge("AQ==", "2026-01-01T00:00:00Z")
    assert service.guard(challenges_per_second=0).challenge() is None
    assert service.requests[0].target == "/v1/service/challenge"


@pytest.mark.parametrize(
    ("url", "key", "settings"),
    [
        ("service", "k", {}),
        ("ftp://service.example", "k", {}),
        ("https://u:p@service.example", "k", {}),
        ("https://service.example/?a", "k", {}),
        ("https://service.example", "", {}),
        ("https://service.example", "a\nb", {}),
        ("https://service.example", "k", {"timeout": 0}),
        ("https://service.example", "k", {"timeout": float("nan")}),
        ("https://service.example", "k", {"word": "a/b"}),
        ("https://service.example", "k", {"challenges_per_second": -1}),
        ("https://service.example/v1", "k", {}),
        ("https://service.example", "k", {"retain": "log"}),
        ("https://service.example", "k", {"principal": []}),
    ],
)
def test_rejects_invalid_settings(url: str, key: str, settings: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        Guard(url, key, GuardSettings(**settings))


@pytest.mark.parametrize(
    ("about", "settings"),
    [
        ("required_scope", {"required_scope": ""}),
        ("required_scope", {"required_scope": None}),
        ("required_scope", {"required_scope": 5}),
        ("operation", {"operation": "refund"}),
        ("operation", {"operation": OPERATION}),
        ("operation", {"operation": 1}),
        ("proof", {"proof": "x-proof"}),
        ("payload", {"payload": {}}),
        ("context", {"context": {"amount": 5}}),
        ("max_body_bytes", {"max_body_bytes": "5"}),
        (".*operations", {"operations": True}),
    ],
)
def test_rejects_each_mistake_of_a_route(service: Service, about: str, settings: dict[str, Any]) -> None:
    given = {"required_scope": SCOPE, **settings}
    with pytest.raises(TypeError, match=about):
        Route(**given)
    with pytest.raises(TypeError, match=about):
        service.guard()(**given)
    Route(SCOPE, operation=False, proof=str, payload=str)


def test_warns_once_of_each_kind_of_fault(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    error = {"code": "invalid_api_key", "message": "dpz_key", "status": 401}
    service.answer = lambda _: [http(401, {"error": error})]
    guard = service.guard()
    for call in (CALL, CALL, replace(BOUND, unread_body=True)):
        assert isinstance(guard.authorize(call), Refused)
    lines = [record.getMessage() for record in caplog.records if record.name == "deputize.guard"]
    assert [line.split(": ")[1] for line in lines] == [
        "key_refused, status 401, code invalid_api_key",
        "body_not_read",
    ]
    assert "dpz_key" not in "".join(lines)
    faults: list[GuardFault] = []
    unnamed = service.guard(verifier=None, on_fault=faults.append)
    unnamed.authorize(BOUND)
    service.answer = lambda _: [http(404, {})]
    unnamed.authorize(CALL)
    service.answer = lambda _: [http(409, {"error": {"code": "invocation_conflict", "status": 409}})]
    unnamed.authorize(CALL)
    assert [(fault.kind, fault.status, fault.code) for fault in faults] == [
        ("key_refused", 401, "invalid_api_key"),
        ("verification_failed", 404, None),
        ("invocation_conflict", None, "invocation_conflict"),
    ]
