"""Chat turns as text that only ever grows, derived from a model's own template.

A chat template renders a whole conversation at once, and many rewrite what they rendered before:
they strip reasoning from earlier answers, inject a default system prompt, refuse two user turns in
a row. A session cannot use that: what was decoded is in the cache, and cannot be rendered again.

So the template is asked once, at load, about short conversations whose contents are sentinels. The
text around the sentinels is the framing of each turn, and framing is all that a session needs: it
decodes ``prefix + content + suffix`` for each turn, after what is there. The result equals the full
render of the same conversation for a template that rewrites nothing, and the render of each turn as
it was when it was last for one that does. Nothing here knows any template by name.

Where a template cannot say what is asked of it, these rules hold:

- *Two turns of a user in a row*, where the template wants user and assistant to alternate: the
  second is framed as if an answer stood before it.
- *System text that the template refuses or drops*: it is the first paragraph of the next user turn.
  ``frame("system")`` opens that user turn and ends in a blank line; the user turn after it has an
  empty prefix. Templates that themselves write system text inside the first user turn are driven
  the same way, with their own words.
- *System text later in the session*, where the template takes it only first: a user turn of its own.
- *Tool results* that the template refuses or drops: a user turn.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from pace_local.chat_probe import SENTINELS, TemplateProbe
from pace_local.errors import ConfigError

ROLES = ("system", "user", "assistant", "tool")

CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
"""Used when a model brings no template but knows the token ``<|im_start|>``."""

PLAIN = (
    "{% for message in messages %}"
    "{% if message.role == 'system' %}{{ message.content + '\\n\\n' }}"
    "{% elif message.role == 'assistant' %}{{ 'Assistant: ' + message.content + '\\n' }}"
    "{% else %}{{ 'User: ' + message.content + '\\n' }}{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}"
)
"""Used when a model brings no template and no chat tokens: a base model, most likely."""

# How a session comes to a turn of each role: the shortest conversation that ends in it.
_CONTEXT = {
    "system": ("system",),
    "user": ("user",),
    "assistant": ("user", "assistant"),
    "tool": ("user", "assistant", "tool"),
}
_JOINT = "\n\n"


@dataclass(frozen=True, slots=True)
class Framing:
    """The text around one turn's content."""

    prefix: str
    """All that comes before the content and after the turn before it."""
    suffix: str
    """All that comes after the content and belongs to this turn."""
    implied_system: str = ""
    """The start of ``prefix`` that is a system turn of the template's own, framing and BOS included."""
    has_bos: bool = False
    """Whether ``prefix`` holds the BOS text, so that the tokenizer must not add the token again."""

    @property
    def own_prefix(self) -> str:
        """``prefix`` without the implied system turn."""
        return self.prefix[len(self.implied_system) :]


@dataclass(frozen=True, slots=True)
class Closing:
    """The text after a turn's content, cut at the token that ends a turn.

    An answer that the model ended with ``end`` needs only ``rest`` after it. One that was cut short, or
    ended with another token that ends generation (which is then not part of the conversation), needs all
    three. ``end`` is empty where the template writes no such token.
    """

    lead: str
    end: str
    rest: str

    @property
    def text(self) -> str:
        """All of it, as ``Framing.suffix`` has it."""
        return self.lead + self.end + self.rest


class ChatTemplate:
    """A chat template, compiled in a sandbox and reduced to the framing of turns.

    Args:
        source: the Jinja text, as the GGUF holds it in ``tokenizer.chat_template``.
        bos: text of the begin-of-sequence token, "" if the vocabulary has none.
        eos: text of the end-of-sequence token, "" if the vocabulary has none.
        name: the model's name, for error messages.
        end_tokens: texts of all tokens that end generation. Without it, what stands between white
            space at the end of an answer is taken to be that token.
        now: the moment that ``strftime_now`` shows for as long as this object lives; by default the
            moment of construction.
        options: further variables for the template, such as ``{"enable_thinking": False}``.

    Raises:
        ModelError: the template does not compile, breaks out of the sandbox, or cannot render a
            question and its answer.
        ConfigError: an option has the name of a variable that is set here.

    Attributes:
        supports_system: whether the template renders system text that stands first.
        supports_tool: whether it renders tool results.
        needs_alternation: whether it refuses or drops one of two user turns in a row.
        rewrites_history: whether rendering a session again would change what was decoded: a later turn
            changes an earlier one, or reasoning is left out of an answer.
        warning: one line if this is a stand-in for a template that the model does not have, else "".
    """

    def __init__(
        self,
        source: str,
        *,
        bos: str,
        eos: str,
        name: str = "",
        end_tokens: Collection[str] | None = None,
        now: datetime.datetime | None = None,
        options: Mapping[str, object] | None = None,
    ) -> None:
        self.source = source
        self.bos = bos
        self.eos = eos
        self.name = name
        self.warning = ""
        self._end_tokens = end_tokens
        moment = now or datetime.datetime.now().astimezone()
        self._probe = TemplateProbe(source, bos=bos, eos=eos, name=name, now=moment, options=options or {})
        self._learn()

    @classmethod
    def from_model(
        cls,
        source: str | None,
        *,
        bos: str,
        eos: str,
        has_chatml: bool,
        name: str = "",
        end_tokens: Collection[str] | None = None,
        now: datetime.datetime | None = None,
        options: Mapping[str, object] | None = None,
    ) -> ChatTemplate:
        """The model's own template, or a stand-in with ``warning`` set if it has none.

        Args:
            source: the template, or None if the GGUF holds none.
            bos: as for the constructor.
            eos: as for the constructor.
            has_chatml: whether the vocabulary has the token ``<|im_start|>``.
            name: as for the constructor.
            end_tokens: as for the constructor.
            now: as for the constructor.
            options: as for the constructor.

        Raises:
            ModelError, ConfigError: as the constructor.
        """
        chosen = source or (CHATML if has_chatml else PLAIN)
        template = cls(chosen, bos=bos, eos=eos, name=name, end_tokens=end_tokens, now=now, options=options)
        if not source:
            form = "ChatML" if has_chatml else 'plain "User: … Assistant:" text'
            template.warning = f"{name or 'the model'} brings no chat template; turns are written as {form}"
        return template

    def render(self, messages: Sequence[Mapping[str, Any]], *, add_generation_prompt: bool = False) -> str:
        """The whole conversation as the template itself renders it; what frames are checked against.

        Raises:
            ModelError: the template refuses this conversation.
        """
        text = self._probe.render(messages, add_generation_prompt)
        if text is None:
            raise self._probe.broken()
        return text

    def frame(self, role: str, *, first: bool, previous: str | None) -> Framing:
        """The framing of one turn; the same for the same arguments, whatever was said before.

        Args:
            role: "system", "user", "assistant" or "tool".
            first: whether nothing was decoded before this turn.
            previous: the role of the turn before, as it was framed; None on the first.

        Raises:
            ConfigError: an unknown role, or ``previous`` missing where it is needed.
        """
        role = self._known(role)
        if first:
            prefix, implied = self._first(role)
        else:
            prefix, implied = self._opening(role, self._known(previous)), ""
        suffix = self._mid_system_close if role == "system" and not first else self._close[role]
        return Framing(prefix, suffix, implied, bool(self.bos) and self.bos in prefix)

    def generation_prefix(self, previous: str) -> str:
        """What opens the answer to a turn of role ``previous``, up to where the model starts.

        A template that ignores ``add_generation_prompt`` adds nothing there; then it is what the
        template writes before an answer, if that is more than white space.

        Raises:
            ConfigError: an unknown role.
        """
        previous = self._known(previous)
        if previous == "system" and self._system_joined:
            return self._close["user"] + self._generation["user"]
        return self._generation[previous]

    def close_turn(self, role: str) -> Closing:
        """What follows the content of a turn, cut at the token that ends it.

        Raises:
            ConfigError: an unknown role.
        """
        text = self._close[self._known(role)]
        found = [token for token in {*(self._end_tokens or ()), self.eos} if token and token in text]
        if found:
            end = min(found, key=lambda token: (text.find(token), -len(token)))
        else:
            end = text.strip() if self._end_tokens is None else ""
        if not end:
            return Closing("", "", text)
        lead, _, rest = text.partition(end)
        return Closing(lead, end, rest)

    # Learning the framing, once.

    def _learn(self) -> None:
        question = self._probe.find_form()
        exchange = question and self._probe.pieces("user", "assistant", "user")
        if not question or not exchange or not self._probe.pieces("user", "assistant"):
            raise self._probe.broken()

        self._close = {"user": self._learn_close("user", "assistant")}
        repeated = self._probe.pieces("user", "user")
        self.needs_alternation = repeated is None
        opening = repeated[1].removeprefix(self._close["user"]) if repeated else ""
        if opening and exchange[2].endswith(opening):
            # Not what ends an answer that stands last: some write another token there, or none.
            self._close["assistant"] = exchange[2].removesuffix(opening)
        else:
            self._close["assistant"] = self._learn_close("assistant", "user")
        self._user_opening = exchange[2].removeprefix(self._close["assistant"])
        self._learn_first(question[0])
        self._learn_system()
        self._learn_tool()
        self._generation = {role: self._learn_generation(role) for role in ROLES}
        self.rewrites_history = self._learn_rewriting()

    def _learn_close(self, role: str, successor: str) -> str:
        """What follows a content whatever comes next: the common start of all that may follow it."""
        context = _CONTEXT[role]
        last = self._probe.pieces(*context)
        prompted = self._probe.pieces(*context, generate=True)
        followed = self._probe.pieces(*context, successor)
        tails = [pieces[at] for pieces, at in ((last, -1), (prompted, -1), (followed, -2)) if pieces]
        columns = takewhile(lambda column: len(set(column)) == 1, zip(*tails, strict=False))
        common = "".join(column[0] for column in columns)
        if common not in tails:
            # They part inside a word or a marker, as in "<|" of two tokens: that belongs to what comes next.
            while common[-1:].isalnum():
                common = common[:-1]
            for opening, closing in ("<>", "[]"):
                if common.rfind(opening) > common.rfind(closing):
                    common = common[: common.rfind(opening)]
        return common

    def _learn_first(self, prefix: str) -> None:
        self._first_user = prefix
        self._first_lead = self.bos if self.bos and prefix.startswith(self.bos) else ""
        if self._user_opening and prefix.endswith(self._user_opening):
            self._first_lead = prefix.removesuffix(self._user_opening)
        self._implied_system = self._first_lead if self._first_lead.removeprefix(self.bos).strip() else ""

    def _learn_system(self) -> None:
        led = self._probe.pieces("system", "user")
        self.supports_system = led is not None
        self._mid_system = False
        if led is None:
            self._system_joined = True
            self._close["system"] = self._mid_system_close = _JOINT
            return
        opening, between, _ = led
        self._first_system = opening
        self._system_joined = not (self._user_opening and between.endswith(self._user_opening))
        if self._system_joined:
            self._close["system"] = between
            self._mid_system_close = _JOINT
            default = self._first_user[len(opening) : len(self._first_user) - len(between)]
            if default.strip() and self._first_user == opening + default + between:
                self._implied_system = self._first_user
            return
        self._close["system"] = between.removesuffix(self._user_opening)
        self._mid_system_close = self._close["user"]
        later = self._probe.pieces("user", "assistant", "system", "user")
        if later and later[2].startswith(self._close["assistant"]) and later[3] == between:
            self._mid_system = True
            self._mid_system_close = self._close["system"]

    def _learn_tool(self) -> None:
        after_answer = self._probe.pieces(*_CONTEXT["tool"])
        self.supports_tool = after_answer is not None and after_answer[2].startswith(self._close["assistant"])
        if self.supports_tool:
            self._close["tool"] = self._learn_close("tool", "assistant")

    def _learn_generation(self, role: str) -> str:
        if role == "tool" and not self.supports_tool:
            role = "user"
        asked = self._probe.pieces(*_CONTEXT[role], generate=True)
        if role != "user" and (asked is None or not asked[-1].startswith(self._close[role])):
            return self._learn_generation("user")
        added = asked[-1].removeprefix(self._close[role]) if asked else ""
        if not added and (asked is None or asked == self._probe.pieces(*_CONTEXT[role])):
            written = self._opening("assistant", role)
            return written if written.strip() else ""
        return added

    def _learn_rewriting(self) -> bool:
        message = self._probe.message
        reasoned = f"<think>\n{SENTINELS[3]}\n</think>\n\n{SENTINELS[1]}"
        start = [message("system", SENTINELS[4])] if self.supports_system else []
        for answer in (SENTINELS[1], reasoned):
            turns = list(start)
            history = ""
            for role, text in (("user", SENTINELS[0]), ("assistant", answer), ("user", SENTINELS[2])):
                turns.append(message(role, text))
                rendered = self._probe.render(turns, False) or ""
                if not rendered.startswith(history) or text not in rendered:
                    return True
                # Up to the end of the content: what follows it may depend on what comes next.
                history = rendered[: rendered.rfind(text[-9:]) + 9]
        return False

    # Composing frames from what was learned.

    def _known(self, role: str | None) -> str:
        if role not in ROLES:
            raise ConfigError(f"unknown chat role {role!r}; use one of {', '.join(ROLES)}")
        return "user" if role == "tool" and not self.supports_tool else role

    def _first(self, role: str) -> tuple[str, str]:
        if role == "system" and self.supports_system:
            return self._first_system, ""
        if role in ("system", "user"):
            return self._first_user, self._implied_system
        implied = self._implied_system if self._first_lead.startswith(self._implied_system) else ""
        return self._first_lead + self._opening(role, "user" if role == "assistant" else "assistant"), implied

    def _opening(self, role: str, previous: str) -> str:
        """What comes between the end of a turn of role ``previous`` and the content of the next."""
        if previous == "system" and self._system_joined:
            # The system text stands in a user turn that is still open.
            return (
                ""
                if role in ("system", "user", "tool")
                else self._close["user"] + self._opening(role, "user")
            )
        if role == "system" and not self._mid_system:
            return self._user_opening
        pieces = self._probe.pieces(*_CONTEXT[previous], role)
        if pieces is not None and pieces[-2].startswith(self._close[previous]):
            return pieces[-2].removeprefix(self._close[previous])
        # The neutral context: an answer follows a question, all else follows an answer.
        return self._opening(role, "user" if role == "assistant" else "assistant")
