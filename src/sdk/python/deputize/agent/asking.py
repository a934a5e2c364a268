"""Questions of an agent to a person."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, TypeVar, cast

from ..operation import BoundOperation, Verifier
from ..settings import demand
from .errors import AgentError, AwaitingApproval, Denied
from .service import AgentService, Reply

T = TypeVar("T")

# The longest wait in seconds that the service permits in one call.
_LONGEST_POLL = 10
_MOST_PAYLOAD = 16_384
_LONGEST_WAIT = 86_400.0
_PAUSE, _SHORTEST_PAUSE, _LONGEST_PAUSE = 5.0, 1.0, 30.0
# The end of the id of an action that is sent again after an application denied it.
_AGAIN = "~asked"
_LONGEST_ID = 256 - len(_AGAIN)
_STATES = ("pending", "approved", "denied", "expired", "cancelled", "failed")


@dataclass(frozen=True, slots=True)
class Ask:
    """How an agent asks a person about a denial. An agent that gets no `Ask` asks nobody.

    Raises TypeError for invalid values.

    - `purpose`: the reason, in one line of at most 300 characters. People read it as the agent's own words
    - `wait`: seconds to wait for the decision. By default, the agent asks and raises `AwaitingApproval`
    - `until`: the end of the authority that the agent asks for. By default, the person chooses it
    - `show_payload`: whether the person can read the input of the action, up to 16 KiB of plain data
    """

    purpose: str
    wait: float = 0.0
    until: datetime | None = None
    show_payload: bool = True

    def __post_init__(self) -> None:
        is_text = isinstance(cast(object, self.purpose), str) and self.purpose.strip() != ""
        demand(is_text, "ask.purpose: must be a line of text")
        is_number = isinstance(cast(object, self.wait), int | float) and not isinstance(self.wait, bool)
        demand(
            is_number and 0 <= self.wait <= _LONGEST_WAIT, f"ask.wait: must be from 0 to {_LONGEST_WAIT:.0f}"
        )
        demand(isinstance(cast(object, self.show_payload), bool), "ask.show_payload: must be true or false")
        until = cast(object, self.until)
        is_aware = until is None or (isinstance(until, datetime) and until.utcoffset() is not None)
        demand(is_aware, "ask.until: must be a datetime with a time zone")


@dataclass(frozen=True, slots=True)
class Question:
    """A question for which a person's decision is needed.

    `url`: the page on which a person decides, or `None` if the service is not below the agent's `base_url`.
    """

    task_id: str
    scope: str
    url: str | None


@dataclass(frozen=True, slots=True)
class DeniedAction:
    """An action, and how to ask if it is denied. `payload`: canonical JSON, or nothing to read."""

    ask: Ask | None
    operation: BoundOperation
    scope: str
    payload: bytes | None


class Asker:
    """Asks people. Runs only in the thread of the service's exchanger."""

    def __init__(self, service: AgentService, on_ask: Callable[[Question], object]) -> None:
        self._service = service
        self._on_ask = on_ask

    async def act_or_ask(
        self, action: DeniedAction, act: Callable[[BoundOperation, str | None], Awaitable[T]]
    ) -> T:
        """Runs `act`, and once more after a person approved the action.

        It asks only if the service or the application denies the action, an approval could resolve that, and
        there is an `Ask`. It never asks twice. Raises `AwaitingApproval` if nobody decides in time, and
        otherwise the denial with its `ask_fault`.
        """
        try:
            return await act(action.operation, None)
        except Denied as denial:
            if action.ask is None or denial.evaluation_id is None:
                raise
            again = _operation_after(denial, action.operation)
            try:
                approved = await self._decided(action, action.ask, again, denial)
            except AwaitingApproval:
                raise
            except AgentError as error:
                denial.ask_fault = error.code
                raise denial from None
        return await act(again, approved)

    async def _decided(
        self, action: DeniedAction, ask: Ask, again: BoundOperation, denial: Denied
    ) -> str | None:
        """Returns the approved certificate. Raises an `AgentError` whose code says why there is none."""
        end = time.monotonic() + ask.wait
        filed = await self._service.ask(_question_of(action, ask, denial))
        if filed is None:
            return None
        task = _read_task(filed)
        url = task.url if isinstance(task.url, str) and self._service.is_own_link(task.url) else None
        question = Question(task.id, action.scope, url)
        if task.status == "pending":
            self._on_ask(question)
        following, is_last = 0.0, ask.wait == 0
        while task.status == "pending":
            if is_last:
                raise AwaitingApproval(question.task_id, url, again["invocation_id"], denial) from denial
            is_last = following >= end
            await asyncio.sleep(max(0.0, min(following, end) - time.monotonic()))
            began = time.monotonic()
            seconds = min(_LONGEST_POLL, max(0, int(end - began)))
            read = await self._service.read_asked(task.id, seconds)
            asked_pause = (read.wait if read is not None else 0.0) or _PAUSE
            following = began + min(max(asked_pause, _SHORTEST_PAUSE), _LONGEST_PAUSE)
            task = _read_task(read) if read is not None and read.status == 200 else task
        if task.status != "approved":
            raise AgentError(task.status, "The person did not approve.")
        return task.cert_id


def check_options(ask: object, verifier: object, invocation_id: str | None) -> None:
    """Raises TypeError for options of other types, and for an id to which `ask` could add no end."""
    demand(ask is None or isinstance(ask, Ask), 'ask: must be an Ask, such as Ask("Refund order 7")')
    demand(verifier is None or isinstance(verifier, Verifier), "verifier: must be a Verifier")
    is_short = ask is None or invocation_id is None or len(invocation_id) <= _LONGEST_ID
    demand(is_short, f"invocation_id: must have at most {_LONGEST_ID} characters with ask")


def _operation_after(denial: Denied, operation: BoundOperation) -> BoundOperation:
    """Returns the operation to repeat.

    An application has decided the action with its first id and would repeat that decision, so the operation
    then gets another id, which follows from the first one.
    """
    if denial.code == "no_active_delegation":
        return operation
    return MappingProxyType({**operation, "invocation_id": f"{operation['invocation_id']}{_AGAIN}"})


def _question_of(action: DeniedAction, ask: Ask, denial: Denied) -> dict[str, object]:
    """Returns the question for the service.

    The person reads a payload only if its hash is the operation's.
    """
    access: dict[str, object] = {"scopes": [action.scope]}
    if ask.until is not None:
        until = ask.until.astimezone(UTC).isoformat(timespec="milliseconds")
        access["requested_until"] = until.replace("+00:00", "Z")
    context: dict[str, object] = {"purpose": ask.purpose, "operation": dict(action.operation)}
    if ask.show_payload and action.payload is not None and len(action.payload) <= _MOST_PAYLOAD:
        context["payload"] = json.loads(action.payload)
    return {
        "subject": {"type": "agent", "id": action.operation["agent_id"]},
        "denial": {"evaluation_id": denial.evaluation_id},
        "requested_access": access,
        "context": context,
    }


@dataclass(frozen=True, slots=True)
class _Task:
    id: str
    status: str
    url: object
    cert_id: str | None


def _read_task(reply: Reply) -> _Task:
    task, approval = _member(reply.body, "task"), _member(_member(reply.body, "result"), "approval")
    task_id, status, cert_id = task.get("id"), task.get("status"), approval.get("id")
    if not isinstance(task_id, str) or not isinstance(status, str) or status not in _STATES:
        raise AgentError("unexpected_answer", "The service did not take the question.")
    url = _member(task, "links").get("console")
    return _Task(task_id, status, url, cert_id if isinstance(cert_id, str) else None)


def _member(of: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = of.get(name)
    return cast(Mapping[str, Any], found) if isinstance(found, dict) else {}
