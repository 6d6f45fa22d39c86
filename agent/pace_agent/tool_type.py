"""A tool: a Python function with types and a docstring, as a model can call it."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_type_hints

import docstring_parser
from pydantic import ConfigDict, TypeAdapter, ValidationError, create_model

from pace_agent.errors import ToolError
from pace_local.errors import ConfigError

Need = Literal["read", "propose", "write", "run", "nothing"]
"""What a tool does, which decides what the user is asked: it reads files; reads and proposes a change, which
is asked about and made for it (:class:`pace_agent.outcomes.Proposal`); changes something by itself; runs a
command; or does nothing outside of the conversation."""

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


@dataclass(frozen=True)
class Tool:
    """What a model can call."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """JSON schema of the arguments, an object without references to elsewhere."""

    need: Need
    function: Callable[..., Any]
    _arguments: TypeAdapter[Any]

    def check(self, arguments: object) -> dict[str, Any]:
        """Arguments as the function takes them.

        Numbers and truth values that came as text are taken for what they say.

        Args:
            arguments: as they stood in a call.

        Raises:
            ToolError: with each argument that is wrong, missing or unknown, and why.
        """
        try:
            checked = self._arguments.validate_python(arguments)
        except ValidationError as error:
            said = "; ".join(
                f"{'.'.join(map(str, each['loc'])) or 'arguments'}: {_plain(each['msg'])}"
                for each in error.errors(include_url=False, include_input=False)
            )
            raise ToolError(f"{self.name}: {said}; it takes {self.signature}") from None
        given = checked.model_fields_set
        return {name: getattr(checked, name) for name in type(checked).model_fields if name in given}

    @property
    def signature(self) -> str:
        """``read(path, first?, last?)``: optional ones have a question mark."""
        required = self.parameters.get("required", [])
        names = (name if name in required else f"{name}?" for name in self.parameters["properties"])
        return f"{self.name}({', '.join(names)})"

    def as_line(self) -> str:
        """As models are shown it where tokens are few: ``read(path: string, first?: integer)  Read …``."""
        required = self.parameters.get("required", [])
        given = ", ".join(
            f"{name}{'' if name in required else '?'}: {_type_of(schema)}"
            for name, schema in self.parameters["properties"].items()
        )
        return f"{self.name}({given})  {self.description}"

    def as_document(self) -> dict[str, Any]:
        """As models are shown it: name, description and schema."""
        return {
            "type": "function",
            "function": {
                "name": self.name,
                "description": self.description,
                "parameters": dict(self.parameters),
            },
        }


def tool(need: Need, name: str | None = None) -> Callable[[Callable[..., Any]], Tool]:
    """Make a tool of a function, as a decorator.

    Its parameters need types that JSON can hold, and its docstring a summary; what stands under ``Args:``
    describes the parameters to the model.

    Args:
        need: what it does to the world.
        name: None: the function's.

    Raises:
        ConfigError: if the function cannot be a tool, with the reason.
    """
    return lambda function: make_tool(function, need, name)


def make_tool(function: Callable[..., Any], need: Need, name: str | None = None) -> Tool:
    """As :func:`tool`, for a function that is there already.

    Raises:
        ConfigError: if the function cannot be a tool, with the reason.
    """
    name = function.__name__ if name is None else name
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{name!r} is no name of a tool; use up to 40 letters (a to z), digits and _")
    documented = docstring_parser.parse(inspect.getdoc(function) or "")
    if not documented.short_description:
        raise ConfigError(f"tool {name!r} has no docstring that tells the model what it does; add one")
    said = {each.arg_name: " ".join((each.description or "").split()) for each in documented.params}
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise ConfigError(f"tool {name!r} takes {parameter}; give each parameter a name of its own")
        if parameter.name not in hints:
            raise ConfigError(f"parameter {parameter.name!r} of tool {name!r} has no type; add one")
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[parameter.name] = (hints[parameter.name], default)
    try:
        model = create_model(name, __config__=ConfigDict(extra="forbid", title=name), **fields)
        adapter: TypeAdapter[Any] = TypeAdapter(model)
        schema = _without_titles(_without_references(adapter.json_schema()))
        json.dumps(schema, allow_nan=False)
    except Exception as error:
        raise ConfigError(f"tool {name!r} takes what JSON cannot hold: {_plain(str(error))}") from None
    for parameter_name, about in said.items():
        if about and parameter_name in schema["properties"]:
            schema["properties"][parameter_name]["description"] = about
    summary = " ".join(documented.description.split()) if documented.description else ""
    return Tool(name, summary, schema, need, function, adapter)


def _without_references(schema: Any) -> Any:
    """A schema with what it refers to in place of each reference.

    Raises:
        ValueError: if something refers to itself.
    """
    named = schema.get("$defs", {})

    def resolved(part: Any, within: tuple[str, ...]) -> Any:
        if isinstance(part, list):
            return [resolved(each, within) for each in part]
        if not isinstance(part, dict):
            return part
        name = str(part.get("$ref", "")).removeprefix("#/$defs/")
        if name in within:
            raise ValueError(f"{name} refers to itself")
        if name in named:
            rest = {key: value for key, value in part.items() if key != "$ref"}
            return {**resolved(named[name], (*within, name)), **resolved(rest, within)}
        return {key: resolved(value, within) for key, value in part.items() if key != "$defs"}

    return resolved(schema, ())


def _without_titles(schema: Any) -> Any:
    """A schema without the names that its maker gives to each part, which cost tokens and say nothing."""
    if isinstance(schema, dict):
        kept = {
            key: _without_titles(value)
            for key, value in schema.items()
            if not (key == "title" and isinstance(value, str))
        }
        if "properties" not in kept and kept.get("type") == "object":
            kept.setdefault("properties", {})
        return kept
    if isinstance(schema, list):
        return [_without_titles(each) for each in schema]
    return schema


def _type_of(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return "|".join(json.dumps(each, ensure_ascii=False) for each in schema["enum"])
    if schema.get("type") == "array":
        return f"[{_type_of(schema.get('items', {}))}, …]"
    if schema.get("type") == "object" and schema.get("properties"):
        return (
            "{" + ", ".join(f"{name}: {_type_of(each)}" for name, each in schema["properties"].items()) + "}"
        )
    if "anyOf" in schema:
        return "|".join(_type_of(each) for each in schema["anyOf"])
    return str(schema.get("type", "any"))


def _plain(text: str) -> str:
    return " ".join(text.split())
