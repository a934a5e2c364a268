"""Reports of outcomes, in the background."""

import asyncio
import json
import unicodedata
from dataclasses import dataclass

from .authority import Outcome
from .faults import GuardFault
from .service.exchange import Answer, Exchanger
from .settings import GuardSettings, Service

_PAUSES = (0.0, 0.5, 2.0)
_LONGEST_DETAIL = 500


@dataclass(frozen=True, slots=True)
class OutcomeReport:
    """The outcome of an operation that the service allowed."""

    invocation_id: str
    receipt_id: str
    outcome: Outcome
    detail: str | None
    occurred_at: str


class OutcomeReporter:
    """Sends each outcome until the service accepts it, at most three times.

    A repeated report is safe, because the service gives the same response to it. The reporter gives up early
    if the response would stay the same. When it gives up, it calls `on_fault`.
    """

    def __init__(self, service: Service, settings: GuardSettings, exchanger: Exchanger) -> None:
        self._service = service
        self._settings = settings
        self._exchanger = exchanger

    def report(self, report: OutcomeReport) -> None:
        self._exchanger.start_in_background(self._deliver(report))

    async def _deliver(self, report: OutcomeReport) -> None:
        status: int | None = None
        for pause in _PAUSES:
            await asyncio.sleep(pause)
            status = await self._attempt(report)
            if status == 200:
                return
            if status is not None and status != 429 and status < 500:
                break
        fault = GuardFault(
            "outcome_not_reported", invocation_id=report.invocation_id, outcome=report.outcome, status=status
        )
        self._settings.on_fault(fault)

    async def _attempt(self, report: OutcomeReport) -> int | None:
        key = self._service.key()
        if key is None:
            return None
        body = {"outcome": report.outcome, "receipt_id": report.receipt_id, "occurred_at": report.occurred_at}
        if report.detail is not None:
            body["detail"] = _plain(report.detail)
        url = self._service.address("invocations", report.invocation_id, "outcome")
        headers = {self._service.header("api-key"): key}
        sent = json.dumps(body).encode()
        exchange = await self._exchanger.exchange(url, headers, sent, self._settings.timeout)
        return exchange.status if isinstance(exchange, Answer) else None


def _plain(detail: str) -> str:
    """Converts a detail to a form that the service accepts: well-formed, short, no control characters."""
    normal = unicodedata.normalize("NFC", detail)
    kept = "".join(" " if unicodedata.category(each) == "Cc" else each for each in normal)
    # The service counts UTF-16 units, of which a character beyond the BMP has two.
    units = kept.encode("utf-16-le", "surrogatepass")[: 2 * _LONGEST_DETAIL]
    return units.decode("utf-16-le", "replace")
