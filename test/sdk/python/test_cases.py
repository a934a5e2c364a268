"""Runs the cases that the two languages share. `cases.test.ts` runs them in TypeScript."""

import json
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from httpx2 import URL

from deputize.agent.asking import Ask
from deputize.agent.errors import WrongVerifier
from deputize.agent.verifiers import AgentVerifier, check_expected, read_verifier, read_verifiers
from deputize.enforcement import rule
from deputize.faults import fault_of
from deputize.frameworks.body import read_body
from deputize.operation import Verifier, describe_operation
from deputize.payload import ABSENT, payload_digest
from deputize.proof import read_proof
from deputize.protocol.binding import request_hash
from deputize.protocol.canonical import canonical_bytes
from deputize.protocol.errors import ProtocolError
from deputize.protocol.resource_path import hides_dot_segment
from deputize.protocol.scopes import is_requirable_scope
from deputize.protocol.strict_json import parse_body
from deputize.service.exchange import Answer
from deputize.settings import GuardSettings
from deputize.webhook import verify_webhook

CASES: dict[str, list[dict[str, Any]]] = json.loads(
    Path(__file__).parents[1].joinpath("cases.json").read_text()
)


def cases(kind: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", CASES[kind])


@cases("canonical")
def test_canonical(case: dict[str, Any]) -> None:
    document = case["json"].encode()
    if case["canonical"] is None:
        with pytest.raises(ProtocolError):
            canonical_bytes(parse_body(document))
    else:
        assert canonical_bytes(parse_body(document)).decode() == case["canonical"]


@cases("operations")
def test_operations(case: dict[str, Any]) -> None:
    def hashed() -> list[str | None]:
        payload = ABSENT if case["payload"] is None else parse_body(case["payload"].encode())
        digest = payload_digest(payload)
        texts = case["required_scope"], case["action"], case["resource_id"], case["requested_path"]
        found = request_hash(*texts, digest)
        return [f"sha256:{each.hex()}" if each else None for each in (digest, found)]

    if case["request_hash"] is None:
        with pytest.raises(ProtocolError):
            hashed()
    else:
        assert hashed() == [case["payload_digest"], case["request_hash"]]


@cases("refusals")
def test_refusals(case: dict[str, Any]) -> None:
    ruling = rule(Answer(case["status"], case["body"].encode()))
    refusal = None
    if ruling.refusal is not None:
        refusal = {"status": ruling.refusal.status, "code": ruling.refusal.code}
        if ruling.refusal.evaluation_id is not None:
            refusal["evaluation_id"] = ruling.refusal.evaluation_id
    assert (ruling.finding, refusal) == (case["finding"], case["refusal"])


@cases("webhooks")
def test_webhooks(case: dict[str, Any]) -> None:
    word, body = case.get("word", "service"), case["body"].encode()
    check = verify_webhook(case["headers"], body, case["secret"], now=case["now"], word=word)
    assert (check.reason or "ok") == case["result"]


@cases("scopes")
def test_scopes(case: dict[str, Any]) -> None:
    assert is_requirable_scope(case["scope"]) is case["requirable"]


@cases("paths")
def test_paths(case: dict[str, Any]) -> None:
    assert hides_dot_segment(case["path"]) is case["hides"]


@cases("bodies")
def test_bodies(case: dict[str, Any]) -> None:
    def found() -> str:
        try:
            body = read_body(case["content_type"], case["body"].encode())
        except ProtocolError:
            return "invalid"
        if body.is_unread:
            return "unbindable"
        if body.value is ABSENT:
            return "absent"
        is_bytes = isinstance(body.value, bytes)
        return "bytes" if is_bytes else f"json:{canonical_bytes(body.value).decode()}"

    assert found() == case["read"]


@cases("options")
def test_options(case: dict[str, Any]) -> None:
    readers: dict[str, Callable[..., object]] = {
        "ask": Ask,
        "agent_verifier": lambda **members: read_verifiers({"https://a.example": AgentVerifier(**members)}),
        "expected_verifier": lambda **members: read_verifier(AgentVerifier(**members)),
        "guard_verifier": lambda **members: GuardSettings(verifier=Verifier(**members)),
    }
    read = readers[case["option"]]
    if case["accepted"]:
        assert read(**case["members"]) is not None
    else:
        with pytest.raises(TypeError):
            read(**case["members"])


@cases("bindings")
def test_bindings(case: dict[str, Any]) -> None:
    operation = MappingProxyType(case["operation"])
    assert describe_operation(operation, case["operation"]["required_scope"]) == case["described"]


@cases("faults")
def test_faults(case: dict[str, Any]) -> None:
    error = {"code": case["code"], "message": case.get("message", ""), "status": case["status"]}
    body = json.dumps({"error": error})
    own = MappingProxyType(CASES["bindings"][0]["operation"])
    ruling = rule(Answer(case["status"], body.encode()))
    fault = fault_of(ruling, own["required_scope"], own if case["bound"] else None, case["described"])
    found: dict[str, object] | None = None
    if fault is not None:
        found = {"kind": fault.kind}
        if fault.kind == "proof_for_other_operation":
            found["differs"] = None if fault.differs is None else list(fault.differs)
        if fault.message is not None:
            found["message"] = fault.message
    assert found == case["fault"]


@cases("verifiers")
def test_verifiers(case: dict[str, Any]) -> None:
    verifiers: dict[str, Verifier] = {}
    # Both classes name the same verifier.
    for kind, (address, members) in zip((Verifier, AgentVerifier), case["verifiers"].items(), strict=False):
        verifiers[address] = AgentVerifier(**members) if "connection_id" in members else kind(**members)

    def find() -> AgentVerifier | str:
        found = read_verifiers(verifiers)(URL(case["url"]))
        assert found != "own"
        check_expected(None if case["expected"] is None else AgentVerifier(**case["expected"]), found)
        return found

    if isinstance(case["found"], str):
        with pytest.raises(WrongVerifier) as error:
            find()
        assert error.value.code == case["found"]
    else:
        assert find() == AgentVerifier(**case["found"])


@cases("proofs")
def test_proofs(case: dict[str, Any]) -> None:
    proof = read_proof(case["source"])
    found = proof and {"member": proof.member, "json": proof.json, "agent_id": proof.agent_id}
    assert found == case["read"]
