"""Acts with authority from a person: proves each request, and sends it."""

from ..operation import Verifier
from .agent import Agent, Response, Tool, ToolCall
from .errors import (
    AgentError,
    Denied,
    Expired,
    NotDelegated,
    NotProven,
    Replayed,
    Revoked,
    Unanswered,
    Unavailable,
    WrongVerifier,
)
from .verifiers import AgentVerifier, Verifiers

__all__ = [
    "Agent",
    "AgentError",
    "AgentVerifier",
    "Denied",
    "Expired",
    "NotDelegated",
    "NotProven",
    "Replayed",
    "Response",
    "Revoked",
    "Tool",
    "ToolCall",
    "Unanswered",
    "Unavailable",
    "Verifier",
    "Verifiers",
    "WrongVerifier",
]
