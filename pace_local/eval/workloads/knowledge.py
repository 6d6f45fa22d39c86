"""Knowledge: two sites keep lists with near-alike entries; questions need one or two of the lists."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pace_local.eval.workloads.documents import (
    DocumentQuestion,
    Material,
    check_number,
    read_by,
    value_prelude,
)
from pace_local.eval.workloads.site_lists import (
    CAUSES,
    CITIES,
    FIRMS,
    ITEMS,
    STAFF,
    Firm,
    Incident,
    Item,
    Person,
    Site,
    documents_of,
    two_sites,
)

MOST = 16


def make(number: int, seed: int) -> Material:
    """So many questions, and the lists that they read.

    Raises:
        ConfigError: if ``number`` is not 1 to :data:`MOST`.
    """
    check_number("knowledge", number, MOST)
    rng = random.Random(f"knowledge:{seed}")
    here, there = two_sites(rng)
    questions = []
    for i in range(number):
        one, other = (here, there) if (i // 2 + i // len(_FORMS)) % 2 == 0 else (there, here)
        questions.append(_FORMS[i % len(_FORMS)](one, other, i // len(_FORMS)))
    return Material(read_by([*documents_of(here), *documents_of(there)], questions), tuple(questions))


@dataclass(frozen=True)
class _Line:
    """One of the five values that a question asks for."""

    name: str
    value: str | int
    others: Sequence[str] = ()
    """Words that would be wrong."""

    computed: bool = False
    """Whether it stands in no document."""

    def check(self, names: tuple[str, ...]) -> str:
        if isinstance(self.value, int):
            return f"check_number(ANSWER, {self.name!r}, {self.value}, {names!r})"
        others = tuple(other for other in self.others if other != self.value)
        return f"check_word(ANSWER, {self.name!r}, {self.value!r}, {others!r}, {names!r})"


def _question(reads: Sequence[str], text: str, lines: Sequence[_Line]) -> DocumentQuestion:
    names = tuple(line.name for line in lines)
    facts = (str(line.value) for line in lines if not line.computed)
    return DocumentQuestion(
        reads=tuple(reads),
        question=(
            f"{text} Write no code. Reply with these five lines alone, each with its value behind its name, "
            "as in `colour: red`:\n" + "\n".join(f"{name}:" for name in names)
        ),
        facts=tuple(dict.fromkeys(facts)),
        checks=tuple(line.check(names) for line in lines),
        solution="\n".join(f"{line.name}: {line.value}" for line in lines),
        answers_with="text",
        prelude=value_prelude(),
    )


def _codes(
    entries: dict[str, Item] | dict[str, Firm] | dict[str, Incident] | dict[str, Person], turn: int
) -> list[str]:
    """The codes in an order in which each turn asks for entries of its own first."""
    codes = list(entries)
    first = 2 * turn
    return codes[first:] + codes[:first]


def _lookup(site: Site, _other: Site, turn: int) -> DocumentQuestion:
    code = _codes(site.items, turn)[1]
    item = site.items[code]
    return _question(
        [site.document("catalogue")],
        f"What does the catalogue of {site.name} say about {code}?",
        [
            _Line("item", item.name, ITEMS),
            _Line("shelf", item.shelf),
            _Line("price", item.price),
            _Line("stock", item.stock),
            _Line("supplier", item.firm, tuple(site.firms)),
        ],
    )


def _sum_of_two(site: Site, _other: Site, turn: int) -> DocumentQuestion:
    first, second = _codes(site.incidents, turn)[1:3]
    one, two = site.incidents[first], site.incidents[second]
    return _question(
        [site.document("incidents")],
        f"How many minutes did the incidents {first} and {second} at {site.name} take, each and together, "
        "and what was the cause of each?",
        [
            _Line(f"minutes of {first}", one.minutes),
            _Line(f"minutes of {second}", two.minutes),
            _Line("minutes together", one.minutes + two.minutes, computed=True),
            _Line(f"cause of {first}", one.cause, CAUSES),
            _Line(f"cause of {second}", two.cause, CAUSES),
        ],
    )


def _item_at_both(site: Site, other: Site, turn: int) -> DocumentQuestion:
    code = _codes(site.items, turn)[2]
    one, two = site.items[code], other.items[code]
    return _question(
        [site.document("catalogue"), other.document("catalogue")],
        f"Compare {code} in the catalogue of {site.name} with {code} in the catalogue of {other.name}.",
        [
            _Line(f"shelf at {site.name}", one.shelf),
            _Line(f"price at {site.name}", one.price),
            _Line(f"stock at {site.name}", one.stock),
            _Line(f"price at {other.name}", two.price),
            _Line(f"stock at {other.name}", two.stock),
        ],
    )


def _supplier_of(site: Site, _other: Site, turn: int) -> DocumentQuestion:
    code = _codes(site.items, turn)[3]
    supplier = site.items[code].firm
    firm = site.firms[supplier]
    return _question(
        [site.document("catalogue"), site.document("suppliers")],
        f"Which firm supplies {code} to {site.name}? Look its supplier up in the catalogue of {site.name}, "
        f"and the rest in the suppliers of {site.name}.",
        [
            _Line("supplier", supplier, tuple(site.firms)),
            _Line("firm", firm.name, FIRMS),
            _Line("city", firm.city, CITIES),
            _Line("days", firm.days),
            _Line("extension", firm.extension),
        ],
    )


def _two_people(site: Site, _other: Site, turn: int) -> DocumentQuestion:
    first, second = _codes(site.people, turn)[0:2]
    one, two = site.people[first], site.people[second]
    return _question(
        [site.document("staff")],
        f"Who are {first} and {second} in the staff of {site.name}?",
        [
            _Line(f"name of {first}", one.name, STAFF),
            _Line(f"room of {first}", one.room),
            _Line(f"badge of {first}", one.badge),
            _Line(f"name of {second}", two.name, STAFF),
            _Line(f"room of {second}", two.room),
        ],
    )


def _longer_incident(site: Site, other: Site, turn: int) -> DocumentQuestion:
    first, second = _codes(site.incidents, turn)[0], _codes(other.incidents, turn)[3]
    one, two = site.incidents[first], other.incidents[second]
    longer = first if one.minutes > two.minutes else second
    return _question(
        [site.document("incidents"), other.document("incidents")],
        f"Which took longer: the incident {first} at {site.name}, or {second} at {other.name}?",
        [
            _Line(f"minutes of {first}", one.minutes),
            _Line(f"minutes of {second}", two.minutes),
            _Line("longer incident", longer, (first, second), computed=True),
            _Line(f"cause of {first}", one.cause, CAUSES),
            _Line(f"cause of {second}", two.cause, CAUSES),
        ],
    )


def _supplier_at_both(site: Site, other: Site, turn: int) -> DocumentQuestion:
    code = _codes(site.firms, turn)[0]
    one, two = site.firms[code], other.firms[code]
    return _question(
        [site.document("suppliers"), other.document("suppliers")],
        f"Compare the supplier {code} of {site.name} with the supplier {code} of {other.name}.",
        [
            _Line(f"firm at {site.name}", one.name, FIRMS),
            _Line(f"city at {site.name}", one.city, CITIES),
            _Line(f"days at {site.name}", one.days),
            _Line(f"firm at {other.name}", two.name, FIRMS),
            _Line(f"days at {other.name}", two.days),
        ],
    )


def _who_repaired(site: Site, _other: Site, turn: int) -> DocumentQuestion:
    code = _codes(site.incidents, turn)[4]
    incident = site.incidents[code]
    person = site.people[incident.handler]
    return _question(
        [site.document("incidents"), site.document("staff")],
        f"Who repaired the incident {code} at {site.name}? Look the incident up in the incidents of "
        f"{site.name}, and who has the code that it was repaired by in the staff of {site.name}.",
        [
            _Line("minutes", incident.minutes),
            _Line("cause", incident.cause, CAUSES),
            _Line("repaired by", incident.handler, tuple(site.people)),
            _Line("name", person.name, STAFF),
            _Line("room", person.room),
        ],
    )


_FORMS: tuple[Callable[[Site, Site, int], DocumentQuestion], ...] = (
    _lookup,
    _sum_of_two,
    _item_at_both,
    _supplier_of,
    _two_people,
    _longer_incident,
    _supplier_at_both,
    _who_repaired,
)
"""Makes a question about one site, or both; a later turn asks for other entries."""
