"""The guard in FastAPI."""

from typing import TYPE_CHECKING, Any

from fastapi import Depends, Request

from ..authority import Authority
from ..route import Route
from .starlette import GuardMiddleware, authorize_request

if TYPE_CHECKING:
    from ..guard import Guard

__all__ = ["GuardMiddleware", "depends"]


def depends(guard: "Guard", route: Route) -> Any:
    """Returns a dependency that runs the handler only after an explicit `allow` decision."""

    async def authority(request: Request) -> Authority:
        return await authorize_request(guard, route, request)

    # Each use is a decision of its own.
    return Depends(authority, use_cache=False)
