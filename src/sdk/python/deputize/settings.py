"""Settings of a guard."""

import re
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import quote, urlsplit

from .faults import GuardFault, warn_once
from .operation import Verifier, is_verifier
from .principals import Principals
from .record import VerificationRecord


def _ignore(_: object) -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardSettings:
    """Settings that a guard has besides the service's address and key. Raises TypeError for invalid values.

    - `word`: the service name, which replaces `service` in paths and header names
    - `timeout`: seconds for one complete exchange with verify
    - `ssl_context`: your own certificates for the connection to the service
    - `verifier`: the identity of this verifier. By default, the service returns it for the API key
    - `principals`: root ids of the principals whose authority is accepted, in addition to the service's own
      rules. May be a function that the guard calls after each `allow` decision
    - `replays`: how to treat an `allow` decision that the service had already returned for this invocation.
      `refuse` runs no invocation twice. `execute` acts on the earlier decision, even if the authority was
      withdrawn since
    - `challenges_per_second`: challenges that refused callers may get, at most a quarter of them in one
      network; 0 gives none
    - `retain`: stores the record of each verification. The guard waits for it before the action runs. If it
      raises, the guard refuses the action with 503
    - `on_fault`: called for each fault, sometimes in another thread. Must not raise. By default, the guard
      logs the first fault of each kind as a warning of `deputize.guard`, without secrets

    Only `authorize_async` and `run_async` accept async functions for `principals` and `retain`.
    """

    word: str = "service"
    timeout: float = 10.0
    ssl_context: ssl.SSLContext | None = None
    verifier: Verifier | None = None
    principals: Principals | Callable[[], Principals | Awaitable[Principals]] | None = None
    replays: Literal["refuse", "execute"] = "refuse"
    challenges_per_second: int = 40
    retain: Callable[[VerificationRecord], object] = _ignore
    on_fault: Callable[[GuardFault], object] = field(default_factory=warn_once)

    def __post_init__(self) -> None:
        demand(
            re.fullmatch("[a-z][a-z0-9]{0,31}", self.word, re.ASCII) is not None,
            "word: must be lower-case letters and digits, a letter first",
        )
        demand(0 < self.timeout <= 600, "timeout: must be above 0 and at most 600 seconds")
        demand(
            type(self.challenges_per_second) is int and 0 <= self.challenges_per_second <= 10_000,
            "challenges_per_second: must be a whole number from 0 to 10000",
        )
        demand(self.replays in ("refuse", "execute"), "replays: must be refuse or execute")
        for name, function in (("retain", self.retain), ("on_fault", self.on_fault)):
            demand(callable(function), f"{name}: must be a function")
        demand(
            self.verifier is None or is_verifier(self.verifier),
            "verifier: needs verifier_id and workspace_id, both not empty",
        )


class Service:
    """The address and the key of the service. Raises TypeError if they are invalid, without the key."""

    def __init__(self, base_url: str, api_key: str | Callable[[], str], word: str) -> None:
        demand(_is_url(base_url), "base_url: must be an absolute URL that starts with https or http")
        demand("@" not in base_url, "base_url: must not contain a user name or password")
        demand(
            not base_url.rstrip("/").endswith("/v1"),
            "base_url: leave out /v1 at its end, because the guard and the agent add it",
        )
        demand("?" not in base_url and "#" not in base_url, "base_url: must not contain a query or fragment")
        demand(
            callable(api_key) or _is_key(api_key),
            "api_key: must be visible ASCII characters, or a function that returns them",
        )
        self._base = base_url.rstrip("/")
        self._api_key = api_key
        self._word = word

    def address(self, *path: str) -> str:
        return "/".join([self._base, "v1", self._word, *(quote(part, safe="") for part in path)])

    def header(self, name: str) -> str:
        """Returns the lower-case name of a service header, such as `x-service-proof` for `proof`."""
        return f"x-{self._word}-{name}"

    def key(self) -> str | None:
        """Returns the API key, or `None` if the application's function fails or returns none."""
        if isinstance(self._api_key, str):
            return self._api_key
        try:
            key = self._api_key()
        except Exception:
            return None
        return key if _is_key(key) else None


def demand(holds: bool, message: str) -> None:
    """Raises TypeError with `message` unless the condition holds."""
    if not holds:
        raise TypeError(message)


def _is_url(text: object) -> bool:
    if not isinstance(text, str):
        return False
    try:
        url = urlsplit(text)
        return url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        return False


def _is_key(given: object) -> bool:
    return isinstance(given, str) and re.fullmatch(r"[\x21-\x7e]+", given) is not None
