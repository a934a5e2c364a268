"""The requirements of tools. They are the same as in TypeScript."""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NotRequired, TypedDict

from ..protocol.plain import is_mapping
from ..question import demand_scope
from ..settings import demand


class ScopedTool(TypedDict):
    """A tool that needs a permission. The other members name arguments.

    The service compares the constraints of certificates with the values of these arguments.
    """

    scope: str
    amount: NotRequired[str]
    currency: NotRequired[str]
    resource: NotRequired[str]
    path: NotRequired[str]


class OpenTool(TypedDict):
    """A tool that everybody may call."""

    open: Literal[True]


ToolRule = ScopedTool | OpenTool
# The rules of a server, by the name of the tool. A tool without a rule is refused.
ToolRules = Mapping[str, ToolRule]

# Why a rule refuses a call before anybody asks the service.
RuleFault = Literal["argument_required", "argument_invalid"]
_FACTS = ("amount", "currency", "resource", "path")


@dataclass(frozen=True, slots=True)
class CallFacts:
    """The values of a call that constraints count."""

    amount: int | float | None = None
    currency: str | None = None
    resource: str | None = None
    path: str | None = None


@dataclass(frozen=True, slots=True)
class ScopeRule:
    """A checked rule with a scope. `named`: the argument of each fact."""

    scope: str
    named: Mapping[str, str]

    def facts_of(self, given: Mapping[str, object]) -> CallFacts | RuleFault:
        """Returns the facts of a call.

        A schema could fill an absent argument after the check, so every argument of the rule must be present.
        """
        facts: dict[str, Any] = {}
        for fact, name in self.named.items():
            if name not in given:
                return "argument_required"
            if not _IS_VALID[fact](given[name]):
                return "argument_invalid"
            facts[fact] = given[name]
        return CallFacts(**facts)


def read_rules(rules: object) -> Mapping[str, ScopeRule | Literal["open"]]:
    """Checks and copies rules.

    Raises TypeError for a rule with an unknown member, without a scope, or with a scope that no certificate
    can grant.
    """
    demand(is_mapping(rules), "rules: must be a dict of rules by tool")
    return {tool: _read_rule(tool, rule) for tool, rule in rules.items()} if is_mapping(rules) else {}


def _read_rule(tool: object, rule: object) -> ScopeRule | Literal["open"]:
    demand(isinstance(tool, str), "rules: the name of a tool must be text")
    where = f"rules: {json.dumps(tool)}"
    if not is_mapping(rule):
        raise TypeError(f"{where} must be a dict")
    if "open" in rule:
        demand(len(rule) == 1 and rule["open"] is True, f'{where} must be only {{"open": True}}')
        return "open"
    scope = rule.get("scope")
    if not isinstance(scope, str):
        raise TypeError(f'{where} needs a scope, or {{"open": True}}')
    demand_scope(scope, f"{where} scope")
    unknown = [str(name) for name in rule if name != "scope" and name not in _FACTS]
    demand(not unknown, f"{where} has an unknown member: {', '.join(unknown)}")
    named: dict[str, str] = {}
    for fact in _FACTS:
        name = rule.get(fact)
        if fact not in rule:
            continue
        if not _is_text(name):
            raise TypeError(f"{where}: {fact} must be the name of an argument")
        named[fact] = str(name)
    return ScopeRule(scope, named)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _is_amount(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf


# A value has the type that the agent signed: a rule never turns text into a number.
_IS_VALID: Mapping[str, Callable[[object], bool]] = {
    "amount": _is_amount,
    "currency": _is_text,
    "resource": _is_text,
    # The service ignores the query of a path, but a tool can read it as part of a name.
    "path": lambda value: _is_text(value) and "?" not in str(value),
}
