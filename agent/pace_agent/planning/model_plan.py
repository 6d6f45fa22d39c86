"""What a model wrote as its plan, made usable."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from pace_agent.editing.new_files import new_files
from pace_agent.planning.planned_step import PlannedStep
from pace_agent.repository.file_facts import Place
from pace_agent.repository.index import RepositoryIndex

MOST_STEPS = 12
"""Of a plan that is taken; the tool that takes it allows fewer."""

MOST_WRITTEN = 8
MOST_NAMES = 6
"""Files, and symbols, of a step."""

LONGEST_TEXT = 200
"""Characters of what a step does."""

LONGEST_NAME = 120

_TEXT_KEYS = ("do", "text", "step", "description", "task", "title")
_LIST_KEYS = ("steps", "plan")
_NUMBER = re.compile(r"^\s*(?:step\s*)?\d+\s*[.):-]\s*|^\s*[-*•]\s+", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]{2,}")
_ONLY_LOOKS = re.compile(
    r"(?:read|look|inspect|review|understand|examine|find|locate|search|open|verify|run|"
    r"check (?:that|whether|if)|"
    r"test that|analy[sz]e|explore|study|identify|list|show|explain|describe|answer|summari[sz]e|confirm)\b"
    r"(?![^.]*\b(?:and|then) (?:fix|change|add|update|edit|write|make|rename|remove|replace|implement|"
    r"create))",
    re.IGNORECASE,
)


def parse_plan(document: object, index: RepositoryIndex) -> tuple[PlannedStep, ...] | None:
    """The steps of a plan that a model wrote.

    Files and symbols are looked up, and dropped where the repository has none of that name, unless the step
    is to make it. Steps without words, such as those of an example that was copied, are dropped; steps that
    say the same are one.

    Args:
        document: an object with ``steps``, the list of steps alone, or either as JSON text.
        index: of the repository.

    Returns:
        At most ``MOST_STEPS``; None if nothing is left.
    """
    steps: dict[str, PlannedStep] = {}
    with index.within():
        for item in _items(document):
            step = _step(item, index)
            if step is None:
                continue
            key = " ".join(re.findall(r"\w+", step.text.casefold()))
            steps[key] = _merged(steps[key], step) if key in steps else step
            if len(steps) == MOST_STEPS:
                break
    return tuple(steps.values()) or None


def _items(document: object) -> list[object]:
    if isinstance(document, str):
        try:
            document = json.loads(document, strict=False)
        except (ValueError, RecursionError):
            return []
    if isinstance(document, dict):
        document = next((document[key] for key in _LIST_KEYS if key in document), [document])
    return document if isinstance(document, list) else []


def _step(item: object, index: RepositoryIndex) -> PlannedStep | None:
    if isinstance(item, str):
        item = {"do": item}
    if not isinstance(item, dict):
        return None
    given = next((item[key] for key in _TEXT_KEYS if isinstance(item.get(key), str)), "")
    text = _cut(_NUMBER.sub("", " ".join(given.split())))
    files: dict[str, None] = {}
    symbols: dict[str, None] = {}
    for name in (*_texts(item.get("files")), *_texts(item.get("symbols"))):
        paths, places = _found(name, files, index)
        files.update(dict.fromkeys(paths or new_files(f"{text}: {name}", index)))
        symbols.update(dict.fromkeys(place.name for place in places))
    if not _WORD.search(text):
        return None
    return PlannedStep(
        text,
        tuple(files)[:MOST_NAMES],
        tuple(symbols)[:MOST_NAMES],
        edits=not _ONLY_LOOKS.match(text) and not text.endswith("?"),
    )


def _found(name: str, files: Iterable[str], index: RepositoryIndex) -> tuple[tuple[str, ...], list[Place]]:
    """Files and definitions that a name means; of several definitions those in files named before."""
    paths = index.find_path(name)
    if paths and ":" not in name and "(" not in name and ("/" in name or paths[0].endswith(name)):
        return paths[:1], []
    places = list(index.definitions_of(name))
    own = [one for one in places if one.path in set(files)] or places[:1]
    if own:
        return (), own[:2]
    return paths[:1], []


def _texts(value: object) -> list[str]:
    if isinstance(value, str):
        value = re.split(r"[,\s]+", value)
    given = value if isinstance(value, list) else []
    return [one.strip() for one in given if isinstance(one, str) and one.strip()][: 4 * MOST_NAMES]


def _cut(text: str) -> str:
    if len(text) <= LONGEST_TEXT:
        return text
    return text[: LONGEST_TEXT - 1].rpartition(" ")[0].rstrip() + "…"


def _merged(first: PlannedStep, second: PlannedStep) -> PlannedStep:
    return PlannedStep(
        first.text,
        tuple(dict.fromkeys((*first.files, *second.files)))[:MOST_NAMES],
        tuple(dict.fromkeys((*first.symbols, *second.symbols)))[:MOST_NAMES],
        first.edits or second.edits,
    )
