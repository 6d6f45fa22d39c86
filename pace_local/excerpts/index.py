"""Excerpts prepared for any number of prompts: what is defined where, and which words stand where."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import PurePath

from pace_local.excerpts.excerpt import Definition, Excerpt
from pace_local.excerpts.layout import split_lines
from pace_local.excerpts.names import Name, all_identifiers, looks_like_name
from pace_local.excerpts.words import WordIndex

MOST_DEFINERS = 3
"""A name that more excerpts define is too common for each of them to matter."""

Site = tuple[int, Definition]
"""Where a name is defined: index of the excerpt, and the definition."""


class ExcerptIndex:
    """The excerpts of some files, in order. Those of white space alone are left out."""

    def __init__(self, excerpts: Sequence[Excerpt]) -> None:
        self.excerpts = [excerpt for excerpt in excerpts if excerpt.text.strip()]
        self.paths = list(dict.fromkeys(excerpt.path for excerpt in self.excerpts))
        self.words = WordIndex(self.excerpts)
        self.sites: dict[str, list[Site]] = defaultdict(list)
        """By the last part of the defined name."""
        for at, excerpt in enumerate(self.excerpts):
            for definition in excerpt.defines:
                self.sites[definition.leaf].append((at, definition))

    def __len__(self) -> int:
        return len(self.excerpts)

    def best_sites(self, name: Name) -> list[Site]:
        """Where a name is defined; for a dotted one only where most of its parts agree."""
        agreement = {site: self._agreement(name, *site) for site in self.sites.get(name.leaf, ())}
        most = max(agreement.values(), default=0)
        return [site for site, parts in agreement.items() if parts == most]

    def _agreement(self, name: Name, at: int, definition: Definition) -> int:
        """How many of a dotted name's last parts a definition has, the name of its file before its own."""
        own = [PurePath(self.excerpts[at].path).stem, *definition.name.split(".")]
        pairs = zip(reversed(name.text.split(".")), reversed(own), strict=False)
        count = 0
        for asked, there in pairs:
            # An instance is often called as its class is: order.total for Order.total.
            if asked.replace("_", "").casefold() != there.replace("_", "").casefold():
                break
            count += 1
        return count

    def rest_of(self, at: int, definition: Definition) -> list[int]:
        """The excerpts in which a definition goes on after the one that it starts in."""
        parts = []
        for later in range(at + 1, len(self.excerpts)):
            excerpt = self.excerpts[later]
            if excerpt.path != self.excerpts[at].path or excerpt.start_line > definition.end_line:
                break
            parts.append(later)
        return parts

    def identifiers_of(self, at: int, definition: Definition | None = None) -> list[str]:
        """What an excerpt, or one definition in it, mentions, in order; of a function all its parts."""
        goes_on = definition is not None and definition.kind == "function"
        used: dict[str, None] = {}
        for part in [at, *(self.rest_of(at, definition) if definition and goes_on else ())]:
            excerpt = self.excerpts[part]
            text = excerpt.text
            if definition is not None:
                first = max(0, definition.start_line - excerpt.start_line)
                text = "".join(split_lines(text)[first : definition.end_line - excerpt.start_line + 1])
            used |= dict.fromkeys(name for name in all_identifiers(text) if name in excerpt.mentions)
        return list(used)

    def resolved(self, used: str, at: int) -> list[Site]:
        """Where a name that an excerpt uses is defined, as far as that is likely to be the same name."""
        sites = self.sites.get(used, [])
        path = self.excerpts[at].path
        own = [site for site in sites if self.excerpts[site[0]].path == path]
        if not own and not looks_like_name(used):  # in another file's prose it may be any word
            sites = [site for site in sites if site[1].kind not in ("key", "section")]
        if not own and not (
            looks_like_name(used) or used[0].isupper() or f"{used}(" in self.excerpts[at].text
        ):
            return []  # a short word of lower case is more likely a local name than another file's
        sites = own or sites
        if len(sites) > MOST_DEFINERS or any(site == at for site, _ in sites):
            return []
        return sites
