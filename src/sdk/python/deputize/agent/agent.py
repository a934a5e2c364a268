"""An agent that acts with authority from a person."""

import asyncio
import re
import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Self
from uuid import uuid4

from ..operation import BoundOperation, Operation, Verifier, bind_operation, describe_operation
from ..payload import ABSENT
from ..question import demand_scope
from ..service.exchange import Exchanger
from ..settings import GuardSettings, Service, demand
from .asking import Ask, Asker, DeniedAction, Question, check_options
from .errors import Unavailable, unanswered
from .proving import ActionProof, ReadAction, read_action
from .request import Request, described_operation, read_request
from .response import Response, refusal_of
from .service import AgentService
from .tools import Input_contra, Output_co, Tool, ToolCall
from .verifiers import AgentVerifier, Verifiers, check_expected, read_place, read_verifier, read_verifiers

# Leaves room for the suffix of a request, and contains none, so that no two calls share an id.
_TOOL_CALL_ID = re.compile(r"[\x21-\x7d]{1,240}")
_MOST_BYTES = 16 * 1024 * 1024


class Agent:
    """Sends requests with proofs. Raises TypeError for invalid settings.

    - `verifiers`: the verifier of each application, by the application's address, or by `mcp:<server>` for an
      MCP server. `own` is the connection of the API key. The agent calls no address without a verifier
    - `agent_id`: the agent. If absent, the API key must be the agent's own
    - `timeout`: seconds for one complete exchange with the service, and with an application
    - `pauses`: seconds before a repetition, if nothing was done
    - `on_ask`: called in another thread for each question that needs a person's decision, to show its `url`.
      Must not raise

    Does not connect before the first call. Methods that end in `_async` are for callers in an event loop.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str | Callable[[], str],
        verifiers: Verifiers,
        *,
        agent_id: str | None = None,
        word: str = "service",
        timeout: float = 10.0,
        ssl_context: ssl.SSLContext | None = None,
        pauses: Sequence[float] = (0.5, 2.0),
        on_ask: Callable[[Question], object] = lambda _: None,
    ) -> None:
        GuardSettings(word=word, timeout=timeout)
        service = Service(base_url, api_key, word)
        self._header = service.header
        self._timeout = timeout
        self._pauses = tuple(pauses)
        self._exchanger = Exchanger(ssl_context)
        self._service = AgentService(service, self._exchanger, agent_id, timeout, self._pauses)
        self._asker = Asker(self._service, on_ask)
        self._verifier_of = read_verifiers(verifiers)

    def close(self) -> None:
        """Cancels all calls, and closes the connections. `with Agent(…)` closes it."""
        self._exchanger.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def fetch(
        self,
        url: str,
        *,
        scope: str,
        method: str | None = None,
        body: object = ABSENT,
        headers: Mapping[str, str] | None = None,
        action: str | None = None,
        resource_id: str | None = None,
        session_id: str | None = None,
        invocation_id: str | None = None,
        cert_id: str | None = None,
        verifier: Verifier | None = None,
        ask: Ask | None = None,
    ) -> Response:
        """Sends a request with a proof of exactly this request.

        Returns the application's response, even an error of the application. Raises an `AgentError` for a
        refusal, and TypeError for invalid arguments. Repeats a call only after a refusal that says that
        nothing was done. Follows no redirect.

        - `body`: plain data, which is sent as canonical JSON, or bytes, which are sent unchanged
        - `action`: its name, exactly as the application binds it. Defaults to the method
        - `invocation_id`: pass the id of an earlier call to repeat that call
        - `cert_id`: the certificate to present, instead of the newest that grants the scope
        - `verifier`: the verifier that the caller expects
        - `ask`: how to ask a person if the action is denied. Without it, the agent asks nobody
        """
        request = read_request(url, scope, method, body, headers)
        check_options(ask, verifier, invocation_id)
        operation = described_operation(request, action, resource_id, session_id, invocation_id)
        return self._exchanger.start(self._act(request, operation, scope, cert_id, verifier, ask)).result()

    async def fetch_async(
        self,
        url: str,
        *,
        scope: str,
        method: str | None = None,
        body: object = ABSENT,
        headers: Mapping[str, str] | None = None,
        action: str | None = None,
        resource_id: str | None = None,
        session_id: str | None = None,
        invocation_id: str | None = None,
        cert_id: str | None = None,
        verifier: Verifier | None = None,
        ask: Ask | None = None,
    ) -> Response:
        """Does the same as `fetch`."""
        request = read_request(url, scope, method, body, headers)
        check_options(ask, verifier, invocation_id)
        operation = described_operation(request, action, resource_id, session_id, invocation_id)
        acting = self._exchanger.start(self._act(request, operation, scope, cert_id, verifier, ask))
        return await asyncio.wrap_future(acting)

    def prove(
        self,
        at: str | Verifier,
        *,
        scope: str,
        action: str,
        payload: object = ABSENT,
        resource_id: str | None = None,
        requested_path: str | None = None,
        invocation_id: str | None = None,
        ask: Ask | None = None,
    ) -> ActionProof:
        """Returns a proof of exactly this action, for code that sends it itself.

        Raises an `AgentError` if the service makes none, and TypeError for invalid arguments.

        - `at`: the application's address in the agent's settings, its verifier, or `own`
        - `payload`: the input of the action, plain data or bytes
        - `ask`: how to ask a person if the service makes no proof. Without it, the agent asks nobody
        """
        read = read_action(scope, action, payload, resource_id, requested_path, invocation_id, ask)
        return self._exchanger.start(self._prove(self._named(at), read)).result()

    async def prove_async(
        self,
        at: str | Verifier,
        *,
        scope: str,
        action: str,
        payload: object = ABSENT,
        resource_id: str | None = None,
        requested_path: str | None = None,
        invocation_id: str | None = None,
        ask: Ask | None = None,
    ) -> ActionProof:
        """Does the same as `prove`."""
        read = read_action(scope, action, payload, resource_id, requested_path, invocation_id, ask)
        return await asyncio.wrap_future(self._exchanger.start(self._prove(self._named(at), read)))

    def is_own_link(self, link: object) -> bool:
        """Returns whether a link leads to the agent's own service."""
        return isinstance(link, str) and self._service.is_own_link(link)

    def cancel_ask(self, task_id: str) -> None:
        """Withdraws a question that no person has decided. Raises an `AgentError` if there is none."""
        self._exchanger.start(self._service.cancel_asked(task_id)).result()

    async def cancel_ask_async(self, task_id: str) -> None:
        """Does the same as `cancel_ask`."""
        await asyncio.wrap_future(self._exchanger.start(self._service.cancel_asked(task_id)))

    def tool(
        self, fn: Callable[[Input_contra, ToolCall], Output_co], scope: str
    ) -> Tool[Input_contra, Output_co]:
        """Returns a function for an agent framework.

        It runs `fn`, sync or async, with the input of the model and a `ToolCall` that has the tool's scope.
        The model cannot choose the scope.
        """
        demand(callable(fn), "fn: must be a function")
        demand_scope(scope, "scope")

        def run(given: Input_contra, /, *, invocation_id: str | None = None) -> Output_co:
            call_id = str(uuid4()) if invocation_id is None else invocation_id
            is_id = _TOOL_CALL_ID.fullmatch(call_id) is not None
            demand(is_id, "invocation_id: must have 1 to 240 visible ASCII characters without ~")
            return fn(given, ToolCall(self, scope, call_id))

        return run

    def _named(self, at: str | Verifier) -> AgentVerifier | Literal["own"]:
        if isinstance(at, str):
            return "own" if at == "own" else self._verifier_of(read_place(at))
        return read_verifier(at, "at")

    async def _prove(self, named: AgentVerifier | Literal["own"], action: ReadAction) -> ActionProof:
        own = await self._service.read_self()
        operation = bind_operation(
            action.described,
            agent_id=own.agent_id,
            required_scope=action.scope,
            verifier=own.own if named == "own" else named,
            payload_digest=action.digest,
        )
        connection_id = None if named == "own" else named.connection_id

        async def present(bound: BoundOperation, approved: str | None) -> str:
            return await self._service.present(bound, action.scope, connection_id, approved)

        denied = DeniedAction(action.ask, operation, action.scope, action.payload)
        proof_ref = await self._asker.act_or_ask(denied, present)
        return ActionProof(proof_ref, own.agent_id, operation["invocation_id"])

    async def _act(
        self,
        request: Request,
        described: Operation,
        scope: str,
        cert_id: str | None,
        expected: Verifier | None,
        ask: Ask | None,
    ) -> Response:
        named = self._verifier_of(request.url)
        wanted = None if expected is None else read_verifier(expected, "verifier")
        if named != "own":
            check_expected(wanted, named)
        own = await self._service.read_self()
        verifier = own.own if named == "own" else named
        check_expected(wanted, verifier)
        operation = bind_operation(
            described,
            agent_id=own.agent_id,
            required_scope=scope,
            verifier=verifier,
            payload_digest=request.digest,
        )
        connection_id = None if named == "own" else named.connection_id

        async def act(bound: BoundOperation, approved: str | None) -> Response:
            for pause in (*self._pauses, None):
                proof = await self._service.present(bound, scope, connection_id, approved or cert_id)
                response = await self._send(request, bound, scope, proof)
                refusal = refusal_of(response, bound["invocation_id"])
                if refusal is None:
                    return response
                if not isinstance(refusal, Unavailable) or pause is None:
                    raise refusal
                await asyncio.sleep(pause)
            raise AssertionError("unreachable")

        return await self._asker.act_or_ask(DeniedAction(ask, operation, scope, request.payload), act)

    async def _send(self, request: Request, operation: BoundOperation, scope: str, proof: str) -> Response:
        headers = request.headers.copy()
        headers[self._header("proof")] = proof
        headers[self._header("invocation-id")] = operation["invocation_id"]
        headers[self._header("agent-id")] = operation["agent_id"]
        headers[self._header("operation")] = describe_operation(operation, scope)
        headers.pop(self._header("session-id"), None)
        if operation["session_id"]:
            headers[self._header("session-id")] = operation["session_id"]
        chunks, is_sent = bytearray(), False

        async def trace(event: str, _: object) -> None:
            nonlocal is_sent
            is_sent = is_sent or event.endswith("send_request_headers.started")

        client = self._exchanger.client()
        parts: dict[str, Any] = {"headers": headers, "content": request.body or None}
        parts["extensions"] = {"trace": trace}
        try:
            async with asyncio.timeout(self._timeout):
                async with client.stream(request.method, request.url, **parts) as found:
                    async for chunk in found.aiter_raw():
                        chunks += chunk
                        if len(chunks) > _MOST_BYTES:
                            raise ValueError("the response is too long")
        except Exception as error:
            raise unanswered(operation["invocation_id"], is_sent=is_sent) from error
        return Response(found.status_code, found.headers, bytes(chunks))
