"""Prices of an order: list price, discounts, tax, and the rounding of the result."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal

# What a parcel costs before any discount, in cents.
BASE_FEE = 53

# Orders above this many cents are sent without a fee.
FREE_SHIPPING_ABOVE = 7_500

VAT_RATES = {
    "DE": Decimal("0.19"),
    "FR": Decimal("0.20"),
    "LU": Decimal("0.17"),
}

DEFAULT_VAT = Decimal("0.21")


@dataclass(frozen=True)
class Line:
    """One article of an order."""

    sku: str
    quantity: int
    unit_cents: int

    @property
    def cents(self) -> int:
        """Price of all pieces together."""
        return self.quantity * self.unit_cents


def discount_for(tier: str, subtotal: int) -> Decimal:
    """Share that a customer of a tier does not pay.

    Customers of the gold tier get 15 percent, silver ones 8; the rest nothing. On subtotals below ten
    euros nobody gets a discount.
    """
    if subtotal < 1_000:
        return Decimal(0)
    return {"gold": Decimal("0.15"), "silver": Decimal("0.08")}.get(tier, Decimal(0))


def vat_for(country: str) -> Decimal:
    """Rate of value added tax in a country, by its two-letter code."""
    return VAT_RATES.get(country.upper(), DEFAULT_VAT)


def shipping_fee(subtotal: int, express: bool = False) -> int:
    """Fee in cents for sending an order; express orders pay three times as much and are never free."""
    if express:
        return 3 * BASE_FEE
    return 0 if subtotal > FREE_SHIPPING_ABOVE else BASE_FEE


def round_cents(amount: Decimal) -> int:
    """Round to whole cents, halves to the even neighbour, as the auditors ask."""
    return int(amount.quantize(Decimal(1), rounding=ROUND_HALF_EVEN))


def total(lines: list[Line], tier: str, country: str, express: bool = False) -> int:
    """What the customer pays in the end, in cents."""
    subtotal = sum(line.cents for line in lines)
    reduced = subtotal * (1 - discount_for(tier, subtotal))
    return round_cents(reduced * (1 + vat_for(country))) + shipping_fee(subtotal, express)
