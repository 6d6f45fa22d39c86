"""What kind of task a prompt is, by its form."""

from __future__ import annotations

import re
from dataclasses import dataclass

ANSWER_ONLY = "All files stay as they are."
"""A sentence that makes any prompt a question."""

_EDIT = (
    "adapt add adjust allow append apply avoid build bump catch change check clean convert correct "
    "create debug decrease define delete deprecate disable drop enable ensure escape expose extend "
    "extract fix format give handle hide implement improve increase initialise initialize inline insert "
    "install integrate introduce invert join keep let limit load log lower make mark merge migrate "
    "modify move optimise optimize parse polish port prevent print process raise record reduce refactor "
    "register reject remove rename reorder repair replace require resolve restore restrict return reuse "
    "revert rewrite round save separate set simplify skip solve sort speed split stop store strip "
    "support swap switch throw tidy translate truncate turn type undo unify update upgrade use validate "
    "wrap write"
)
_POLITE = re.compile(
    r"^(?:please|kindly|now|then|also|and|so|ok|okay|hi|hello|hey|next|first|finally|"
    r"i want you to|i need you to|"
    r"you should|you must|we should|we need to|i want to|i need to|"
    r"i would like to|"
    r"i'd like to|let's|lets|"
    r"(?:can|could|will|would) (?:you|we)(?: please)?|help me(?: to)?|try to)\b[,:]?\s*",
    re.IGNORECASE,
)
_DOES = re.compile(rf"(?:{'|'.join(_EDIT.split())})\b(?!\s*[:=(.])", re.IGNORECASE)
_THEN_DOES = re.compile(rf"\b(?:and|then|to|,)\s+(?:then\s+)?(?:{'|'.join(_EDIT.split())})\b", re.IGNORECASE)
_ASKS = re.compile(
    r"(?:what|why|how|where|which|who|whose|when|is|are|does|do|did|has|have|was|were|can|could|should|would|will|"
    r"explain|describe|summari[sz]e|tell me|show me|list (?:the|all|every)|find out|look (?:at|for)|review|"
    r"analy[sz]e|compare|outline)\b",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_FENCED = re.compile(r"^ {0,3}(`{3,}|~{3,}).*?^ {0,3}\1", re.MULTILINE | re.DOTALL)
_BULLET = re.compile(r"^\s*(?:[-*+•]|\d+[.)])\s+")

_NAME = r"[^\W\d][\w$]*(?:(?:\.|::|->|#)[^\W\d][\w$]*)*"
_RENAME = re.compile(
    r"\b(?:renam(?:e|ing)|change (?:the )?name of)\b(?P<what>[^\n;]{1,160}?)\s+"
    rf"(?:to|into|as|->|→|=>)\s+(?:be (?:called|named)\s+)?[`'\"“‘]?(?P<new>{_NAME})",
    re.IGNORECASE,
)
_FAILS = r"\b(?:fail(?:s|ed|ing|ures?)?|broken|red|pass(?:es|ed|ing)?|green)\b"
_CHECKS = r"\b(?:tests?|checks?|suite|build|ci|test_\w+|\w+_test)\b"
_TESTS = re.compile(rf"{_FAILS}[^.\n]{{0,80}}{_CHECKS}|{_CHECKS}[^\n]{{0,120}}{_FAILS}", re.IGNORECASE)
_REPAIRS = re.compile(
    r"\b(?:fix|repair|debug|solve|resolve|correct|bug|crash(?:es)?|error|exception|traceback|wrong)\b",
    re.IGNORECASE,
)
_OPTION = re.compile(
    r"\b(?:add|introduce|support|implement|provide|give|want|need|create|accept|new)\b[^\n]{0,100}?"
    r"(?:\b(?:flags?|switch|cli (?:option|argument|parameter)|command[- ]line|command line|options?\s+`?-)"
    r"|(?<![\w-])`?--[a-z])",
    re.IGNORECASE,
)
_OPTION_NAME = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*")


@dataclass(frozen=True)
class Rename:
    """What a prompt wants renamed."""

    what: str
    """The words that say what."""
    new: str


def is_question(prompt: str) -> bool:
    """Whether a prompt asks for an answer only: it says so, or none of its sentences asks for a change."""
    if ANSWER_ONLY in prompt:
        return True
    text = _FENCED.sub(" ", prompt)
    asks = False
    for sentence in _SENTENCE.split(text):
        plain = _BULLET.sub("", sentence).strip(" \t\"'`*")
        is_request = False
        while (polite := _POLITE.match(plain)) and polite.end():
            is_request = True
            plain = plain[polite.end() :]
        is_asking = bool(_ASKS.match(plain)) or (plain.endswith("?") and not is_request)
        if _DOES.match(plain) or (
            not _is_how(plain) and _THEN_DOES.search(plain) and not plain.endswith("?")
        ):
            return False
        asks = asks or is_asking
    return asks


def _is_how(sentence: str) -> bool:
    return bool(
        re.match(r"(?:how|what|where|which|why|explain|describe|tell|show)\b", sentence, re.IGNORECASE)
    )


def rename_in(prompt: str) -> Rename | None:
    """What is to be renamed and how it is to be called; None if nothing is."""
    match = _RENAME.search(prompt)
    if match is None:
        return None
    return Rename(match["what"].strip(), re.sub(r"::|->|#", ".", match["new"]).rpartition(".")[2])


def is_about_failures(prompt: str) -> bool:
    """Whether tests or a build are to be made to pass."""
    return bool(_TESTS.search(prompt))


def is_repair(prompt: str) -> bool:
    """Whether something wrong is to be put right."""
    return bool(_REPAIRS.search(prompt))


def is_about_option(prompt: str) -> bool:
    """Whether a command is to have a new option."""
    return bool(_OPTION.search(prompt))


def options_in(prompt: str) -> tuple[str, ...]:
    """Options that a prompt names, such as ``--dry-run``."""
    return tuple(dict.fromkeys(_OPTION_NAME.findall(prompt)))
