"""Challenges for agents that have another API key."""

import ipaddress
import json
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from .protocol.plain import is_object
from .service.exchange import Answer, Exchange


@dataclass(frozen=True, slots=True)
class Challenge:
    """A challenge of the guard's own connection. Only this connection can verify a proof over it, once."""

    challenge: str
    expires_at: str


# Longest wait in seconds. A refusal must not take much longer than one without a challenge.
LONGEST_WAIT = 3.0
# Part of the limit that one network may use, so that no stranger uses up the challenges of others.
_SHARE = 0.25


class ChallengeLimit:
    """Counts challenges per second, for all clients and for each network. Forgets all with each second."""

    def __init__(self, per_second: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._per_second = per_second
        self._per_network = math.ceil(per_second * _SHARE)
        self._lock = threading.Lock()
        self._began = 0.0
        self._taken: dict[str, int] = {}

    def takes(self, address: str) -> bool:
        """Returns whether a client with this IP address may get a challenge now, and counts it."""
        network = _network_of(address)
        with self._lock:
            now = self._clock()
            if now - self._began >= 1:
                self._began, self._taken = now, {}
            own = self._taken.get(network, 0)
            if sum(self._taken.values()) >= self._per_second or own >= self._per_network:
                return False
            self._taken[network] = own + 1
            return True


def read_challenge(exchange: Exchange) -> Challenge | None:
    """Returns the challenge of a response, or `None` if it contains none."""
    if not isinstance(exchange, Answer) or exchange.status != 200:
        return None
    try:
        body = json.loads(exchange.body)
    except (ValueError, RecursionError):
        return None
    if not is_object(body):
        return None
    challenge, expires_at = body.get("challenge"), body.get("expires_at")
    if isinstance(challenge, str) and isinstance(expires_at, str):
        return Challenge(challenge, expires_at)
    return None


def _network_of(address: str) -> str:
    """Returns an IPv4 address, or the first 64 bits of an IPv6 address. One client has all the others."""
    try:
        read = ipaddress.ip_address(address.split("%", 1)[0])
    except ValueError:
        return ""
    if isinstance(read, ipaddress.IPv4Address):
        return str(read)
    return str(read.ipv4_mapped or int(read) >> 64)
