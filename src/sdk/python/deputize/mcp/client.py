"""Proofs of the calls that an MCP client sends, for `mcp` 1.x and 2.x."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NotRequired, TypedDict, TypeVar, cast

from ..agent import Agent, Ask, Verifier
from ..agent.asking import check_options
from ..payload import ABSENT, frozen_copy, plain_copy
from ..protocol.errors import ProtocolError
from ..protocol.plain import is_mapping
from ..question import demand_scope
from ..settings import demand
from .invocations import invocations_of
from .wire import AUTHORITY, actions_of, authority_in, input_of, name_in, without_authority

Session = TypeVar("Session")


class ProvenTool(TypedDict):
    """The scope of a tool. `resource` and `path` name the arguments that the server's rule also names."""

    scope: str
    resource: NotRequired[str]
    path: NotRequired[str]


ToolScope = str | ProvenTool


@dataclass(frozen=True, slots=True)
class _Scope:
    scope: str
    resource: str | None
    path: str | None


def with_authority(
    session: Session,
    agent: Agent,
    *,
    server: str,
    scopes: Mapping[str, ToolScope],
    verifier: Verifier | Literal["own"] | None = None,
    ask: Ask | None = None,
) -> Session:
    """Makes a client's session send each call of a tool in `scopes` with a proof of exactly this call.

    Changes `call_tool` of this session, and returns the session. The proof covers what the client sends, and
    follows no answer of the server. If the service makes no proof, the call raises an `AgentError`, and
    nothing is sent. Raises TypeError for invalid settings.

    - `server`: the server's name, as its guard has it. The agent's `verifiers` know it as `mcp:<server>`
    - `scopes`: the scope of each tool that needs a proof. All other tools are called without one
    - `verifier`: the server's verifier, instead of the one in the agent's settings
    - `ask`: how to ask a person if the service makes no proof. Without it, the agent asks nobody. Nobody is
      asked after a refusal of the server, which is a result of the call
    """
    known = _read_scopes(scopes)
    check_options(ask, None if verifier == "own" else verifier, None)
    action_of = actions_of(server)
    invocations = invocations_of(agent)
    holder = cast(Any, session)
    send: Callable[..., Awaitable[Any]] = holder.call_tool

    async def call_tool(
        name: str,
        arguments: dict[str, Any] | None = None,
        *others: Any,
        input_responses: Any = None,
        request_state: str | None = None,
        meta: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Any:
        rule = known.get(name)
        # Sessions of `mcp` 1.x have no rounds.
        rounds = {"input_responses": input_responses, "request_state": request_state}
        options |= {key: value for key, value in rounds.items() if value is not None}
        own = without_authority(None if meta is None else dict(meta))
        if rule is None:
            return _without_foreign_links(await send(name, arguments, *others, meta=own, **options), agent)
        # The copy is what the client sends, even if the caller changes its arguments in the meantime.
        sent = cast("dict[str, Any] | None", plain_copy(_frozen(arguments)))
        action = action_of(name)
        invocation = invocations.begin(action, arguments, (input_responses, request_state), name_in(meta))
        try:
            place = {
                "resource_id": _text_in(sent, rule.resource),
                "requested_path": _text_in(sent, rule.path),
            }
            proof = await agent.prove_async(
                f"mcp:{server}" if verifier is None else verifier,
                scope=rule.scope,
                action=action,
                payload=input_of(sent, _responses(input_responses)),
                invocation_id=invocation.id,
                ask=ask,
                **place,
            )
            entry: dict[str, str | None] = {
                "proof_ref": proof.proof_ref,
                "agent_id": proof.agent_id,
                "invocation_id": proof.invocation_id,
                **place,
            }
            proven = {key: value for key, value in entry.items() if value is not None}
            result = await send(name, sent, *others, meta={**(own or {}), AUTHORITY: proven}, **options)
        except BaseException:
            invocations.lose(invocation)
            raise
        return _without_foreign_links(result, agent)

    holder.call_tool = call_tool
    return session


def _read_scopes(scopes: object) -> Mapping[str, _Scope]:
    if not is_mapping(scopes):
        raise TypeError("scopes: must be a dict of scopes by tool")
    return {tool: _read_scope(f"scopes: {json.dumps(tool)}", given) for tool, given in scopes.items()}


def _read_scope(where: str, given: object) -> _Scope:
    rule = {"scope": given} if isinstance(given, str) else given
    if not is_mapping(rule):
        raise TypeError(f"{where} must be a scope, or a dict")
    demand(all(name in ("scope", "resource", "path") for name in rule), f"{where} has an unknown member")
    demand_scope(rule.get("scope"), where)
    names = [rule.get(name) for name in ("resource", "path")]
    is_named = all(name is None or (isinstance(name, str) and name != "") for name in names)
    demand(is_named, f"{where}: resource and path must be names of arguments")
    return _Scope(str(rule["scope"]), *(None if name is None else str(name) for name in names))


def _frozen(arguments: object) -> object:
    try:
        return frozen_copy(arguments)
    except ProtocolError as error:
        raise TypeError("arguments: have no canonical JSON") from error


def _responses(given: object) -> object:
    """Returns the answers of an earlier round in the form in which the session sends them."""
    if given is None:
        return ABSENT
    from mcp_types import CallToolRequestParams  # noqa: PLC0415 (only `mcp` 2.x has rounds)

    params = CallToolRequestParams(name="", input_responses=cast(Any, given))
    return params.model_dump(by_alias=True, mode="json", exclude_none=True)["inputResponses"]


def _text_in(given: Mapping[str, Any] | None, name: str | None) -> str | None:
    value = None if given is None or name is None else given.get(name)
    return value if isinstance(value, str) else None


def _without_foreign_links(result: Any, agent: Agent) -> Any:
    """Removes a request for authority that leads to another service than the agent's own."""
    meta = getattr(result, "meta", None)
    entry = authority_in(meta)
    asked = entry.get("access_request")
    if "access_request" not in entry or (is_mapping(asked) and agent.is_own_link(asked.get("endpoint"))):
        return result
    kept = {name: value for name, value in entry.items() if name != "access_request"}
    result.meta = {**(without_authority(meta) or {}), AUTHORITY: kept}
    return result
