"""The agent's calls of the service. None of their errors contains the API key."""

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx2

from ..operation import BoundOperation
from ..protocol.plain import is_object
from ..service.exchange import Answer, Exchanger
from ..service.own_key import OWN_KEY_PATH, LookUp, read_object, read_own_key
from ..settings import Service, demand
from .errors import AgentError, Unavailable, WrongVerifier, refusal_error
from .verifiers import AgentVerifier

_TRANSIENT = (429, 500, 502, 503, 504)
# The longest wait in seconds that a 429 can ask for. After a longer one, the agent raises the error.
_LONGEST_WAIT = 30.0
_ASKING = "access-requests"
_NO_ANSWER = "service_unavailable"
_CODE = re.compile("[a-z_]{1,64}", re.ASCII)
_SECONDS = re.compile("[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class Reply:
    """A response of the service. `wait`: after these seconds, the call may be repeated."""

    status: int
    body: Mapping[str, Any]
    wait: float


@dataclass(frozen=True, slots=True)
class Self:
    """The agent and its connection, as the service knows them."""

    connection_id: str
    agent_id: str
    own: AgentVerifier


class AgentService:
    """Runs only in the thread of `exchanger`."""

    def __init__(
        self,
        service: Service,
        exchanger: Exchanger,
        agent_id: str | None,
        timeout: float,
        pauses: Sequence[float],
    ) -> None:
        self._service = service
        self._exchanger = exchanger
        self._agent_id = agent_id
        self._timeout = timeout
        self._pauses = pauses
        self._look_up = LookUp(self._read_self)

    async def read_self(self) -> Self:
        """Returns the ids of the API key."""
        return await self._look_up.get(self._key())

    async def present(
        self, operation: BoundOperation, scope: str, connection_id: str | None, cert_id: str | None
    ) -> str:
        """Returns a `proof_ref` of the operation. Raises `AgentError`. Repeats calls that signed nothing."""
        own = await self.read_self()
        asked: dict[str, object] = {"operation": dict(operation), "required_scope": scope}
        if connection_id is not None:
            asked["verifier_connection_id"] = connection_id
        if cert_id is not None:
            asked["cert_id"] = cert_id
        path = ("connections", own.connection_id, "agents", own.agent_id, "present")
        reply = await self._call(path, asked, operation["invocation_id"])
        proof = reply.body.get("proof_ref")
        if reply.status == 200 and isinstance(proof, str) and proof:
            return proof
        raise _refused(reply.body, operation["invocation_id"])

    async def ask(self, question: object) -> Reply | None:
        """Files a request. Returns none if the agent has the authority already. Raises `AgentError`."""
        reply = await self._call((_ASKING,), question, None, fault=_NO_ANSWER)
        if reply.status == 202:
            return reply
        if _code_of(reply.body) == "already_delegated":
            return None
        raise _refused(reply.body, None)

    async def read_asked(self, task_id: str, seconds: int) -> Reply | None:
        """Returns a request, after its decision or the seconds.

        Repeat the call unless the status is 200. Raises `AgentError`.
        """
        url = f"{self._service.address(_ASKING, task_id)}?wait={seconds}"
        headers = {self._service.header("api-key"): self._key()}
        answer = await self._exchanger.exchange(url, headers, None, self._timeout + seconds)
        if not isinstance(answer, Answer):
            return None
        reply = _read(answer)
        if reply.status in (200, *_TRANSIENT):
            return reply
        raise _refused(reply.body, None)

    async def cancel_asked(self, task_id: str) -> None:
        """Withdraws a request. Raises `AgentError`."""
        reply = await self._call((_ASKING, task_id, "cancel"), {}, None, fault=_NO_ANSWER)
        if reply.status != 200:
            raise _refused(reply.body, None)

    def is_own_link(self, link: str) -> bool:
        """Returns whether a link leads to the service's own origin."""
        try:
            found, own = httpx2.URL(link), httpx2.URL(self._service.address())
        except httpx2.InvalidURL:
            return False
        return (found.scheme, found.host, found.port) == (own.scheme, own.host, own.port)

    async def _read_self(self, key: str) -> Self:
        reply = await self._call(OWN_KEY_PATH, None, None, key)
        own = read_own_key(reply.body) if reply.status == 200 else None
        if own is None:
            raise _refused(reply.body, None)
        agent_id = self._agent_id or own.agent_id
        demand(agent_id != "", "agent_id: is required, as the API key is not an agent's own")
        verifier = AgentVerifier(own.verifier.verifier_id, own.verifier.workspace_id, own.connection_id)
        return Self(own.connection_id, agent_id, verifier)

    def _key(self) -> str:
        key = self._service.key()
        demand(key is not None, "api_key: the function returned no key")
        return key or ""

    async def _call(
        self,
        path: tuple[str, ...],
        body: object,
        invocation_id: str | None,
        key: str | None = None,
        fault: str = "proof_unavailable",
    ) -> Reply:
        sent = None if body is None else json.dumps(body).encode()
        url = self._service.address(*path)
        code = fault
        for pause in (*self._pauses, None):
            headers = {self._service.header("api-key"): key or self._key()}
            answer = await self._exchanger.exchange(url, headers, sent, self._timeout)
            if isinstance(answer, Answer) and answer.status not in _TRANSIENT:
                return _read(answer)
            limited = _read(answer) if isinstance(answer, Answer) and answer.status == 429 else None
            code, wait = (fault, 0.0) if limited is None else (_code_of(limited.body), limited.wait)
            if pause is None or wait > _LONGEST_WAIT:
                break
            await asyncio.sleep(max(pause, wait))
        raise Unavailable(code, "The service made no proof. Nothing was done.", invocation_id)


def _read(answer: Answer) -> Reply:
    wait = float(answer.retry_after) if _SECONDS.fullmatch(answer.retry_after) else 0.0
    return Reply(answer.status, read_object(answer.body), wait)


def _code_of(body: Mapping[str, Any]) -> str:
    error = body.get("error")
    given = error.get("code") if is_object(error) else None
    return given if isinstance(given, str) and _CODE.fullmatch(given) else "unexpected_answer"


def _refused(body: Mapping[str, Any], invocation_id: str | None) -> AgentError:
    code = _code_of(body)
    if code == "verifier_mismatch":
        return WrongVerifier(code, "The service knows no such verifier. Nothing was sent.", invocation_id)
    known = None
    if code == "no_active_delegation":
        known = refusal_error(code, invocation_id, body.get("evaluation_id"))
    sentence = "The service refused to make a proof. Nothing was done."
    return known or AgentError(code, sentence, invocation_id)
