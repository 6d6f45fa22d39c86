"""Runs a chat template in a sandbox, on conversations whose contents are sentinels."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import TemplateError, nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from pace_local.errors import ConfigError, ModelError

# Letters only, so that no template trims or escapes them.
SENTINELS = ("QzvxAjwkq", "QzvxBjwkq", "QzvxCjwkq", "QzvxDjwkq", "QzvxEjwkq")
"""Contents of the turns of a conversation that is only rendered to see what stands around them."""

_RESERVED = ("messages", "tools", "documents", "add_generation_prompt", "bos_token", "eos_token")


class TemplateProbe:
    """A compiled chat template that can be asked what it writes around turns.

    Args:
        source: the Jinja text.
        bos: text of the begin-of-sequence token.
        eos: text of the end-of-sequence token.
        name: the model's name, for error messages.
        now: the moment that ``strftime_now`` shows.
        options: further variables for the template.

    Raises:
        ModelError: the template does not compile.
        ConfigError: an option has the name of a variable that is set here.
    """

    def __init__(
        self,
        source: str,
        *,
        bos: str,
        eos: str,
        name: str,
        now: datetime.datetime,
        options: Mapping[str, object],
    ) -> None:
        self._name = name
        self._variables = {"bos_token": bos, "eos_token": eos, **options}
        for reserved in _RESERVED:
            if reserved in options:
                raise ConfigError(f"template option {reserved!r} is set by the session; leave it out")
        try:
            self._template = _environment(now).from_string(source)
        except (TemplateError, RecursionError) as error:
            raise self.broken(error) from None
        self._typed_content = False  # a list of parts instead of a string
        self._tools: tuple[()] | None = None
        self._failure: Exception | None = None
        self._cache: dict[tuple[tuple[str, ...], bool], list[str] | None] = {}

    def find_form(self) -> list[str] | None:
        """Find the form of input that the template takes; the pieces of a lone question in it."""
        failures: list[Exception | None] = []
        for self._typed_content in (False, True):
            for self._tools in (None, ()):
                self._cache.clear()
                self._failure = None
                question = self.pieces("user")
                if question is not None:
                    return question
                failures.append(self._failure)
        self._failure = failures[0]  # of the usual form: what the others say would mislead
        return None

    def render(self, messages: Sequence[Mapping[str, Any]], generate: bool) -> str | None:
        """The conversation as the template renders it, or None if it refuses or fails.

        Raises:
            ModelError: the template tried to break out of the sandbox.
        """
        try:
            return self._template.render(
                messages=messages,
                tools=self._tools,
                documents=None,
                add_generation_prompt=generate,
                **self._variables,
            )
        except SecurityError as error:
            raise self.broken(error) from None
        except Exception as error:  # a template is a program of someone else's: it may fail in any way
            self._failure = error
            return None

    def pieces(self, *roles: str, generate: bool = False) -> list[str] | None:
        """Texts before, between and after the contents of a conversation of these roles.

        None if the template refuses it, drops a content, repeats one or changes their order.
        """
        key = (roles, generate)
        if key not in self._cache:
            self._cache[key] = self._ask(roles, generate)
        return self._cache[key]

    def _ask(self, roles: tuple[str, ...], generate: bool) -> list[str] | None:
        sentinels = SENTINELS[: len(roles)]
        rest = self.render(
            [self.message(role, text) for role, text in zip(roles, sentinels, strict=True)], generate
        )
        if rest is None or any(rest.count(sentinel) != 1 for sentinel in sentinels):
            return None
        pieces = []
        for sentinel in sentinels:
            before, found, rest = rest.partition(sentinel)
            if not found:
                return None
            pieces.append(before)
        return [*pieces, rest]

    def message(self, role: str, text: str) -> dict[str, Any]:
        """A turn in the form that the template takes."""
        return {"role": role, "content": [{"type": "text", "text": text}] if self._typed_content else text}

    def broken(self, error: Exception | None = None) -> ModelError:
        """What to raise for a template that cannot be used; by default for what went wrong last."""
        error = error or self._failure
        reason = " ".join(str(error).split()) if error else "it drops or repeats the text of a turn"
        line = getattr(error, "lineno", None)
        where = f" (line {line})" if line else ""
        owner = f" of {self._name}" if self._name else ""
        return ModelError(
            f"chat template{owner} cannot be used{where}: {reason}; choose another model or template"
        )


class _Refusal(Exception):  # noqa: N818 - a template's answer, not an error of this program
    """``raise_exception`` was called by a template."""


class _Generation(Extension):
    """``{% generation %}`` marks answers for training; rendering passes its body through."""

    tags = {"generation"}  # noqa: RUF012 - declared so by jinja2

    def parse(self, parser: Parser) -> nodes.Node | list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _environment(moment: datetime.datetime) -> ImmutableSandboxedEnvironment:
    def raise_exception(message: str) -> None:
        raise _Refusal(message)

    def tojson(
        value: object,
        ensure_ascii: bool = False,
        indent: int | None = None,
        separators: tuple[str, str] | None = None,
        sort_keys: bool = False,
    ) -> str:
        # Jinja's own filter escapes for HTML, which a model has never seen.
        return json.dumps(
            value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
        )

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, _Generation]
    )
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = moment.strftime
    return environment
