"""Choosing the excerpts that a prompt needs.

In this order: excerpts that define what the prompt names; the other parts of a named definition that was
cut inside; definitions of what those definitions use (one step); files that the prompt names; excerpts
that mention a name; and by BM25 those that share words with the prompt. A prompt that names nothing
that is defined starts from the excerpt that fits it best, and the constants which that one uses.

Some groups may take only a share of the budget until the later ones had their turn, so that one name that
is used everywhere does not push out the rest.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, zip_longest
from pathlib import PurePath

from pace_local.errors import ConfigError
from pace_local.excerpts.excerpt import CountTokens, Definition, Excerpt, Pick
from pace_local.excerpts.index import MOST_DEFINERS, ExcerptIndex, Site
from pace_local.excerpts.names import Name, is_constant, named_files, prompt_names
from pace_local.excerpts.words import prompt_terms, word_terms

_SHARE_PARTS = 0.5
_SHARE_USES = 0.4
_SHARE_MENTIONS = 0.5
_SHARE_CONSTANTS = 0.5

_MOST_PASSED = 20
"""Excerpts of a group that do not fit: after so many, what still fits is too far down to matter."""

_KIND_ORDER = {
    "function": 0,
    "type": 0,
    "macro": 0,
    "value": 0,
    "module": 1,
    "key": 2,
    "field": 2,
    "section": 3,
}

_Reasoned = Iterable[tuple[int, str]]
"""Indices of excerpts, each with the reason to pick it."""


def pick(
    prompt: str, excerpts: Sequence[Excerpt] | ExcerptIndex, budget_tokens: int, count_tokens: CountTokens
) -> list[Pick]:
    """Choose the excerpts that an answer to a prompt needs.

    Args:
        prompt: the question or task.
        excerpts: those of all files, file after file; or an index of them, to pick for several prompts.
        budget_tokens: most tokens of all picks together.
        count_tokens: counts the tokens of a text; called on excerpts that may be picked only.

    Returns:
        Picks, the most relevant first; whole excerpts, each once. An excerpt too large for what is left of
        the budget is passed over; if the most relevant one is larger than the whole budget, it is the
        only pick and marked ``too_large``. Equal ones stand in the order of ``excerpts``. If the prompt
        shares nothing with any excerpt, the beginnings of the files.

    Raises:
        ConfigError: ``budget_tokens`` is below 1.
    """
    if budget_tokens < 1:
        raise ConfigError(f"excerpts cannot be picked for {budget_tokens} tokens; use a budget of 1 or more")
    index = excerpts if isinstance(excerpts, ExcerptIndex) else ExcerptIndex(excerpts)
    ranking = _Ranking(prompt, index)
    picks: dict[int, Pick] = {}
    sizes: dict[int, int] = {}
    left = budget_tokens
    for share, group in ranking.groups():
        allowance = min(left, int(budget_tokens * share))
        passed = 0
        for at, reason in group:
            if at in picks:
                continue
            if at not in sizes:
                sizes[at] = count_tokens(index.excerpts[at].text)
            if not picks and sizes[at] > budget_tokens:
                return [Pick(index.excerpts[at], reason, sizes[at], ranking.scores[at], too_large=True)]
            if sizes[at] <= allowance:
                picks[at] = Pick(index.excerpts[at], reason, sizes[at], ranking.scores[at])
                allowance -= sizes[at]
                left -= sizes[at]
            else:
                passed += 1
            if allowance <= 0 or passed == _MOST_PASSED:
                break
    return list(picks.values())


class _Ranking:
    """What a prompt has to do with each excerpt. Excerpts are known by their index."""

    def __init__(self, prompt: str, index: ExcerptIndex) -> None:
        self._index = index
        self._excerpts = index.excerpts
        self._files = set(named_files(prompt, index.paths))
        self._names = [name for name in prompt_names(prompt) if not self._is_file(name)]
        self._terms = set(prompt_terms(prompt))
        self.scores = index.words.scores(prompt)
        """BM25 alone."""
        self._relevance = list(self.scores)
        """BM25, and for each name that is mentioned what a rare word would add; twice that if it is sure."""
        self._mentions: list[list[Name]] = [[] for _ in self._excerpts]
        self._rare: set[Name] = set()
        """Names that few excerpts mention, so that one which does is likely to be meant."""
        for name in self._names:
            self._weigh_mentions(name)

    def groups(self) -> Iterator[tuple[float, _Reasoned]]:
        """Groups in the order of importance, each with its share of the budget."""
        defining = self._defining()
        yield 1.0, ((at, f"defines {definition.name}") for at, definition in defining)
        yield _SHARE_PARTS, self._parts(defining)
        yield _SHARE_USES, self._uses(defining)
        if not defining and any(self._relevance):
            best = self._best()
            yield 1.0, [(best, self._reason(best))]
            yield _SHARE_CONSTANTS, self._constants_of(best)
        yield 1.0, self._in_named_files(lambda at: self._relevance[at] > 0)
        yield _SHARE_MENTIONS, self._by_relevance(lambda at: not self._rare.isdisjoint(self._mentions[at]))
        yield 1.0, self._by_relevance(lambda at: self._relevance[at] > 0)
        yield 1.0, self._in_named_files(lambda at: True)
        if not defining and not self._files and not any(self._relevance):
            yield 1.0, self._beginnings()

    def _is_file(self, name: Name) -> bool:
        return any(path.casefold().endswith(name.text.casefold()) for path in self._files)

    def _weigh_mentions(self, name: Name) -> None:
        sought = name.text.casefold()
        places = [
            at
            for at, excerpt in enumerate(self._excerpts)
            if (sought in excerpt.text.casefold() if name.is_phrase else name.leaf in excerpt.mentions)
        ]
        is_rare = len(places) <= max(MOST_DEFINERS, len(self._excerpts) // 20)
        if not is_rare and not name.is_sure:
            return  # then it may be a plain word
        if is_rare:
            self._rare.add(name)
        bonus = (2 if name.is_sure else 1) * math.log1p(len(self._excerpts) / (1 + len(places)))
        for at in places:
            self._mentions[at].append(name)
            self._relevance[at] += bonus

    def _defining(self) -> list[Site]:
        """Excerpts that define a name of the prompt: the best of each name first, then the second of each."""
        rows = [self._definers_of(name) for name in self._names]
        turns = chain.from_iterable(zip_longest(*rows))
        first: dict[int, Definition] = {}
        for site in turns:
            if site is not None:
                first.setdefault(*site)
        return list(first.items())

    def _definers_of(self, name: Name) -> list[Site]:
        sites = self._index.best_sites(name)
        sites.sort(
            key=lambda site: (
                self._excerpts[site[0]].path not in self._files,
                _KIND_ORDER[site[1].kind],
                -self._relevance[site[0]],
                site[0],
            )
        )
        return sites[:MOST_DEFINERS]

    def _parts(self, defining: list[Site]) -> _Reasoned:
        """The rest of each definition that goes on after its excerpt."""
        for at, definition in defining:
            parts = self._index.rest_of(at, definition)
            for part in sorted(parts, key=lambda part: (-self._relevance[part], part)):
                yield part, f"part of {definition.name}"

    def _uses(self, defining: list[Site]) -> _Reasoned:
        """Definitions of what the named definitions use: constants first, then the more relevant."""
        asked = {name.leaf for name in self._names}
        found: dict[int, tuple[tuple[bool, int, float], str]] = {}
        for at, definition in defining:
            for used in self._index.identifiers_of(at, definition):
                if used in asked:
                    continue
                for site, target in self._index.resolved(used, at):
                    order = (not is_constant(used), _KIND_ORDER[target.kind], -self._relevance[site])
                    reason = f"defines {target.name}, used by {definition.name}"
                    if site not in found or order < found[site][0]:
                        found[site] = (order, reason)
        for site, (_, reason) in sorted(found.items(), key=lambda item: (item[1][0], item[0])):
            yield site, reason

    def _best(self) -> int:
        """The most relevant excerpt, of the named files if there are any."""
        return min(
            range(len(self._excerpts)),
            key=lambda at: (self._excerpts[at].path not in self._files, -self._relevance[at], at),
        )

    def _constants_of(self, at: int) -> _Reasoned:
        """Definitions of the constants that an excerpt uses and that share a word with the prompt."""
        place = f"{self._file(at)}:{self._excerpts[at].start_line}"
        for used in self._index.identifiers_of(at):
            is_asked = is_constant(used) and not self._terms.isdisjoint(word_terms(used))
            for site, target in self._index.resolved(used, at) if is_asked else ():
                yield site, f"defines {target.name}, used at {place}"

    def _in_named_files(self, is_wanted: Callable[[int], bool]) -> _Reasoned:
        return self._by_relevance(lambda at: self._excerpts[at].path in self._files and is_wanted(at))

    def _by_relevance(self, is_wanted: Callable[[int], bool]) -> _Reasoned:
        wanted = [at for at in range(len(self._excerpts)) if is_wanted(at)]
        for at in sorted(wanted, key=lambda at: (-self._relevance[at], at)):
            yield at, self._reason(at)

    def _reason(self, at: int) -> str:
        if self._mentions[at]:
            return "mentions " + ", ".join(name.text for name in self._mentions[at])
        if self._excerpts[at].path in self._files:
            return f"named file {self._file(at)}"
        return f"bm25 {self.scores[at]:.1f}"

    def _file(self, at: int) -> str:
        return PurePath(self._excerpts[at].path).name

    def _beginnings(self) -> _Reasoned:
        """The first excerpt of each file, then the second of each, and so on."""
        rows: dict[str, list[int]] = defaultdict(list)
        for at, excerpt in enumerate(self._excerpts):
            rows[excerpt.path].append(at)
        for at in chain.from_iterable(zip_longest(*rows.values())):
            if at is not None:
                yield at, f"beginning of {self._file(at)}"
