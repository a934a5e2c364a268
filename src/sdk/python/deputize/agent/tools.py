"""Tools of agent frameworks, which send requests with proofs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from .agent import Agent
    from .response import Response

Input_contra = TypeVar("Input_contra", contravariant=True)
Output_co = TypeVar("Output_co", covariant=True)


class Tool(Protocol[Input_contra, Output_co]):
    """A function for an agent framework. Pass the id of an earlier call to repeat that call.

    The id has at most 240 characters, and no `~`.
    """

    def __call__(self, given: Input_contra, /, *, invocation_id: str | None = None) -> Output_co: ...


@dataclass(slots=True)
class ToolCall:
    """The call of a tool: what the tool may do, and under which id.

    The first request has the id `invocation_id`, and the n-th has it with the suffix `~n`.
    """

    _agent: Agent = field(repr=False)
    scope: str
    invocation_id: str
    _requests: int = field(default=0, init=False, repr=False)

    def fetch(self, url: str, **options: Any) -> Response:
        """Does the same as `Agent.fetch`, with the tool's scope."""
        return self._agent.fetch(url, **self._own(options))

    async def fetch_async(self, url: str, **options: Any) -> Response:
        """Does the same as `Agent.fetch_async`, with the tool's scope."""
        return await self._agent.fetch_async(url, **self._own(options))

    def _own(self, options: Mapping[str, Any]) -> dict[str, Any]:
        self._requests += 1
        first = self._requests == 1
        invocation_id = self.invocation_id if first else f"{self.invocation_id}~{self._requests}"
        return {**options, "scope": self.scope, "invocation_id": invocation_id}
