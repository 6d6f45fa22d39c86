"""Dialogue: what people settled early in a talk, some of it changed later; what they changed last holds."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pace_local.eval.workloads.documents import (
    Document,
    DocumentQuestion,
    Material,
    check_number,
    value_prelude,
)

_PEOPLE = (
    "Dora", "Emil", "Frida", "Gustav", "Hanna", "Ivar", "Judith", "Konrad",
    "Lena", "Magnus", "Nadia", "Oskar", "Petra", "Quentin", "Rosa", "Stefan",
)  # fmt: skip
_ADVISERS = ("Tilda", "Ulrich", "Vera", "Werner")
MOST = len(_PEOPLE)
_NUMBERS = range(13, 98)


@dataclass(frozen=True)
class _Topic:
    """Something that each of several people settles for themselves."""

    title: str
    opening: str
    words: Mapping[str, tuple[str, ...]]
    """Name of a setting -> what it can be."""

    numbers: tuple[str, ...]
    closing: str

    @property
    def settings(self) -> tuple[str, ...]:
        """Five names, words and numbers by turns, as they are asked for."""
        first, second, third = self.words
        return first, self.numbers[0], second, self.numbers[1], third


_TOPICS = (
    _Topic(
        "weekly report",
        "I look at my weekly report on the train, so please make it exactly as I say here.",
        {
            "format": ("CSV", "PDF", "HTML", "XLSX", "JSON", "XML", "LaTeX", "YAML", "EPUB", "DOCX", "RTF"),
            "colour": ("amber", "cobalt", "maroon", "indigo", "teal", "olive", "crimson", "ochre", "violet",
                       "turquoise", "beige"),
            "heading": ("Harbour", "Meridian", "Compass", "Lantern", "Anchor", "Beacon", "Summit", "Orchard",
                        "Prairie", "Canyon", "Glacier"),
        },
        ("rows", "copies"),
        "Other people have other wishes for theirs; these are mine.",
    ),
    _Topic(
        "spring trip",
        "I have thought about my spring trip and would like you to book it like this.",
        {
            "city": ("Lisbon", "Bergen", "Ghent", "Turin", "Graz", "Porto", "Krakow", "Malmo", "Basel",
                     "Nantes", "Trieste"),
            "meal": ("lentils", "risotto", "curry", "goulash", "paella", "ramen", "falafel", "lasagne",
                     "dumplings", "chowder", "quiche"),
            "hotel": ("Falcon", "Heron", "Magpie", "Osprey", "Kestrel", "Plover", "Swallow", "Cormorant",
                      "Pelican", "Nightjar", "Curlew"),
        },
        ("seat", "nights"),
        "If anything of this is not to be had, ask me before you book something else.",
    ),
    _Topic(
        "backup job",
        "Before you set up my backup job, these are the settings that I decided on.",
        {
            "region": ("Alpine", "Baltic", "Caspian", "Danube", "Ebro", "Fjord", "Gobi", "Humber", "Iberia",
                       "Jutland", "Karst"),
            "channel": ("gazette", "bulletin", "courier", "herald", "tribune", "monitor", "chronicle",
                        "register", "ledger", "almanac", "digest"),
            "cipher": ("Birch", "Cedar", "Hazel", "Juniper", "Larch", "Maple", "Rowan", "Spruce", "Willow",
                       "Alder", "Linden"),
        },
        ("retention", "workers"),
        "The jobs of the others stay as they are; they have settings of their own.",
    ),
    _Topic(
        "open evening",
        "My open evening is coming, and I want it to be like this.",
        {
            "room": ("Galileo", "Kepler", "Newton", "Euler", "Gauss", "Hubble", "Pascal", "Volta", "Ampere",
                     "Faraday", "Tesla"),
            "drink": ("cider", "lemonade", "cocoa", "espresso", "kefir", "mead", "nectar", "perry", "rooibos",
                      "sherry", "tonic"),
            "music": ("tango", "fado", "polka", "swing", "reggae", "bolero", "samba", "waltz", "ragtime",
                      "gospel", "skiffle"),
        },
        ("guests", "minutes"),
        "Please keep to it, whatever the others plan for their evenings.",
    ),
)  # fmt: skip


@dataclass
class _Wishes:
    """What one person wants: what holds, and all that was said before or by somebody else."""

    person: str
    topic: _Topic
    holds: dict[str, str | int]
    dropped: dict[str, list[str | int]] = field(default_factory=dict)
    documents: list[str] = field(default_factory=list)

    def change(self, setting: str, value: str | int) -> None:
        self.drop(setting, self.holds[setting])
        self.holds[setting] = value

    def drop(self, setting: str, value: str | int) -> None:
        self.dropped.setdefault(setting, []).append(value)


class _Draw:
    """Values that nobody else has: each is drawn once."""

    def __init__(self, rng: random.Random) -> None:
        self._numbers = rng.sample(_NUMBERS, len(_NUMBERS))
        self._words = {
            setting: rng.sample(words, len(words))
            for topic in _TOPICS
            for setting, words in topic.words.items()
        }

    def value(self, setting: str) -> str | int:
        return self._words[setting].pop() if setting in self._words else self._numbers.pop()


def make(number: int, seed: int) -> Material:
    """So many people with wishes, told first; then changes of some; a question about what holds for each.

    Raises:
        ConfigError: if ``number`` is not 1 to :data:`MOST`.
    """
    check_number("dialogue", number, MOST)
    rng = random.Random(f"dialogue:{seed}")
    people, advisers = rng.sample(_PEOPLE, number), rng.sample(_ADVISERS, len(_ADVISERS))
    topics, draw = rng.sample(_TOPICS, len(_TOPICS)), _Draw(rng)
    everyone: list[_Wishes] = []
    first: list[Document] = []
    later: list[list[Document]] = [[], []]
    for i, person in enumerate(people):
        # Neighbours share a topic, and are changed in different ways.
        topic = topics[i // 2 % len(topics)]
        wishes = _Wishes(person, topic, {setting: draw.value(setting) for setting in topic.settings})
        first.append(_told(wishes, _wishes(wishes)))
        for change, documents in zip(_CHANGES[i % len(_CHANGES)], later, strict=False):
            documents.append(_told(wishes, change(wishes, draw, rng, advisers[i // 4])))
        everyone.append(wishes)
    told = [*first, *later[0], *later[1]]
    return Material(tuple(told), tuple(_question(wishes, everyone) for wishes in everyone))


def _told(wishes: _Wishes, text: str) -> Document:
    name = f"talk:{wishes.person.lower()}-{len(wishes.documents) + 1}"
    wishes.documents.append(name)
    return Document(name, text)


def _wishes(wishes: _Wishes) -> str:
    topic, holds = wishes.topic, wishes.holds
    settings = list(topic.settings)
    said = ", ".join(f"{setting} {holds[setting]}" for setting in settings[:-1])
    return (
        f"{wishes.person}: {topic.opening} For my {topic.title}: {said} and {settings[-1]} "
        f"{holds[settings[-1]]}. {topic.closing}"
    )


_Change = Callable[[_Wishes, _Draw, random.Random, str], str]
"""Makes the change, and says it."""


def _change_two(wishes: _Wishes, draw: _Draw, rng: random.Random, _adviser: str) -> str:
    word, number = rng.choice(list(wishes.topic.words)), rng.choice(wishes.topic.numbers)
    for setting in (word, number):
        wishes.change(setting, draw.value(setting))
    return (
        f"{wishes.person}: Two things have changed for my {wishes.topic.title}. The {number} setting is "
        f"{wishes.holds[number]} from now on, and the {word} is {wishes.holds[word]}. All the rest stays as "
        "I said."
    )


def _back(wishes: _Wishes, draw: _Draw, rng: random.Random, _adviser: str) -> str:
    """One changed setting is as it was at first, another is changed again."""
    word = next(setting for setting in wishes.topic.words if setting in wishes.dropped)
    number = next(setting for setting in wishes.topic.numbers if setting in wishes.dropped)
    again, back = (word, number) if rng.random() < 0.5 else (number, word)
    wishes.change(again, draw.value(again))
    first = wishes.dropped[back].pop(0)
    wishes.change(back, first)
    return (
        f"{wishes.person}: Sorry, my {wishes.topic.title} once more. Take back the change of the {back}: "
        f"what I said first, {first}, is right again. And the {again} is now {wishes.holds[again]}. This is "
        "final."
    )


def _advice(wishes: _Wishes, draw: _Draw, rng: random.Random, adviser: str) -> str:
    """Somebody proposes two values: one is taken, one is not."""
    word, number = rng.choice(list(wishes.topic.words)), rng.choice(wishes.topic.numbers)
    taken, refused = (word, number) if rng.random() < 0.5 else (number, word)
    wishes.change(taken, draw.value(taken))
    proposal = draw.value(refused)
    wishes.drop(refused, proposal)
    return (
        f"{adviser}: For {wishes.person}'s {wishes.topic.title} I would take {wishes.holds[taken]} as the "
        f"{taken}, and {proposal} as the {refused}.\n"
        f"{wishes.person}: Thank you, {adviser}. The {taken} shall be {wishes.holds[taken]} then. But not "
        f"the other: the {refused} stays as I said before."
    )


_CHANGES: tuple[tuple[_Change, ...], ...] = ((), (_change_two,), (_advice,), (_change_two, _back))
"""What each of four people in a row changes later, one document each."""


def _question(wishes: _Wishes, everyone: list[_Wishes]) -> DocumentQuestion:
    names = wishes.topic.settings
    asked = ", ".join(names[:-1]) + f" and {names[-1]}"

    def wrong(setting: str) -> tuple[str | int, ...]:
        """All that is no right value of it: what was dropped, and what others have of the kind."""
        alike = wishes.topic.numbers if setting in wishes.topic.numbers else (setting,)
        values = [v for each in everyone for s in alike for v in each.dropped.get(s, ())]
        values += [
            each.holds[s] for each in everyone for s in alike if s in each.holds and each is not wishes
        ]
        return tuple(values)

    return DocumentQuestion(
        reads=tuple(wishes.documents),
        question=(
            f"What holds now for the {wishes.topic.title} of {wishes.person}, after all changes? Say the "
            f"{asked}. Write no code. Reply with five lines of the form `name: value`."
        ),
        facts=tuple(str(wishes.holds[name]) for name in names),
        checks=tuple(
            f"check_said(ANSWER, {name!r}, {wishes.holds[name]!r}, {wrong(name)!r}, {names!r})"
            for name in names
        ),
        solution="\n".join(f"{name}: {wishes.holds[name]}" for name in names),
        answers_with="text",
        prelude=value_prelude(),
    )
