"""The ids of the calls that MCP clients send."""

import json
import re
from collections import OrderedDict
from dataclasses import dataclass
from hashlib import sha256
from uuid import uuid4
from weakref import WeakKeyDictionary

from ..agent import Agent
from ..protocol.plain import is_object
from ..settings import demand

# Leaves room for the suffix of a round, and contains none, so that no two calls share an id.
_CALL_ID = re.compile(r"[\x21-\x7d]{1,200}")
_MOST_LOST = 1_000


@dataclass(frozen=True, slots=True)
class Invocation:
    """One call to send. `arguments`: the caller's own object."""

    id: str
    arguments: object
    hash: str


class Invocations:
    """Finds the id of each call of one agent.

    Two calls share an id only if the first one was lost, and both have the same object of arguments with the
    same content: then somebody has sent one call twice. A named call keeps its name, and each of its further
    rounds has a suffix that follows from its input.
    """

    def __init__(self) -> None:
        # Another connection can send a lost call again.
        self._lost: OrderedDict[int, Invocation] = OrderedDict()

    def begin(
        self, action: str, arguments: object, others: tuple[object, ...], named: str | None
    ) -> Invocation:
        """Returns the id of a call. `others`: the answers and the state of a further round."""
        text = json.dumps([action, arguments, *others], default=repr)
        found = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        lost = self._lost.pop(id(arguments), None)
        is_repeated = lost is not None and lost.arguments is arguments and lost.hash == found
        if named is not None:
            is_round = any(each is not None for each in others)
            return Invocation(_name_of(named, found if is_round else None), arguments, found)
        return Invocation(lost.id if lost is not None and is_repeated else str(uuid4()), arguments, found)

    def lose(self, invocation: Invocation) -> None:
        """Notes that nobody knows what became of a call."""
        if not is_object(invocation.arguments):
            return
        self._lost[id(invocation.arguments)] = invocation
        if len(self._lost) > _MOST_LOST:
            self._lost.popitem(last=False)


_ALL: WeakKeyDictionary[Agent, Invocations] = WeakKeyDictionary()


def invocations_of(agent: Agent) -> Invocations:
    """Returns the ids of an agent's calls, for all of its connections."""
    return _ALL.setdefault(agent, Invocations())


def _name_of(named: str, found: str | None) -> str:
    is_id = _CALL_ID.fullmatch(named) is not None
    demand(is_id, "invocation_id: must have 1 to 200 visible ASCII characters without ~")
    return named if found is None else f"{named}~{found[:32]}"
