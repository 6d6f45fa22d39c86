"""What each setting is, for people: what `pace config` prints, and the file that it makes."""

from __future__ import annotations

import functools
import json
import textwrap
import types
import typing
from typing import Any

import docstring_parser

from pace_agent.settings.config import KEYS, AgentConfig
from pace_agent.settings.config_file import DEFAULT, GIVEN, REPOSITORY_FILE, Loaded, variable_of
from pace_local.models.choose import config_path
from pace_local.policies import POLICIES

_WIDTH = 100
_WORDS = {int: "whole number", float: "number", str: "text", bool: "true or false"}
# Where the default has no form in TOML, or says nothing of what a value looks like.
_EXAMPLES: dict[str, Any] = {
    "model": "qwen2.5-coder-1.5b",
    "threads": 4,
    "enable_thinking": True,
    "check": "pytest -q",
    "extra_folders": ("~/notes",),
    "theme": "nord",
    "editor": "code --wait",
}


@functools.cache
def documentation() -> dict[str, str]:
    """Key -> what is written below its field, in one line, for people who write TOML."""
    parsed = docstring_parser.parse_from_object(AgentConfig)
    texts = {each.arg_name: " ".join((each.description or "").split()) for each in parsed.params}
    return {key: text.replace("``", "`").replace("None:", "unset:") for key, text in texts.items()}


def type_words(key: str) -> str:
    """The type of a setting's value, for people."""
    if key == "policy":
        return f"one of {', '.join(POLICIES)}"
    kind = typing.get_type_hints(AgentConfig)[key]
    if isinstance(kind, types.UnionType):
        (kind,) = (each for each in typing.get_args(kind) if each is not types.NoneType)
        return f"{_WORDS[kind]}, or unset"
    if typing.get_origin(kind) is typing.Literal:
        return f"one of {', '.join(typing.get_args(kind))}"
    if typing.get_origin(kind) is tuple:
        return "list of texts"
    return _WORDS[kind]


def toml_value(value: Any) -> str:
    """A setting's value as TOML has it; ``unset`` for None, which TOML has no form for."""
    if value is None:
        return "unset"
    if isinstance(value, tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, str):
        # A JSON string is a TOML string, but for DEL. Bytes of a variable that are no text are shown as such.
        text = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        return text.encode("utf-8", "backslashreplace").decode("utf-8")
    return str(value).lower() if isinstance(value, bool) else repr(value)


def config_help(loaded: Loaded) -> str:
    """Every setting: its value now and where it came from, type, default, variable, and what it does."""
    defaults = AgentConfig()
    blocks = [
        f"Settings come from {config_path()}, then {REPOSITORY_FILE.as_posix()} of a trusted repository, "
        "then the environment, then what is given with a command; the later counts."
    ]
    for key in KEYS:
        value, default = getattr(loaded.config, key), getattr(defaults, key)
        source = loaded.sources[key]
        origin = {DEFAULT: "the default", GIVEN: "given with the command"}.get(source, f"from {source}")
        kind = f"{type_words(key)}; default {toml_value(default)}; {variable_of(key)}"
        blocks.append(
            f"{key} = {toml_value(value)}  ({origin})\n{_wrapped(kind)}\n{_wrapped(documentation()[key])}"
        )
    blocks += [f"warning: {each}" for each in loaded.warnings]
    return "\n\n".join(blocks) + "\n"


def config_template() -> str:
    """A config file in which every setting is there, behind ``#``, with what it does."""
    defaults = AgentConfig()
    blocks = ["## Settings of PACE Local. Take the one # away before a line to change what it sets."]
    for key in KEYS:
        default = getattr(defaults, key)
        if default is None or default in ("", ()):
            line = f"# {key} = {toml_value(_EXAMPLES[key])}"
            text = f"{documentation()[key]} For example:"
        else:
            line = f"# {key} = {toml_value(default)}"
            text = documentation()[key]
        blocks.append(f"{_wrapped(text, '## ')}\n{line}")
    return "\n\n".join(blocks) + "\n"


def _wrapped(text: str, indent: str = "    ") -> str:
    # Names with hyphens, such as accept-edits, stay whole.
    return textwrap.fill(
        text,
        _WIDTH,
        initial_indent=indent,
        subsequent_indent=indent,
        break_on_hyphens=False,
        break_long_words=False,
    )
