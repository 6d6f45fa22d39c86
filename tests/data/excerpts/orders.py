"""Orders: reading them from text, their states, and what may happen in each state."""

from __future__ import annotations

import re
from enum import Enum

from pricing import Line, total

MAX_LINES = 120
"""An order with more lines than this is refused."""

ID_PATTERN = re.compile(r"^ORD-(\d{4})-([A-Z]{2})$")


class OrderError(ValueError):
    """An order that cannot be accepted. Its code is shown to the customer."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class State(Enum):
    """Where an order stands."""

    DRAFT = "draft"
    PAID = "paid"
    PACKED = "packed"
    SENT = "sent"
    CANCELLED = "cancelled"


# From each state, the states that may follow. A sent order can no longer be cancelled.
TRANSITIONS = {
    State.DRAFT: {State.PAID, State.CANCELLED},
    State.PAID: {State.PACKED, State.CANCELLED},
    State.PACKED: {State.SENT},
    State.SENT: set(),
    State.CANCELLED: set(),
}


class Order:
    """An order of one customer."""

    def __init__(self, identifier: str, customer: str, lines: list[Line]) -> None:
        self.identifier = identifier
        self.customer = customer
        self.lines = lines
        self.state = State.DRAFT
        self.reminders = 0

    def advance(self, state: State) -> None:
        """Move to another state; raises ORD-409 if that may not follow."""
        if state not in TRANSITIONS[self.state]:
            raise OrderError("ORD-409", f"cannot go from {self.state.value} to {state.value}")
        self.state = state

    def remind(self) -> bool:
        """Send a reminder of payment; after the third one the order is cancelled instead."""
        if self.reminders >= 3:
            self.advance(State.CANCELLED)
            return False
        self.reminders += 1
        return True

    def total(self, tier: str, country: str) -> int:
        """Price of the order in cents."""
        return total(self.lines, tier, country)


def parse_order(text: str) -> Order:
    """Read an order from its text form: a header ``id;customer``, then one line ``sku;quantity;cents`` each.

    Empty lines and lines that start with a semicolon are skipped. Raises ORD-422 for a bad identifier,
    and ORD-413 if there are more than MAX_LINES lines.
    """
    rows = [row for row in text.splitlines() if row and not row.startswith(";")]
    identifier, customer = rows[0].split(";")
    if not ID_PATTERN.match(identifier):
        raise OrderError("ORD-422", f"bad identifier {identifier!r}")
    if len(rows) - 1 > MAX_LINES:
        raise OrderError("ORD-413", f"{len(rows) - 1} lines")
    return Order(identifier, customer, [parse_line(row) for row in rows[1:]])


def parse_line(row: str) -> Line:
    """Read one article; a missing quantity means one piece."""
    sku, quantity, cents = row.split(";")
    return Line(sku.strip().upper(), int(quantity or 1), int(cents))
