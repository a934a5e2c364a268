"""Receives the service's webhooks by the receiver rules (specification §6)."""

import hmac
import inspect
import json
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal, NoReturn

from .protocol.plain import is_object

_TOLERANCE_SECONDS = 300
_TIMESTAMP = re.compile(r"[0-9]{1,15}")

WebhookStatus = Literal[204, 400, 401, 503]


@dataclass(frozen=True, slots=True)
class WebhookCheck:
    """The id of a genuine delivery, or the reason to respond with 401."""

    delivery_id: str | None = None
    reason: Literal["bad_signature", "stale_timestamp"] | None = None

    @property
    def ok(self) -> bool:
        return self.reason is None


@dataclass(frozen=True, slots=True)
class WebhookEvent:
    """A genuine event: its type, its whole body, and the id that identifies repeated deliveries."""

    delivery_id: str
    event: str
    body: Mapping[str, Any]


_BAD_SIGNATURE = WebhookCheck(reason="bad_signature")


def verify_webhook(
    headers: Mapping[str, str], raw_body: bytes, secret: str, *, now: float, word: str = "service"
) -> WebhookCheck:
    """Checks a webhook's signature and timestamp. Never raises for what a sender can choose.

    `X-Service-Signature` must be the lowercase hex HMAC-SHA256 of `timestamp.raw_body` under the secret. The
    timestamp must be less than 5 minutes from `now`, in Unix seconds. No signature covers the header with the
    delivery's id. So if the body contains `delivery_id`, the header must be equal. Names of headers may have
    any case. `word` replaces `service` in their names.
    """
    given = _headers_of(headers)
    signature = given.get(f"x-{word}-signature")
    timestamp = given.get(f"x-{word}-timestamp")
    delivery_id = given.get(f"x-{word}-delivery-id")
    if signature is None or timestamp is None or delivery_id is None:
        return _BAD_SIGNATURE
    # Anybody could sign with an empty secret, such as an environment variable that is not set.
    if secret == "" or not _TIMESTAMP.fullmatch(timestamp):
        return _BAD_SIGNATURE
    signed = f"{timestamp}.".encode() + raw_body
    expected = hmac.new(secret.encode(), signed, sha256).hexdigest()
    if not hmac.compare_digest(expected.encode(), signature.encode("utf-8", "replace")):
        return _BAD_SIGNATURE
    body = _read_object(raw_body) or {}
    if "delivery_id" in body and body["delivery_id"] != delivery_id:
        return _BAD_SIGNATURE
    if abs(now - int(timestamp)) >= _TOLERANCE_SECONDS:
        return WebhookCheck(reason="stale_timestamp")
    return WebhookCheck(delivery_id=delivery_id)


class WebhookReceiver:
    """Receives deliveries. It checks the signature before it parses the body.

    `secret`: the connection's `webhook_signing_secret`, or several secrets during a rotation. `store_once`
    stores or queues an event, and ignores a `delivery_id` that it has already stored. If it raises, the
    service sends the delivery again. Only `receive_async` accepts an async `store_once`.
    """

    def __init__(
        self,
        secret: str | Sequence[str],
        store_once: Callable[[WebhookEvent], Awaitable[object] | object],
        *,
        word: str = "service",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._secrets = (secret,) if isinstance(secret, str) else tuple(secret or ())
        if not self._secrets or not all(self._secrets):
            raise TypeError("secret: must not be empty")
        if not all(_is_text(each) for each in self._secrets):
            raise TypeError("secret: must be text or a sequence of texts")
        if not callable(store_once):
            raise TypeError("store_once: must be a function")
        self._store_once = store_once
        self._word = word
        self._clock = clock

    def receive(self, headers: Mapping[str, str], raw_body: bytes) -> WebhookStatus:
        """Returns the status with which to respond. The response needs no body.

        - 204 if the event is stored, now or earlier
        - 400 for genuine bytes that are not an event, which the service does not send again
        - 401 only for an invalid signature or a stale timestamp
        - 503 if the event could not be stored
        """
        event = self._read(headers, raw_body)
        if not isinstance(event, WebhookEvent):
            return event
        try:
            stored = self._store_once(event)
        except Exception:
            return 503
        if inspect.isawaitable(stored):
            if inspect.iscoroutine(stored):
                stored.close()
            raise TypeError("store_once: an async function needs receive_async")
        return 204

    async def receive_async(self, headers: Mapping[str, str], raw_body: bytes) -> WebhookStatus:
        """Returns the same as `receive`, and waits for an async `store_once`."""
        event = self._read(headers, raw_body)
        if not isinstance(event, WebhookEvent):
            return event
        try:
            stored = self._store_once(event)
            if inspect.isawaitable(stored):
                await stored
        except Exception:
            return 503
        return 204

    def _read(self, headers: Mapping[str, str], raw_body: bytes) -> WebhookEvent | Literal[400, 401]:
        now = self._clock()
        checks = [verify_webhook(headers, raw_body, each, now=now, word=self._word) for each in self._secrets]
        genuine = next((check.delivery_id for check in checks if check.ok), None)
        if genuine is None:
            return 401
        body = _read_object(raw_body) or {}
        event = body.get("event")
        return WebhookEvent(genuine, event, body) if isinstance(event, str) else 400


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _headers_of(headers: Mapping[str, str]) -> dict[str, str]:
    """Lowers the names of headers. A header that occurs twice under two names has both values, as in Node."""
    found: dict[str, str] = {}
    for name, value in headers.items():
        lower = name.lower()
        found[lower] = f"{found[lower]}, {value}" if lower in found else value
    return found


def _read_object(raw_body: bytes) -> dict[str, Any] | None:
    try:
        body = json.loads(raw_body.decode("utf-8", "replace"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return None
    return body if is_object(body) else None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
