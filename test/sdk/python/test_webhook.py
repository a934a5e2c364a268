"""The receiver of webhooks."""

import asyncio
import hmac
from typing import Any

import pytest

from deputize.webhook import WebhookEvent, WebhookReceiver

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
NOW = 1_772_366_400
BODY = '{"event":"delegation.revoked","reason":"Zoë left"}'.encode()


def headers(body: bytes = BODY, secret: str = SECRET) -> dict[str, str]:
    signature = hmac.new(secret.encode(), f"{NOW}.".encode() + body, "sha256").hexdigest()
    return {
        "X-Service-Signature": signature,
        "X-Service-Timestamp": str(NOW),
        "X-Service-Delivery-Id": "d-1",
    }


def receiver(store_once: Any, secret: Any = SECRET, now: float = NOW) -> WebhookReceiver:
    return WebhookReceiver(secret, store_once, clock=lambda: now)


def test_returns_204_when_the_event_is_stored() -> None:
    stored: list[WebhookEvent] = []

    async def store(event: WebhookEvent) -> None:
        await asyncio.sleep(0)
        stored.append(event)

    assert receiver(stored.append).receive(headers(), BODY) == 204
    assert asyncio.run(receiver(store).receive_async(headers(), BODY)) == 204
    assert [(event.delivery_id, event.event) for event in stored] == [("d-1", "delegation.revoked")] * 2
    assert stored[0].body["reason"] == "Zoë left"
    with pytest.raises(TypeError):
        receiver(store).receive(headers(), BODY)


def test_returns_401_without_reading_the_body() -> None:
    stored: list[WebhookEvent] = []
    for found in (
        receiver(stored.append).receive(headers(secret="other"), BODY),
        receiver(stored.append).receive(headers(), BODY + b" "),
        receiver(stored.append).receive({}, BODY),
        receiver(stored.append, now=NOW + 300).receive(headers(), BODY),
    ):
        assert found == 401
    assert stored == []
    assert receiver(stored.append, ["whsec_new", SECRET]).receive(headers(), BODY) == 204


@pytest.mark.parametrize("body", [b"", b"{", b"null", b'"event"', b"[]", b"{}", b'{"event":5}', b"\xff"])
def test_returns_400_for_a_genuine_body_that_is_no_event(body: bytes) -> None:
    stored: list[WebhookEvent] = []
    assert receiver(stored.append).receive(headers(body), body) == 400
    assert stored == []


def test_returns_503_if_the_event_cannot_be_stored() -> None:
    def fail(_: WebhookEvent) -> None:
        raise OSError

    async def fail_later(event: WebhookEvent) -> None:
        fail(event)

    assert receiver(fail).receive(headers(), BODY) == 503
    assert asyncio.run(receiver(fail_later).receive_async(headers(), BODY)) == 503


@pytest.mark.parametrize("secret", ["", [], ["a", ""]])
def test_needs_a_secret(secret: Any) -> None:
    with pytest.raises(TypeError, match="secret: "):
        receiver(print, secret)
