"""Acts with authority from a person: proves each request, and sends it."""

from ..operation import Verifier
from .agent import Agent
from .asking import Ask, Question
from .errors import (
    AgentError,
    AwaitingApproval,
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
from .proving import ActionProof
from .response import Response
from .tools import Tool, ToolCall
from .verifiers import AgentVerifier, Verifiers

__all__ = [
    "ActionProof",
    "Agent",
    "AgentError",
    "AgentVerifier",
    "Ask",
    "AwaitingApproval",
    "Denied",
    "Expired",
    "NotDelegated",
    "NotProven",
    "Question",
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
