"""Runs the MCP cases that the two languages share. `test/sdk/mcp/cases.test.ts` runs them in TypeScript."""

import asyncio
import json
from pathlib import Path
from typing import Any, cast

import pytest
from conftest import Service, http

from deputize.authority import Authority, Refused
from deputize.guard import Guard, Verifier
from deputize.mcp.guarded_calls import GuardedCalls, ToolCall
from deputize.mcp.refusals import ToolRefusal
from deputize.mcp.rules import read_rules
from deputize.mcp.wire import actions_of, name_in
from deputize.payload import ABSENT
from deputize.question import AuthorizeCall, question_of, read_call

CASES: dict[str, list[dict[str, Any]]] = json.loads(
    Path(__file__).parents[1].joinpath("mcp/cases.json").read_text()
)
ENTRY = {"proof_ref": "AQ", "agent_id": "aa", "invocation_id": "i-1"}


def cases(kind: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", CASES[kind], ids=lambda case: case["name"])


@cases("rules")
def test_rules(case: dict[str, Any]) -> None:
    if case["valid"]:
        assert set(read_rules(case["rules"])) == set(case["rules"])
    else:
        with pytest.raises(TypeError):
            read_rules(case["rules"])


@cases("servers")
def test_servers(case: dict[str, Any]) -> None:
    if case["valid"]:
        assert actions_of(case["name"])("pay") == f"{case['name']}/pay"
    else:
        with pytest.raises(TypeError, match="server"):
            actions_of(case["name"])


class AskedError(Exception):
    """Ends a call at the question for the service."""


class NobodysGuard:
    """A guard that keeps its question, and decides nothing."""

    asked: AuthorizeCall

    async def authorize_async(self, call: AuthorizeCall) -> Authority | Refused:
        self.asked = call
        raise AskedError


def decided(guard: object, rule: object, params: dict[str, Any]) -> Any:
    calls: GuardedCalls[object] = GuardedCalls(
        cast(Guard, guard), {"pay": rule}, "bank", None, (), lambda: None
    )
    return asyncio.run(
        calls.decide(
            ToolCall(
                name=params.get("name"),
                arguments=params.get("arguments"),
                input_responses=params.get("inputResponses", ABSENT),
                params=params,
                meta=params.get("_meta"),
            )
        )
    )


def outcome_of(rule: object, params: dict[str, Any]) -> dict[str, object]:
    """Returns the refusal of a call, or what its proof must be bound to."""
    guard = NobodysGuard()
    try:
        found = decided(guard, rule, params)
    except AskedError:
        read = read_call(guard.asked)
        question = None if isinstance(read, str) else question_of(read, Verifier("v-1", "w-1"))
        if read == "malformed_proof" or question is None or isinstance(question, str):
            return {"unproven": True}
        assert question.operation is not None
        assert not isinstance(read, str)
        return {"operation": dict(question.operation), "context": dict(read.context)}
    assert isinstance(found, ToolRefusal)
    return {"refusal": {"text": found.text, "_meta": found.meta}}


@cases("calls")
def test_calls(case: dict[str, Any]) -> None:
    assert outcome_of(case["rule"], json.loads(case["params"])) == case["outcome"]


@cases("refusals")
def test_refusals(case: dict[str, Any], service: Service) -> None:
    service.answer = lambda _: [http(case["status"], case["answer"])]
    params = {"name": "pay", "_meta": {"io.deputize/authority": ENTRY}}
    found = decided(service.guard(), {"scope": "payments:send"}, params)
    assert {"text": found.text, "_meta": found.meta} == case["refusal"]


@cases("names")
def test_names(case: dict[str, Any]) -> None:
    assert name_in(case["meta"]) == case["found"]
