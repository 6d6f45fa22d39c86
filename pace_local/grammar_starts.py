"""Looks at what the rules of a grammar can begin with: there llama.cpp recurses, there its stacks grow."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from pace_local.errors import ConfigError

Rules = dict[int, list[list[int]]]
"""For each rule its alternatives; an alternative is a sequence of rule numbers and CHARACTER."""

CHARACTER = -1
"""An element that stands for a character to consume."""

_DEEPEST_START = 1000
_MOST_STARTS = 100_000


def check_starts(rules: Rules, name: Callable[[int], str]) -> None:
    """Refuse rules that would make llama.cpp recurse too deep, branch too often or never stop.

    Args:
        rules: all that are called are there.
        name: what to call a rule in a message.

    Raises:
        ConfigError: with the name of the rule.
    """
    declared = {number for number, alternatives in rules.items() if [] in alternatives}
    # llama.cpp walks these calls by recursion and refuses a cycle; it takes for empty what says so itself.
    _Starts(name, _starts(rules, declared)).check(any_cycle=True)
    # What is really empty decides whether a cycle grows the stack; one that calls last does not.
    _Starts(name, _starts(rules, _empty_rules(rules))).check(any_cycle=False)


def _starts(rules: Rules, empty: set[int]) -> dict[int, list[tuple[int, bool]]]:
    """For each rule the rules that it can begin with, and whether something stands after them."""
    starts: dict[int, list[tuple[int, bool]]] = {}
    for number, alternatives in rules.items():
        calls = starts.setdefault(number, [])
        for sequence in alternatives:
            for index, element in enumerate(sequence):
                if element == CHARACTER:
                    break
                calls.append((element, index + 1 < len(sequence)))
                if element not in empty:
                    break
    return starts


def _empty_rules(rules: Rules) -> set[int]:
    """Rules that can produce nothing, by their own or through others."""
    callers: dict[int, list[int]] = {}
    for number, alternatives in rules.items():
        for sequence in alternatives:
            for element in sequence:
                callers.setdefault(element, []).append(number)
    empty: set[int] = set()
    todo = [number for number, alternatives in rules.items() if [] in alternatives]
    while todo:
        number = todo.pop()
        if number in empty or not any(empty.issuperset(sequence) for sequence in rules[number]):
            continue
        empty.add(number)
        todo.extend(callers.get(number, ()))
    return empty


class _Starts:
    """The graph of which rule can begin with which, in strongly connected groups."""

    def __init__(self, name: Callable[[int], str], starts: dict[int, list[tuple[int, bool]]]) -> None:
        self._name = name
        self._starts = starts

    def check(self, *, any_cycle: bool) -> None:
        group = {}
        depth: dict[int, int] = {}
        ways: dict[int, int] = {}
        # Callees come before callers, so that one pass sums up depths and ways.
        for index, members in enumerate(self._groups()):
            group.update(dict.fromkeys(members, index))
            depth[index], ways[index] = 1, 1
            for member in members:
                for callee, followed in self._starts[member]:
                    other = group[callee]
                    if other == index:
                        if any_cycle or followed:
                            self._refuse(
                                member, "calls itself before it has consumed a character (left recursion)"
                            )
                        continue
                    depth[index] = max(depth[index], depth[other] + 1)
                    ways[index] += ways[other]
            if ways[index] > _MOST_STARTS:
                self._refuse(members[0], f"can begin in more than {_MOST_STARTS:,} ways")
            if any_cycle and depth[index] > _DEEPEST_START:
                self._refuse(members[0], f"begins with a chain of more than {_DEEPEST_START} rules")

    def _refuse(self, number: int, reason: str) -> NoReturn:
        raise ConfigError(f"grammar rule {self._name(number)!r} {reason}; rewrite it")

    def _groups(self) -> list[list[int]]:
        """Strongly connected groups, callees first (Tarjan's algorithm, without recursion)."""
        order: dict[int, int] = {}
        low: dict[int, int] = {}
        open_nodes: list[int] = []
        is_open: set[int] = set()
        groups: list[list[int]] = []
        for origin in self._starts:
            if origin in order:
                continue
            path = [(origin, iter(self._starts[origin]))]
            order[origin] = low[origin] = len(order)
            open_nodes.append(origin)
            is_open.add(origin)
            while path:
                node, calls = path[-1]
                for callee, _ in calls:
                    if callee not in order:
                        order[callee] = low[callee] = len(order)
                        open_nodes.append(callee)
                        is_open.add(callee)
                        path.append((callee, iter(self._starts[callee])))
                        break
                    if callee in is_open:
                        low[node] = min(low[node], order[callee])
                else:
                    path.pop()
                    if path:
                        low[path[-1][0]] = min(low[path[-1][0]], low[node])
                    if low[node] == order[node]:
                        members = [open_nodes.pop()]
                        while members[-1] != node:
                            members.append(open_nodes.pop())
                        is_open.difference_update(members)
                        groups.append(members)
        return groups
