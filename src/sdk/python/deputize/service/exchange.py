"""One exchange with the service, within one time limit."""

import asyncio
import os
import ssl
import threading
import time
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, Literal, TypeVar
from weakref import WeakSet

import httpx2

# Maximum size of a response in bytes. A longer response is discarded.
MAX_ANSWER_BYTES = 256 * 1024

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete response of at most `MAX_ANSWER_BYTES`, with any status."""

    status: int
    body: bytes
    retry_after: str = ""


@dataclass(frozen=True, slots=True)
class Unanswered:
    """The reason why there is no complete response."""

    fault: Literal["timeout", "network", "answer_too_large"]


Exchange = Answer | Unanswered


class Exchanger:
    """Makes exchanges in a thread of its own, for callers with and without an event loop.

    The time limits of an HTTP client concern each read, so a slow response could take forever. Here, one
    limit ends the whole exchange, from the DNS lookup to the last byte. Does nothing before the first
    exchange, so that a server may fork after it has imported the application.
    """

    def __init__(self, ssl_context: ssl.SSLContext | None) -> None:
        self._ssl_context = ssl_context
        self.forget()
        _EXCHANGERS.add(self)

    def forget(self) -> None:
        """Forgets all work, for a forked process.

        It has no thread, must not use the connections of its parent, and may have inherited a held lock.
        """
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: httpx2.AsyncClient | None = None
        self._thread: threading.Thread | None = None
        self._unfinished: set[Future[None]] = set()

    def post(self, url: str, headers: Mapping[str, str], body: bytes, seconds: float) -> Future[Exchange]:
        """Sends one POST request of JSON. Follows no redirect and does not retry.

        The result is `network` for every fault of DNS, connection or TLS, and for a response that is not
        HTTP. The future never raises unless it is cancelled.
        """
        return self.start(self.exchange(url, headers, body, seconds))

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Runs a coroutine in the thread of this exchanger."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="deputize", daemon=True)
                self._thread.start()
            return asyncio.run_coroutine_threadsafe(work, self._loop)

    def start_in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs a coroutine for whose end `flush` waits."""
        future = self.start(work)
        with self._lock:
            self._unfinished.add(future)
        future.add_done_callback(self._finish)

    def flush(self) -> None:
        """Waits for all work in the background that has begun."""
        with self._lock:
            unfinished = set(self._unfinished)
        wait(unfinished)

    def close(self) -> None:
        """Cancels all work, and closes the connections and the thread. The next exchange opens new ones."""
        with self._lock:
            loop, thread, client = self._loop, self._thread, self._client
            self._loop, self._thread, self._client = None, None, None
        if loop is None or thread is None:
            return
        asyncio.run_coroutine_threadsafe(_end(client), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

    def _finish(self, future: Future[None]) -> None:
        with self._lock:
            self._unfinished.discard(future)

    async def exchange(
        self, url: str, headers: Mapping[str, str], body: bytes | None, seconds: float
    ) -> Exchange:
        """Makes one exchange, with GET if there is no body. Runs only in the thread of this exchanger."""
        deadline = time.monotonic() + seconds
        try:
            async with asyncio.timeout(seconds):
                found = await self._send(url, headers, body)
        except TimeoutError:
            return Unanswered("timeout")
        except Exception:
            found = Unanswered("network")
        # A process that was blocked may read a response long after it arrived.
        return found if time.monotonic() < deadline else Unanswered("timeout")

    def client(self) -> httpx2.AsyncClient:
        """Returns the client of this exchanger, for use in its thread."""
        if self._client is None:
            self._client = _client(self._ssl_context)
        return self._client

    async def _send(self, url: str, headers: Mapping[str, str], body: bytes | None) -> Exchange:
        sent = {
            "accept": "application/json",
            "accept-encoding": "identity",
            "content-type": "application/json",
        }
        chunks = bytearray()
        method = "GET" if body is None else "POST"
        call = self.client().stream(method, url, headers={**sent, **headers}, content=body)
        async with call as response:
            async for chunk in response.aiter_raw():
                chunks += chunk
                if len(chunks) > MAX_ANSWER_BYTES:
                    return Unanswered("answer_too_large")
        return Answer(response.status_code, bytes(chunks), response.headers.get("retry-after", ""))


def _client(ssl_context: ssl.SSLContext | None) -> httpx2.AsyncClient:
    # Proxies and passwords from the environment would send the key elsewhere. A cookie would join calls.
    return httpx2.AsyncClient(
        timeout=None,
        follow_redirects=False,
        trust_env=False,
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        verify=True if ssl_context is None else ssl_context,
    )


async def _end(client: httpx2.AsyncClient | None) -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    if client is not None:
        await client.aclose()


_EXCHANGERS: WeakSet[Exchanger] = WeakSet()


def _forget_all() -> None:
    for exchanger in list(_EXCHANGERS):
        exchanger.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
