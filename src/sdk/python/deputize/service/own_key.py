"""Facts about an API key that the service returns."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ..operation import Verifier
from ..protocol.errors import ProtocolError
from ..protocol.plain import is_object
from ..protocol.strict_json import parse_json
from .exchange import MAX_ANSWER_BYTES

# The path of the call that describes the calling key, below `/v1/service`.
OWN_KEY_PATH = ("keys", "self")
# In seconds. A connection can get another name. The service refuses proofs for its former name.
_LONGEST_AGE = 60.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class OwnKey:
    """The connection of an API key, and the agent of an agent key."""

    connection_id: str
    agent_id: str
    verifier: Verifier


class LookUp(Generic[T]):
    """Returns what `read` returns for an API key. Runs only in the thread of one exchanger.

    Concurrent callers share one call, and later callers its result, for a minute. The next caller after a
    failure tries again. A caller that is cancelled does not end the shared call.
    """

    def __init__(
        self, read: Callable[[str], Coroutine[Any, Any, T]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._read = read
        self._clock = clock
        self._task: asyncio.Task[T] | None = None
        self._key = ""
        self._since = 0.0

    async def get(self, key: str) -> T:
        task, now = self._task, self._clock()
        # A forked process has another event loop.
        is_usable = task is not None and task.get_loop() is asyncio.get_running_loop() and self._key == key
        if task is None or not is_usable or now - self._since >= _LONGEST_AGE:
            task = asyncio.create_task(self._read(key))
            self._task, self._key, self._since = task, key, now
            task.add_done_callback(self._forget_failure)
        return await asyncio.shield(task)

    def _forget_failure(self, task: asyncio.Task[T]) -> None:
        has_failed = task.cancelled() or task.exception() is not None
        if has_failed and self._task is task:
            self._task = None


def read_own_key(body: Mapping[str, Any]) -> OwnKey | None:
    """Reads the body of a response to `keys/self`. Returns `None` if it is not one."""
    names = ("connection_id", "verifier_id", "workspace_id", "agent_id")
    connection_id, verifier_id, workspace_id, agent_id = (_text(body.get(name)) for name in names)
    if not connection_id or not verifier_id or not workspace_id:
        return None
    return OwnKey(connection_id, agent_id, Verifier(verifier_id, workspace_id))


def read_object(body: bytes) -> Mapping[str, Any]:
    """Parses a response's body strictly. Returns an empty mapping for anything but one JSON object."""
    try:
        value = parse_json(body, max_bytes=MAX_ANSWER_BYTES, max_depth=32)
    except ProtocolError:
        return {}
    return value if is_object(value) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
