"""Decisions about the calls of an MCP server's tools, for each library that serves them."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from ..authority import Authority, Refused
from ..guard import Guard
from ..operation import Operation
from ..payload import plain_copy
from ..principals import Principals
from ..protocol.plain import is_object
from ..question import AuthorizeCall
from ..settings import demand
from .refusals import ToolRefusal, guard_refusal, own_refusal
from .rules import CallFacts, RuleFault, ScopeRule, read_rules
from .wire import OPEN_METHODS, actions_of, authority_in, input_of

Token = TypeVar("Token")

# Everything else in the parameters would be input that the proof does not cover.
_CALL_MEMBERS = ("name", "arguments", "_meta", "inputResponses", "requestState")
_current: ContextVar[Authority | None] = ContextVar("deputize_authority", default=None)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call, as it arrived.

    `params`: the parameters of the message. `meta`: their `_meta`. `input_responses`: may be `ABSENT`.
    """

    name: object
    arguments: object
    input_responses: object
    params: Mapping[str, object]
    meta: object


class GuardedCalls(Generic[Token]):
    """Decides about the calls of one server. Raises TypeError for invalid settings."""

    def __init__(
        self,
        guard: Guard,
        rules: object,
        server: str,
        principals: Callable[[Token | None], Principals | Awaitable[Principals]] | None,
        open_methods: Collection[str],
        token: Callable[[], Token | None],
    ) -> None:
        demand(hasattr(guard, "authorize_async"), "guard: must be a Guard")
        demand(principals is None or callable(principals), "principals: must be a function")
        demand(not isinstance(open_methods, str), "open_methods: must be a list of methods")
        demand("tools/call" not in open_methods, "open_methods: tools/call has rules instead")
        self._guard = guard
        self._rules = read_rules(rules)
        self._action_of = actions_of(server)
        self._principals = principals
        self._open = frozenset((*OPEN_METHODS, *open_methods))
        self._token = token

    def is_open(self, method: str | None) -> bool:
        """Returns whether a method needs no proof."""
        return method in self._open

    async def decide(self, call: ToolCall) -> Authority | ToolRefusal | Literal["open"]:
        """Returns the authority for a call, or the refusal to return as its result."""
        rule = self._rules.get(call.name) if isinstance(call.name, str) else None
        if rule is None:
            return own_refusal("tool_without_rule")
        if rule == "open":
            return "open"
        facts = _facts_of(call, rule)
        if isinstance(facts, str):
            return own_refusal(facts, rule.scope)
        found = await self._authorize(self._asked(call, rule, facts))
        return guard_refusal(found.record) if isinstance(found, Refused) else found

    def _asked(self, call: ToolCall, rule: ScopeRule, facts: CallFacts) -> AuthorizeCall:
        """Returns the question for the service.

        A proof may name no resource and no path: the service then denies if a certificate limits them. A
        proof that names others counts as no proof.
        """
        given = authority_in(call.meta)
        is_same = _is_same(given, "resource_id", facts.resource) and _is_same(
            given, "requested_path", facts.path
        )
        operation = Operation(
            action=self._action_of(str(call.name)),
            invocation_id=_text(given.get("invocation_id")) or "",
            agent_id=_text(given.get("agent_id")),
            resource_id=facts.resource if "resource_id" in given else None,
            requested_path=facts.path if "requested_path" in given else None,
        )
        context = {"amount": facts.amount, "currency": facts.currency}
        principals = self._principals
        return AuthorizeCall(
            required_scope=rule.scope,
            proof=given if is_same else None,
            payload=input_of(call.arguments, call.input_responses),
            operation=operation,
            context={name: value for name, value in context.items() if value is not None},
            principals=None if principals is None else lambda: principals(self._token()),
        )

    async def _authorize(self, asked: AuthorizeCall) -> Authority | Refused:
        """Waits for the decision. If the call is cancelled in the meantime, reports that nothing was done."""
        deciding = asyncio.get_running_loop().create_task(self._guard.authorize_async(asked))
        try:
            return await asyncio.shield(deciding)
        except asyncio.CancelledError:
            deciding.add_done_callback(_abandon)
            raise


def current_authority() -> Authority:
    """Returns the authority of the call that runs the tool. Raises LookupError if its rule is open."""
    authority = _current.get()
    if authority is None:
        raise LookupError("no guarded tool is running")
    return authority


@contextmanager
def acting(authority: Authority | None) -> Generator[None, None, None]:
    """Runs a tool with its authority. Reports the outcome `failed` if the tool raises."""
    token = _current.set(authority)
    try:
        yield
    except BaseException as error:
        if authority is not None:
            authority.report("failed", type(error).__name__)
        raise
    finally:
        _current.reset(token)


def allowed_input(authority: Authority) -> tuple[dict[str, Any], Any]:
    """Returns a new copy of the arguments and input responses to which the proof is bound."""
    payload: Any = plain_copy(authority.payload)
    return payload["arguments"], payload.get("inputResponses")


def _facts_of(call: ToolCall, rule: ScopeRule) -> CallFacts | RuleFault | Literal["call_unsupported"]:
    if any(name not in _CALL_MEMBERS for name in call.params):
        return "call_unsupported"
    if call.arguments is None:
        return rule.facts_of({})
    return rule.facts_of(call.arguments) if is_object(call.arguments) else "argument_invalid"


def _is_same(given: Mapping[str, Any], name: str, value: str | None) -> bool:
    return name not in given or (isinstance(given[name], str) and given[name] == value)


def _abandon(deciding: "asyncio.Future[Authority | Refused]") -> None:
    if deciding.cancelled() or deciding.exception() is not None:
        return
    found = deciding.result()
    if isinstance(found, Authority):
        found.report("not_attempted", "the call was cancelled")


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
