"""Errors of an agent. The names and sentences are the same as in TypeScript."""

import re
from collections.abc import Mapping


class AgentError(Exception):
    """An action that an agent could not do.

    `code` is a stable code of the service or of the guard, or one of this module. The message is one of a few
    fixed sentences: it never contains text of another party. `invocation_id`: the id of the action. Pass it
    again to repeat the same action: it is then done at most once.
    """

    def __init__(self, code: str, message: str, invocation_id: str | None = None) -> None:
        super().__init__(f"{message} ({code})")
        self.code = code
        self.invocation_id = invocation_id


class Denied(AgentError):  # noqa: N818
    """The person's authority does not permit the action. Nothing was done. `code` is the reason.

    `evaluation_id`: the id of the denial, if an approval of a person could resolve it. `ask_fault`: why
    asking did not help: a code of the service, or the state of the request, such as `denied`.
    """

    evaluation_id: str | None = None
    ask_fault: str | None = None


class AwaitingApproval(Denied):
    """The agent has asked, and no person has decided yet. Nothing was done. Repeat with `invocation_id`.

    `task_id`: the id of the request, which the service's events also have. `url`: the page on which a person
    decides, or `None` if the service is not below the agent's `base_url`.
    """

    def __init__(self, task_id: str, url: str | None, invocation_id: str, denial: Denied) -> None:
        sentence = "The agent asked, and no person has decided yet. Nothing was done."
        super().__init__("awaiting_approval", sentence, invocation_id)
        self.evaluation_id = denial.evaluation_id
        self.task_id = task_id
        self.url = url


class NotDelegated(Denied):
    """The person has not granted the scope, or no certificate of the agent is active. Nothing was done."""


class Revoked(Denied):
    """The person or the platform has revoked the authority. Nothing was done."""


class Expired(Denied):
    """The authority has expired. Nothing was done."""


class NotProven(AgentError):  # noqa: N818
    """The application did not accept the proof as one for this action. Nothing was done."""


class Replayed(AgentError):  # noqa: N818
    """The invocation was decided before. Nothing was done again."""


class Unavailable(AgentError):  # noqa: N818
    """No proof or no decision could be made, even after repeated calls. Nothing was done."""


class Unanswered(AgentError):  # noqa: N818
    """The application did not answer, so the action may have been done. Repeat it with `invocation_id`.

    With the code `not_sent`, the application could not be reached, and nothing was done.
    """


class WrongVerifier(AgentError):  # noqa: N818
    """The address has no verifier in the settings, or not the one that the call names.

    Or the service knows no such verifier, or servers can read the path as another verifier's. Nothing was
    sent to the application.
    """


# The id of a refusal by `present` is the sealed refusal itself.
_EVALUATION_ID = re.compile(r"[\w-]{1,8192}", re.ASCII)
_DENIED = "The authority does not permit this action. Nothing was done."
_NOT_PROVEN = (
    "The application did not accept the proof for this action. Nothing was done. "
    "Compare scope, action, path, body and verifier with the guard's. Its faults name what differs."
)
_OTHER_PERSON = "The application does not accept this person's authority. Nothing was done."

# The error and its sentence for each code of a refusal: of the guard, and of decisions that deny.
REFUSALS: Mapping[str, tuple[type[AgentError], str]] = {
    "not_delegated": (NotDelegated, "No person has granted this scope. Nothing was done."),
    "no_active_delegation": (NotDelegated, "The agent has no active authority for this. Nothing was done."),
    "delegation_revoked": (Revoked, "The authority was revoked. Nothing was done."),
    "delegation_expired": (Expired, "The authority has expired. Nothing was done."),
    "not_yet_valid": (Denied, _DENIED),
    "untrusted_root": (Denied, _DENIED),
    "principal_not_accepted": (Denied, _OTHER_PERSON),
    "constraint_denied": (Denied, _DENIED),
    "constraint_unverifiable": (Denied, _DENIED),
    "constraint_unknown": (Denied, _DENIED),
    "delegation_not_authorized": (Denied, _DENIED),
    "ceiling_exceeded": (Denied, _DENIED),
    "no_authority_demonstrated": (NotProven, _NOT_PROVEN),
    "invocation_replayed": (Replayed, "This invocation was decided before. Nothing was done again."),
    "invocation_conflict": (
        AgentError,
        "The invocation id was used for another action. Nothing was done. Use a new id for each action.",
    ),
    "verification_unavailable": (Unavailable, "The authority could not be verified. Nothing was done."),
}


def refusal_error(code: object, invocation_id: str | None, evaluation_id: object = None) -> AgentError | None:
    """Returns the error of a code in `REFUSALS`, or `None` for any other value."""
    found = REFUSALS.get(code) if isinstance(code, str) else None
    if found is None:
        return None
    error = found[0](str(code), found[1], invocation_id)
    is_id = isinstance(evaluation_id, str) and _EVALUATION_ID.fullmatch(evaluation_id) is not None
    if isinstance(error, Denied) and is_id:
        error.evaluation_id = str(evaluation_id)
    return error


def unanswered(invocation_id: str, *, is_sent: bool) -> Unanswered:
    """Returns the error for a request without an answer, by whether any part of the request was sent."""
    if is_sent:
        return Unanswered("no_answer", "The application did not answer.", invocation_id)
    sentence = "The application could not be reached. Nothing was sent."
    return Unanswered("not_sent", sentence, invocation_id)
