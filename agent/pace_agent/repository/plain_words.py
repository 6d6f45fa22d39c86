"""Words of every day, which name a definition only where a text marks them as a name."""

from __future__ import annotations

import re

from pace_local.entity_words import is_telling
from pace_local.excerpts.names import looks_like_name
from pace_local.recall.definitions import is_common

_PLAIN = frozenset(
    re.findall(
        r"\w+",
        """
        able account action active actual address again agent all allow amount analysis answer app append
        apply area array ask available back bad bar base basic begin behavior behaviour best better big bit
        block board body book bottom box branch break bring browser buffer bug business button buy cache
        call cancel card care cart case cause cell center chain change character chart chat check choice
        choose clean clear client clock close code collect color colour column come command comment commit
        common company compare complete component compute connect connection consider console contain
        content control convert copy correct cost count country cover crash current customer cut daily
        dashboard date day deal debug decide default define deliver delivery department depend design detail
        device different direct directory discount display document domain door down draw drive drop
        duplicate during early edge edit effect element email empty enable end engine ensure enter entry
        environment error even event example except exist exit expect explain export extend extra fail
        failure false family fast feature feed field figure fill filter final find fine finish first fit fix
        flag flat flow focus folder follow font food force form format forward found frame free front full
        function future game general generate global go good graph great green grid group grow guess half
        hand hard head header health hear height help hidden hide high history hit hold home hook host hour
        house human idea image implement import improve include increase index information inline input
        insert inside install instance instead integer internal invoice issue item job join jump just keep
        key kind know label language large last late later layer layout lead leaf learn leave left length
        less level library light limit line link list little local lock logic login logout long look loop
        lost lot low mail main manage manager map mark market match matter max maximum mean measure member
        memory menu merge method middle min minimum minute miss missing mode model modify modules moment
        money month mouse move multiple music must native near network next nice night none normal note
        notes nothing notice null object offset old only open operation option optional order orders origin
        other output outside overview own pack package page paint pair panel paper parameter parent part
        pass past path pattern pause pay payment people percent perform period person phone picture piece
        pipe place plain plan play player please point policy pop port position possible post power prefix
        prepare present press prevent previous price prices print private problem product profile program
        progress project property provide public pull push quality quantity question queue quick quiet quit
        quote random range rate rates raw reach read reader ready real reason receive record records red
        reduce refactor reference refresh reject related release reload remember remote remove rename render
        repair repeat replace reply report reports repository require resource respond response rest restart
        restore retry return reverse review rewrite right role roll room root round route row rule rules
        safe same sample scale schedule schema school scope score screen script scroll search second section
        secure security select sell sequence series server service session setting settings several shape
        share sheet shift ship shipping shop short show side sign signal simple single site skip sleep slice
        slide slow small smart social solution solve some sort sound source space special speed split square
        stable stack stage standard state statement static station stats stay stock stop storage store story
        stream street strict string strip strong structure student study style subject submit success sum
        summary supply support sure surface swap switch symbol sync system tab table tag take talk target
        task tax team template term terminal theme thing think thread tick ticket tidy tile timeout timer
        today together toggle tool top topic total totals touch trace track trade train transfer transform
        translate travel tree trigger trim true truth try turn type under undo unique unit unknown unlock
        upgrade upload usage usual valid variable vector verify version video view visible visit voice
        volume wait walk wall want warn warning watch water wave web week weight while white whole wide
        width win window wire wish word work worker world worth wrap write writer wrong year yes zero zone
        zoom
        """,
    )
)
"""In lower case."""


def is_plain(word: str) -> bool:
    """Whether a word is one of every day, or one that any program has, so that it may be no name."""
    if looks_like_name(word):
        return False
    folded = word.strip("_").casefold()
    return len(folded) < 4 or not is_telling(word) or any(_is_listed(base) for base in _bases(folded))


def _bases(word: str) -> list[str]:
    """A word and what it may be a form of."""
    bases = [word, word.removesuffix("s")]
    if word.endswith("ing"):
        bases += [word[:-3], word[:-3] + "e"]
    if word.endswith("ed"):
        bases += [word[:-2], word[:-1]]
    return bases


def _is_listed(word: str) -> bool:
    return word in _PLAIN or is_common(word)
