"""Protects code, and runs it only after an explicit `allow` decision."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Literal, Self, TypeVar

from .authority import Authority, Executed, Outcome, Refused, Report, grant_authority, receipt_id_of
from .calls import awaited, finished
from .challenges import LONGEST_WAIT, Challenge, ChallengeLimit, read_challenge
from .enforcement import Finding, Refusal, Ruling, error_code_of, rule
from .faults import KEY_REFUSED, GuardFault, fault_of
from .operation import BoundOperation, Operation, Verifier
from .outcomes import OutcomeReport, OutcomeReporter
from .payload import ABSENT
from .principals import AcceptedPrincipals, Principals, read_principals, root_ids
from .proof import ProofSource
from .question import AuthorizeCall, Question, question_of, read_call
from .record import Cause, VerificationRecord, refusal_of, timestamp, verification_record
from .route import MAX_BODY_BYTES, Route
from .service.exchange import Answer, Exchange, Exchanger
from .service.own_key import OWN_KEY_PATH, LookUp, read_object, read_own_key
from .settings import GuardSettings, Service

__all__ = [
    "ABSENT",
    "Authority",
    "AuthorizeCall",
    "BoundOperation",
    "Cause",
    "Challenge",
    "Executed",
    "Finding",
    "Guard",
    "GuardFault",
    "GuardSettings",
    "Operation",
    "Outcome",
    "Principals",
    "ProofSource",
    "Refusal",
    "Refused",
    "Route",
    "VerificationRecord",
    "Verifier",
]

T = TypeVar("T")


class Guard:
    """Asks the service about each action. Raises TypeError for invalid settings.

    Does not connect before the first call. Each method ends in `_async` for callers in an event loop. Any
    fault of the request, the service or the network is a refusal, not an error. The methods raise TypeError
    if the application passed invalid arguments.
    """

    def __init__(
        self, base_url: str, api_key: str | Callable[[], str], settings: GuardSettings | None = None
    ) -> None:
        self._settings = settings or GuardSettings()
        self._service = Service(base_url, api_key, self._settings.word)
        self._exchanger = Exchanger(self._settings.ssl_context)
        self._outcomes = OutcomeReporter(self._service, self._settings, self._exchanger)
        self._own_verifier = LookUp(self._read_verifier)
        self._limit = ChallengeLimit(self._settings.challenges_per_second)
        self._principals = read_principals(self._settings.principals)

    def __call__(
        self,
        required_scope: str | Callable[[Any], str | None],
        *,
        proof: Callable[[Any], ProofSource | None] | None = None,
        payload: Callable[[Any], object] | None = None,
        operation: Callable[[Any], Operation] | bool | None = None,
        context: Callable[[Any], dict[str, str | int | float]] | None = None,
        max_body_bytes: int = MAX_BODY_BYTES,
    ) -> Any:
        """Returns FastAPI's `Depends`, for a parameter like `who: Annotated[Authority, guard("data:write")]`.

        The functions get the request (see `Route`). The application needs `GuardMiddleware`.
        """
        from .frameworks.fastapi import depends  # noqa: PLC0415 (not every application has FastAPI)

        return depends(self, Route(required_scope, proof, payload, operation, context, max_body_bytes))

    def authorize(self, call: AuthorizeCall) -> Authority | Refused:
        """Calls verify once and applies the enforcement table. Runs no action and reports no outcome."""
        return finished(self._authorize(call, is_async=False))

    async def authorize_async(self, call: AuthorizeCall) -> Authority | Refused:
        """Returns the same as `authorize`."""
        return await self._authorize(call, is_async=True)

    def run(self, call: AuthorizeCall, action: Callable[[Any, Authority], T]) -> Executed[T] | Refused:
        """Runs `action` with the read-only copy of the payload if the action is allowed.

        Then reports `executed`. If `action` raises, reports `failed` and raises the error again. An action
        that refuses for its own reasons must first call `authority.report("refused_by_receiver")`.
        """
        authority = self.authorize(call)
        if isinstance(authority, Refused):
            return authority
        try:
            value = action(authority.payload, authority)
        except BaseException as error:
            authority.report("failed", type(error).__name__)
            raise
        authority.report("executed")
        return Executed(value, authority)

    async def run_async(
        self, call: AuthorizeCall, action: Callable[[Any, Authority], Awaitable[T]]
    ) -> Executed[T] | Refused:
        """Does the same as `run`, with an async action."""
        authority = await self.authorize_async(call)
        if isinstance(authority, Refused):
            return authority
        try:
            value = await action(authority.payload, authority)
        except BaseException as error:
            authority.report("failed", type(error).__name__)
            raise
        authority.report("executed")
        return Executed(value, authority)

    def challenge(self, address: str = "") -> Challenge | None:
        """Returns a challenge of the guard's own connection, for an agent that has another API key.

        `address`: the IP address of the caller. Returns `None` beyond `challenges_per_second`, or if the
        service returns no challenge.
        """
        return finished(self._challenge(address, is_async=False))

    async def challenge_async(self, address: str = "") -> Challenge | None:
        """Returns the same as `challenge`."""
        return await self._challenge(address, is_async=True)

    def flush(self) -> None:
        """Waits until all outcomes are reported or given up. Call it before the process exits."""
        self._exchanger.flush()

    async def flush_async(self) -> None:
        """Does the same as `flush`."""
        await asyncio.to_thread(self.flush)

    def close(self) -> None:
        """Does the same as `flush`, and closes the connections to the service. `with Guard(…)` closes it."""
        self.flush()
        self._exchanger.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def header(self, name: str) -> str:
        """Returns the lower-case name of a service header, such as `x-service-proof` for `proof`."""
        return self._service.header(name)

    async def _authorize(self, call: AuthorizeCall, *, is_async: bool) -> Authority | Refused:
        asked_at = timestamp()
        principals = read_principals(call.principals)
        prepared = await self._prepare(call, is_async)
        if isinstance(prepared, str):
            if prepared == "unbindable_payload" and call.unread_body:
                self._settings.on_fault(GuardFault("body_not_read", request=call.request))
            return await self._refuse(prepared, call.required_scope, None, asked_at, None, is_async)
        question, key = prepared
        scope, operation = question.required_scope, question.operation

        async def refuse(cause: Cause, ruling: Ruling | None) -> Refused:
            return await self._refuse(cause, scope, operation, asked_at, ruling, is_async)

        ruling = rule(await self._post("verify", key, question.body, self._settings.timeout, is_async))
        found = fault_of(ruling, scope, operation, call.described, call.request)
        if found is not None:
            self._settings.on_fault(found)
        if ruling.finding != "allow" or ruling.refusal is not None:
            return await refuse(ruling.finding, ruling)
        is_replay = operation is not None and ruling.answer.get("replayed") is True
        if is_replay and self._settings.replays == "refuse":
            return await refuse("replayed", ruling)
        report = self._report_of(question, ruling)
        try:
            fault = await self._principal_fault(ruling, (self._principals, principals), is_async)
            if fault is not None:
                report("not_attempted", fault)
                return await refuse(fault, ruling)
            record = verification_record("allow", scope, operation, asked_at, ruling, None)
            if await self._retain(record, is_async):
                return grant_authority(record, scope, question.payload, report)
        except BaseException as error:
            report("not_attempted", type(error).__name__)
            raise
        report("not_attempted", "the record of the verification was not retained")
        cause: Cause = "record_not_retained"
        refusal = refusal_of(cause, ruling)
        return Refused(refusal, verification_record(cause, scope, operation, asked_at, ruling, refusal))

    async def _prepare(self, call: AuthorizeCall, is_async: bool) -> tuple[Question, str] | Cause:
        """Returns the call of verify and the API key, or the cause why the guard does not make the call."""
        read = read_call(call)
        if isinstance(read, str):
            return read
        key = self._service.key()
        if key is None:
            return "no_api_key"
        verifier = self._settings.verifier
        if verifier is None and read.operation is not None:
            reading = self._exchanger.start(self._own_verifier.get(key))
            try:
                verifier = await asyncio.wrap_future(reading) if is_async else reading.result()
            except LookupError:
                return "verifier_not_read"
        question = question_of(read, verifier)
        return question if isinstance(question, str) else (question, key)

    async def _read_verifier(self, key: str) -> Verifier:
        url, headers = self._service.address(*OWN_KEY_PATH), {self._service.header("api-key"): key}
        found = await self._exchanger.exchange(url, headers, None, self._settings.timeout)
        status = found.status if isinstance(found, Answer) else None
        own = read_own_key(read_object(found.body)) if isinstance(found, Answer) and status == 200 else None
        if own is None:
            code = error_code_of(read_object(found.body)) if isinstance(found, Answer) else None
            kind: Literal["key_refused", "verifier_not_read"] = (
                "key_refused" if status in KEY_REFUSED else "verifier_not_read"
            )
            self._settings.on_fault(GuardFault(kind, status=status, code=code))
            raise LookupError("the service did not name the verifier")
        return own.verifier

    async def _refuse(
        self,
        cause: Cause,
        scope: str | None,
        operation: BoundOperation | None,
        asked_at: str,
        ruling: Ruling | None,
        is_async: bool,
    ) -> Refused:
        refusal = refusal_of(cause, ruling)
        record = verification_record(cause, scope, operation, asked_at, ruling, refusal)
        await self._retain(record, is_async)
        return Refused(refusal, record)

    async def _retain(self, record: VerificationRecord, is_async: bool) -> bool:
        try:
            await awaited(self._settings.retain(record), is_async)
        except Exception as error:
            self._settings.on_fault(GuardFault("record_not_retained", error=error))
            return False
        return True

    async def _principal_fault(
        self, ruling: Ruling, rules: tuple[AcceptedPrincipals | None, ...], is_async: bool
    ) -> Cause | None:
        """Returns the reason why the guard must not act on an `allow` decision, if there is one."""
        human_id = ruling.answer.get("human_id")
        try:
            for accepted in rules:
                if accepted is None:
                    continue
                ids = root_ids(await awaited(accepted(), is_async)) if callable(accepted) else accepted
                if not isinstance(human_id, str) or human_id not in ids:
                    return "principal_not_accepted"
        except Exception as error:
            self._settings.on_fault(GuardFault("principals_not_read", error=error))
            return "principals_not_read"
        return None

    def _report_of(self, question: Question, ruling: Ruling) -> Report:
        receipt_id = receipt_id_of(ruling.answer)
        operation = question.operation
        is_reported = False

        def report(outcome: Outcome, detail: str | None = None) -> None:
            nonlocal is_reported
            if is_reported or operation is None or receipt_id is None:
                return
            is_reported = True
            sent = OutcomeReport(operation["invocation_id"], receipt_id, outcome, detail, timestamp())
            self._outcomes.report(sent)

        return report

    async def _challenge(self, address: str, *, is_async: bool) -> Challenge | None:
        key = self._service.key()
        if key is None or not self._limit.takes(address):
            return None
        seconds = min(self._settings.timeout, LONGEST_WAIT)
        return read_challenge(await self._post("challenge", key, b"", seconds, is_async))

    async def _post(self, path: str, key: str, body: bytes, seconds: float, is_async: bool) -> Exchange:
        url, headers = self._service.address(path), {self._service.header("api-key"): key}
        exchange = self._exchanger.post(url, headers, body, seconds)
        return await asyncio.wrap_future(exchange) if is_async else exchange.result()
