"""How models write tool calls: what opens and closes one, and the JSON between."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pace_agent.tool_type import Tool


@dataclass(frozen=True)
class CallFormat:
    """One way to write a call: an opening text, a JSON object with name and arguments, a closing text."""

    name: str
    opening: str
    closing: str
    """Empty: the end of the object ends the call."""

    arguments: str = "arguments"
    """Key of the arguments in the object; that of the name is ``name``."""

    starts_object: bool = False
    """Whether the opening text is itself the start of the object."""

    def write(self, name: str, arguments: Mapping[str, Any]) -> str:
        """A call as a model should write it."""
        body = json.dumps({"name": name, self.arguments: dict(arguments)}, ensure_ascii=False)
        if self.starts_object:
            assert body.startswith(self.opening)
            return body + self.closing
        return f"{self.opening}\n{body}\n{self.closing}" if self.closing else f"{self.opening}{body}"

    def result(self, tool: str, text: str) -> str:
        """What a tool returned, as the model is shown it."""
        if self.name == "hermes":
            return f"<tool_response>\n{text}\n</tool_response>"
        return f"Result of {tool}:\n{text}"

    def instructions(self, tools: Sequence[Tool], *, is_short: bool = False) -> str:
        """What the system prompt says of the tools and how to call them.

        Args:
            tools: that there are.
            is_short: a line each in place of a JSON schema, a fifth of the tokens; the grammar holds the call
                to the schema either way.
        """
        listed = "\n".join(
            tool.as_line() if is_short else json.dumps(tool.as_document(), ensure_ascii=False)
            for tool in tools
        )
        example = self.write("<tool name>", {"<parameter>": "<value>"})
        return (
            f"# Tools\n\nYou can call these tools. Each line describes one:\n<tools>\n{listed}\n</tools>\n\n"
            f"To call a tool, write:\n{example}\n"
            "You see its result next. Write calls only for tools that are listed."
        )


HERMES = CallFormat("hermes", "<tool_call>", "</tool_call>")
"""Qwen, Hermes and many others."""

LLAMA = CallFormat("llama", '{"name": "', "", arguments="parameters", starts_object=True)
"""Llama 3.1 and later: a bare object."""

PLAIN = CallFormat("plain", "```tool", "```")
"""For models whose template knows no tools: a fenced block, which every coder has seen."""

FORMATS = {each.name: each for each in (HERMES, LLAMA, PLAIN)}

REASONING = (("<think>", "</think>"),)
"""Opening and closing texts of reasoning, in which nothing is a call."""


def format_of_template(template: str) -> CallFormat:
    """The way in which a chat template has its model write calls.

    Args:
        template: the Jinja text; empty: unknown.
    """
    if "<tool_call>" in template:
        return HERMES
    if "<|python_tag|>" in template or ('{"name": ' in template and '"parameters": ' in template):
        return LLAMA
    return PLAIN
