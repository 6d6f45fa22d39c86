"""Tool schemas as a grammar that begins where a call does: prose is free, a call is always well formed."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pace_agent.calls.formats import REASONING, CallFormat
from pace_agent.tool_type import Tool
from pace_local.errors import ConfigError
from pace_local.sampling import Sampling

LONGEST_WORD = 400
"""Most characters of a text argument that is no content of a file: paths, patterns, names."""

CONTENT = frozenset({"content", "search", "replacement", "command", "text", "source"})
"""Names of parameters whose texts may be of any length; the limit of tokens ends those that never end."""

_COMMON = rf"""
ws ::= [ \n\t]{{0,4}}
char ::= [^"\\\x00-\x1f\x7f] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{{4}})
text ::= "\"" char* "\""
word ::= "\"" char{{0,{LONGEST_WORD}}} "\""
boolean ::= "true" | "false"
integer ::= "-"? ("0" | [1-9] [0-9]{{0,8}})
number ::= integer ("." [0-9]{{1,9}})?
"""


def calling(tools: Sequence[Tool], form: CallFormat, sampling: Sampling | None = None) -> Sampling:
    """Sampling under which every call that is begun is one of a tool, with arguments of the right types.

    Args:
        tools: that can be called.
        form: how they are called.
        sampling: its other settings; None: greedy.

    Raises:
        ConfigError: without tools, or for a schema that has no grammar.
    """
    return dataclasses.replace(
        sampling or Sampling(), grammar=grammar(tools, form), triggers=(form.opening,), quiet=REASONING
    )


def begins_with_reasoning(answer_prefix: str, sampling: Sampling) -> bool:
    """Whether a template has opened reasoning, and no grammar holds the answer from its first token on.

    Args:
        answer_prefix: what the template wrote before the answer.
        sampling: of the answer.
    """
    is_held = bool(sampling.grammar) and not sampling.triggers
    return not is_held and answer_prefix.rstrip().endswith(REASONING[0][0])


def grammar(tools: Sequence[Tool], form: CallFormat) -> str:
    """GBNF of what follows a call's opening text.

    Raises:
        ConfigError: without tools, or for a schema that has no grammar.
    """
    if not tools:
        raise ConfigError("there is no tool that could be called; give at least one")
    rules: dict[str, str] = {}
    bodies = []
    for tool in tools:
        arguments = _Rules(rules, tool.name.replace("_", "-")).object(tool.parameters)
        opening = "" if form.starts_object else f'"{{" ws {_text(json.dumps("name"))} ":" ws "\\"" '
        key = _text(json.dumps(form.arguments))
        bodies.append(f'{opening}{_text(tool.name)} "\\"" ws "," ws {key} ":" ws {arguments} ws "}}"')
    before = "" if form.starts_object else "ws "
    after = f" ws {_text(form.closing)}" if form.closing else ""
    root = f"root ::= {before}({' | '.join(bodies)}){after}"
    return "\n".join([root, *(f"{name} ::= {body}" for name, body in rules.items()), _COMMON.strip()]) + "\n"


def object_grammar(schema: Mapping[str, Any]) -> str:
    """GBNF of one object of a schema, for an answer that is nothing else.

    Raises:
        ConfigError: for a schema that has no grammar.
    """
    rules: dict[str, str] = {}
    root = f"root ::= ws {_Rules(rules, 'answer').object(schema)} ws"
    return "\n".join([root, *(f"{name} ::= {body}" for name, body in rules.items()), _COMMON.strip()]) + "\n"


class _Rules:
    """Writes the rules of one schema, named after its place in it."""

    def __init__(self, rules: dict[str, str], place: str) -> None:
        self._rules = rules
        self._place = place

    def object(self, schema: Mapping[str, Any]) -> str:
        """Properties in their order; optional ones may be left out."""
        properties: Mapping[str, Any] = schema.get("properties", {})
        required = set(schema.get("required", ()))
        pairs = {
            name: f'{_text(json.dumps(name))} ws ":" ws {self._at(name).value(name, each)}'
            for name, each in properties.items()
        }
        names = [
            *(name for name in pairs if name in required),
            *(name for name in pairs if name not in required),
        ]
        n_required = len(required & pairs.keys())
        body = ' ws "," ws '.join(pairs[name] for name in names[:n_required])
        optional = list(self._optional([pairs[name] for name in names[n_required:]], n_required > 0))
        return self._rule("object", f'"{{" ws {body} {" ".join(optional)} ws "}}"')

    def _optional(self, pairs: Sequence[str], follows: bool) -> Iterator[str]:
        """Any of the pairs in order, with commas only between."""
        if follows:
            yield from (f'(ws "," ws {pair})?' for pair in pairs)
        elif pairs:
            firsts = [
                " ".join([pair, *(f'(ws "," ws {later})?' for later in pairs[number + 1 :])])
                for number, pair in enumerate(pairs)
            ]
            yield f"({' | '.join(firsts)})?"

    def value(self, name: str, schema: Mapping[str, Any]) -> str:
        """Whatever a schema allows.

        Raises:
            ConfigError: for what has no rule here.
        """
        if "const" in schema or "enum" in schema:
            choices = [schema["const"]] if "const" in schema else schema["enum"]
            return f"({' | '.join(_text(json.dumps(each, ensure_ascii=False)) for each in choices)})"
        if "anyOf" in schema:
            each = [self._at(str(n)).value(name, one) for n, one in enumerate(schema["anyOf"])]
            return f"({' | '.join(each)})"
        kind = schema.get("type")
        if kind == "string":
            return "text" if name in CONTENT else "word"
        if kind == "array":
            items = self._at("item")
            item = items._rule("value", items.value(name, schema.get("items", {"type": "string"})))
            return self._rule("array", f'"[" ws ({item} (ws "," ws {item}){{0,63}})? ws "]"')
        if kind == "object" and "properties" in schema:
            return self.object(schema)
        if kind in ("boolean", "integer", "number"):
            return str(kind)
        if kind == "null":
            return '"null"'
        raise ConfigError(
            f"parameter {name!r} of {self._place} has a type that no grammar is known for: {schema}"
        )

    def _at(self, name: str) -> _Rules:
        return _Rules(self._rules, f"{self._place}-{name.replace('_', '-')}")

    def _rule(self, kind: str, body: str) -> str:
        name = f"{self._place}-{kind}"
        self._rules[name] = body
        return name


def _text(text: str) -> str:
    """A text as a literal of GBNF."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'
