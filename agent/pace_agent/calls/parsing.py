"""Tool calls in what a model wrote: with prose around, never in reasoning; and what is wrong with them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from pace_agent.calls.answer_stream import AnswerStream
from pace_agent.calls.formats import CallFormat
from pace_agent.tool_type import Tool
from pace_local.fenced import fenced_blocks

_FENCE = re.compile(
    r"^[ \t]*(`{3,})[ \t]*(tool|tool_call|json|)[ \t]*\n(.*?)^[ \t]*\1[ \t]*$", re.DOTALL | re.MULTILINE
)
_ALONE = re.compile(r"^[ \t]*(?:<(?:tools|function_call)>\s*)?(?=\{)", re.MULTILINE)
_ALONE_END = re.compile(r"\s*</(?:tools|function_call)>[ \t]*$|[ \t]*$", re.MULTILINE)
_ARGUMENTS = ("arguments", "parameters", "args", "input")


@dataclass(frozen=True)
class Call:
    """One call as it stood in an answer."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Parsed:
    """What an answer holds."""

    text: str
    """Its prose: without reasoning and without calls."""

    reasoning: str
    calls: tuple[Call, ...]
    """Those before the first that cannot be read: what follows may rest on it."""

    problems: tuple[str, ...] = field(default=())
    """Of each call that cannot be read: what is wrong, for the model to see."""


def parse_answer(
    answer: str, form: CallFormat | None, tools: Sequence[Tool], *, is_reasoning: bool = False
) -> Parsed:
    """Find the calls of an answer.

    Calls count in the form that the model was told, and as a fenced JSON object that names a tool: small
    models mix the two up. Where there is neither, an object that stands alone on its lines counts, or in
    ``<tools>`` or ``<function_call>``, if it names a tool and has arguments. Others are prose.

    Args:
        answer: all that the model wrote.
        form: how it was told to call; None: it was not, and all but reasoning is prose.
        tools: that can be called.
        is_reasoning: whether it begins within reasoning, which the template opened.
    """
    reasoning, text = split_reasoning(answer, form, is_reasoning=is_reasoning)
    if form is None:
        return Parsed(text.lstrip("\r\n"), reasoning, ())
    names = {tool.name for tool in tools}
    calls: list[Call] = []
    problems: list[str] = []
    prose, at = [], 0
    read = [(start, end, *_read(body, names), sure) for start, end, body, sure in _places(text, form)]
    if not any(found or is_certain for _, _, found, _, is_certain in read):
        alone = [(start, end, _read(body, names, is_alone=True)[0]) for start, end, body in _alone(text)]
        read = [(start, end, found, None, False) for start, end, found in alone]
    for start, end, found, said, is_certain in read:
        if start < at:
            continue  # within the one before
        if found is None and not is_certain:
            continue
        prose.append(text[at:start])
        at = end
        calls += [] if found is None or problems else [found]
        problems += [] if said is None else [said]
    prose.append(text[at:])
    return Parsed("".join(prose).strip(), reasoning, tuple(calls), tuple(problems))


def split_reasoning(
    answer: str, form: CallFormat | None = None, *, is_reasoning: bool = False
) -> tuple[str, str]:
    """Reasoning and the rest of an answer. Reasoning that was never ended goes to the end of it.

    Args:
        answer: all that the model wrote.
        form: as for :func:`parse_answer`: nothing is reasoning within a call.
        is_reasoning: as there.
    """
    stream = AnswerStream(form, is_reasoning=is_reasoning)
    parts = groupby([*stream.add(answer), *stream.finish()], key=lambda part: part[0])
    joined = [(kind, "".join(text for _, text in same)) for kind, same in parts]
    reasoning = [text.strip() for kind, text in joined if kind == "reasoning"]
    return "\n".join(reasoning), "".join(text for kind, text in joined if kind != "reasoning")


def _places(text: str, form: CallFormat) -> Iterator[tuple[int, int, str, bool]]:
    """Start, end and body of all that may be a call, in order, and whether it must be one."""
    found = list(_in_form(text, form))
    found += [
        (each.start(), each.end(), each[3], each[2].startswith("tool")) for each in _FENCE.finditer(text)
    ]
    yield from sorted(found, key=lambda place: (place[0], not place[3]))


def _in_form(text: str, form: CallFormat) -> Iterator[tuple[int, int, str, bool]]:
    at = 0
    while (start := text.find(form.opening, at)) >= 0:
        body = start if form.starts_object else start + len(form.opening)
        over = _end_of_object(text, body)
        if form.closing:
            # A text of the object may hold what closes a call, or opens one.
            close = text.find(form.closing, over or body)
            # A missing end is forgiven where the next call begins, or the answer ends.
            following = text.find(form.opening, over or body)
            stop = min((place for place in (close, following) if place >= 0), default=len(text))
            end = stop + len(form.closing) if stop == close else stop
        else:
            stop = end = over or len(text)
        yield start, end, text[body:stop], True
        at = max(end, start + 1)


def _alone(text: str) -> Iterator[tuple[int, int, str]]:
    """Start, end and body of the objects that stand alone on their lines, in no block of code."""
    at = 0
    for opening in _ALONE.finditer(text):
        if opening.start() < at:
            continue  # within the one before
        over = _end_of_object(text, opening.end())
        closing = None if over is None else _ALONE_END.match(text, over)
        if closing is None:
            continue
        blocks = fenced_blocks(text[: opening.start()])
        if not blocks or blocks[-1].is_closed:
            at = closing.end()
            yield opening.start(), at, text[opening.end() : over]


def _end_of_object(text: str, start: int) -> int | None:
    """Where the JSON ends that begins at a place, blanks before it aside; None if there is none."""
    start += len(text[start:]) - len(text[start:].lstrip())
    try:
        return json.JSONDecoder(strict=False).raw_decode(text, start)[1]
    except (ValueError, RecursionError):
        return None


def _read(body: str, names: set[str], *, is_alone: bool = False) -> tuple[Call | None, str | None]:
    """A call, or what is wrong with it; one that stands alone must have arguments."""
    body = body.strip()
    try:
        document = json.loads(body, strict=False)
    except (ValueError, RecursionError) as error:
        return None, f"the call is no JSON object: {error}"
    if isinstance(document, list) and len(document) == 1:
        document = document[0]
    if isinstance(document, dict) and isinstance(document.get("function"), dict):
        document = document["function"]
    if not isinstance(document, dict) or not isinstance(document.get("name"), str):
        return None, 'the call has no "name"; write {"name": …, "arguments": {…}}'
    name = document["name"]
    given: object = next((document[key] for key in _ARGUMENTS if key in document), None if is_alone else {})
    if isinstance(given, str):
        try:
            given = json.loads(given, strict=False)
        except (ValueError, RecursionError):
            given = None
    if name not in names:
        return None, f"there is no tool {name!r}; there are {', '.join(sorted(names))}"
    if not isinstance(given, dict):
        return None, f'the arguments of {name!r} are no object; write "arguments": {{…}}'
    return Call(name, given), None
