"""The principals whose authority an application accepts."""

import re
from collections.abc import Awaitable, Callable, Collection, Set
from typing import cast

# Accepted root ids: 32 lower-case hex digits each. An empty collection accepts nobody.
Principals = Collection[str]

# The accepted root ids, or a function of the application that returns them for each request.
AcceptedPrincipals = frozenset[str] | Callable[[], Principals | Awaitable[Principals]]

_ROOT_ID = re.compile("[0-9a-f]{32}", re.ASCII)


def read_principals(
    setting: Principals | Callable[[], Principals | Awaitable[Principals]] | None,
) -> AcceptedPrincipals | None:
    """Returns a function as it is, and a checked copy of a list. Raises TypeError for anything else."""
    return setting if setting is None or callable(setting) else root_ids(setting)


def root_ids(value: object) -> frozenset[str]:
    """Returns a copy of the accepted root ids. Raises TypeError for anything else, also for one id."""
    if not isinstance(value, list | tuple | Set):
        raise TypeError("principals: must be a list or set of root ids, or a function that returns one")
    ids = list(cast(Collection[object], value))
    if not all(isinstance(each, str) and _ROOT_ID.fullmatch(each) for each in ids):
        raise TypeError("principals: root ids have 32 lower-case hex digits")
    return frozenset(cast(list[str], ids))
