"""Lists of two sites: the same codes, other values; no value of a kind stands twice."""

from __future__ import annotations

import random
from dataclasses import dataclass

from pace_local.eval.workloads.documents import Document

SITES = ("Hill", "Dale", "Quay", "Moor", "Ford", "Cliff")
ITEMS = (
    "hinge", "bracket", "gasket", "spindle", "flange", "bushing", "washer", "coupling", "grommet",
    "sprocket",
)  # fmt: skip
FIRMS = (
    "Arndt", "Bellini", "Corvo", "Dufour", "Ekman", "Fabry", "Grieve", "Holub", "Iversen", "Jarosz",
    "Kessler",
)  # fmt: skip
CITIES = (
    "Lyon", "Bremen", "Parma", "Vigo", "Tampere", "Leiden", "Gdansk", "Bergamo", "Rouen", "Aarhus",
    "Linz",
)  # fmt: skip
STAFF = (
    "Abel", "Bruno", "Carla", "Doris", "Edgar", "Flora", "Greta", "Hugo", "Irma", "Jonas", "Klara",
    "Ludwig",
)  # fmt: skip
CAUSES = (
    "fuse", "valve", "bearing", "sensor", "relay", "filter", "pump", "belt", "motor", "cable", "switch",
)  # fmt: skip
_N_ENTRIES = 5
_N_FIRMS = 3


@dataclass(frozen=True)
class Item:
    name: str
    shelf: int
    price: int
    stock: int
    firm: str


@dataclass(frozen=True)
class Firm:
    name: str
    city: str
    days: int
    extension: int


@dataclass(frozen=True)
class Incident:
    minutes: int
    cause: str
    handler: str


@dataclass(frozen=True)
class Person:
    name: str
    room: int
    badge: int


@dataclass(frozen=True)
class Site:
    """Four lists, by the codes of their entries. Both sites have the same codes, but of incidents."""

    name: str
    items: dict[str, Item]
    firms: dict[str, Firm]
    incidents: dict[str, Incident]
    people: dict[str, Person]

    def document(self, kind: str) -> str:
        return f"{kind}:{self.name.lower()}"


def two_sites(rng: random.Random) -> tuple[Site, Site]:
    """Values of one kind are all different, over both sites."""
    names = rng.sample(SITES, 2)
    item_codes = [f"KX-{number}" for number in rng.sample(range(400, 500), _N_ENTRIES)]
    firm_codes = [f"S-{number}" for number in rng.sample(range(501, 600), _N_FIRMS)]
    staff_codes = [f"P-{number}" for number in rng.sample(range(601, 700), _N_ENTRIES)]
    incident_codes = [f"IN-{number}" for number in rng.sample(range(700, 800), 2 * _N_ENTRIES)]
    items, causes = rng.sample(ITEMS, _N_ENTRIES), rng.sample(CAUSES, 2 * _N_ENTRIES)
    firms, staff = rng.sample(FIRMS, 2 * _N_FIRMS), rng.sample(STAFF, 2 * _N_ENTRIES)
    cities = rng.sample(CITIES, 2 * _N_FIRMS)
    small, large = rng.sample(range(21, 99), 78), rng.sample(range(110, 390), 100)
    sites = []
    for name in names:
        suppliers = [*firm_codes, *rng.sample(firm_codes, _N_ENTRIES - _N_FIRMS)]
        rng.shuffle(suppliers)
        sites.append(
            Site(
                name,
                {
                    code: Item(item, small.pop(), large.pop(), small.pop(), firm)
                    for code, item, firm in zip(item_codes, items, suppliers, strict=True)
                },
                {code: Firm(firms.pop(), cities.pop(), small.pop(), large.pop()) for code in firm_codes},
                {
                    code: Incident(large.pop(), causes.pop(), handler)
                    for code, handler in zip(
                        (incident_codes.pop() for _ in range(_N_ENTRIES)),
                        rng.sample(staff_codes, _N_ENTRIES),
                        strict=True,
                    )
                },
                {code: Person(staff.pop(), large.pop(), large.pop()) for code in staff_codes},
            )
        )
    return sites[0], sites[1]


def documents_of(site: Site) -> list[Document]:
    def told(kind: str, text: str, entries: list[str]) -> Document:
        return Document(site.document(kind), "\n".join([f"# {text}\n", *(f"- {entry}" for entry in entries)]))

    return [
        told(
            "catalogue",
            f"Catalogue of {site.name}: item, shelf, price in cents, pieces in stock, supplier",
            [
                f"{code}: {item.name}, shelf {item.shelf}, price {item.price}, stock {item.stock}, supplier "
                f"{item.firm}"
                for code, item in site.items.items()
            ],
        ),
        told(
            "suppliers",
            f"Suppliers of {site.name}: firm, city, days of delivery, telephone extension",
            [
                f"{code}: firm {firm.name}, city {firm.city}, days {firm.days}, extension {firm.extension}"
                for code, firm in site.firms.items()
            ],
        ),
        told(
            "incidents",
            f"Incidents at {site.name}: minutes of standstill, part that failed, who repaired it",
            [
                f"{code}: minutes {incident.minutes}, cause {incident.cause}, repaired by {incident.handler}"
                for code, incident in site.incidents.items()
            ],
        ),
        told(
            "staff",
            f"Staff of {site.name}: first name, room, number of the badge",
            [
                f"{code}: {person.name}, room {person.room}, badge {person.badge}"
                for code, person in site.people.items()
            ],
        ),
    ]
