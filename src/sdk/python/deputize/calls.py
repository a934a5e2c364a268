"""Calls with and without an event loop."""

import inspect
from collections.abc import Coroutine
from typing import Any, TypeVar, cast

T = TypeVar("T")


async def awaited(value: Any, is_async: bool) -> Any:
    """Waits for the result of an application's function. Raises TypeError for an async one in a sync call."""
    if not inspect.isawaitable(value):
        return value
    if is_async:
        return await value
    if inspect.iscoroutine(value):
        value.close()
    raise TypeError("an async function of the settings needs authorize_async or run_async")


def finished(work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine that never waits for an event loop."""
    try:
        work.send(None)
    except StopIteration as end:
        return cast(T, end.value)
    work.close()
    raise RuntimeError("the guard waited for an event loop in a call without one")
