"""Eight specifications of one form, with other names, numbers and rules: near copies for a model."""

from __future__ import annotations

from pathlib import Path

_FIELDS = (
    ("orders", "Order", "place_order", "cancel_order", "RATE", 53, "MAX_ITEMS", 17),
    ("billing", "Invoice", "issue_invoice", "void_invoice", "TAX", 19, "MAX_LINES", 40),
    ("shipping", "Parcel", "send_parcel", "recall_parcel", "SURCHARGE", 7, "MAX_WEIGHT", 31),
    ("returns", "Claim", "open_claim", "close_claim", "FEE", 12, "MAX_DAYS", 28),
    ("stock", "Shelf", "reserve_units", "free_units", "BUFFER", 9, "MAX_UNITS", 450),
    ("users", "Account", "open_account", "lock_account", "TRIES", 5, "MAX_AGE", 90),
    ("coupons", "Coupon", "redeem_coupon", "expire_coupon", "CUT", 23, "MAX_USES", 3),
    ("audit", "Entry", "write_entry", "prune_entries", "SHARE", 64, "MAX_ENTRIES", 999),
)
_RULES = (
    ("rounded down to whole cents", "items of the same kind are merged before the limit is checked"),
    ("rounded half up to two digits", "an invoice that was paid cannot be voided"),
    ("charged once for each started kilogram", "parcels to islands take the surcharge twice"),
    ("taken off the refund", "a claim is refused from the day after the limit"),
    ("kept back on each shelf", "reservations end at midnight"),
    ("counted since the last success", "a locked account opens again after a day"),
    ("applied before tax", "coupons of one customer cannot be combined"),
    ("of the oldest entries", "entries of the current day are never pruned"),
)
_FORM = """# {title} API v2

Module `{module}.py`. {share} is {value} percent, {how}. {limit} is {most}.

- `class {type}` holds an id and a list of items.
- `{make}(items)` checks that there are at most {limit} items, and returns a new {type}. It raises \
`ValueError` if there are more.
- `{undo}(id)` removes the {type} of that id, and returns whether there was one.

Rule: {rule}. All amounts are whole cents. Write no other names than these, and no prints.
"""

NAMES = tuple(fields[0] for fields in _FIELDS)


def specifications(*, common_names: bool = False) -> dict[str, str]:
    """Module -> text; with common names, all call their share RATE and their limit MAX_ITEMS."""
    texts = {}
    for fields, (how, rule) in zip(_FIELDS, _RULES, strict=True):
        module, type_name, make, undo, share, value, limit, most = fields
        texts[module] = _FORM.format(
            title=module.title(),
            module=module,
            type=type_name,
            make=make,
            undo=undo,
            share="RATE" if common_names else share,
            value=value,
            limit="MAX_ITEMS" if common_names else limit,
            most=most,
            how=how,
            rule=rule,
        )
    return texts


def unlike_texts() -> dict[str, str]:
    """Files of one small project in several languages, by name."""
    folder = Path(__file__).parent / "data" / "excerpts"
    return {
        path.name: path.read_text(encoding="utf-8") for path in sorted(folder.iterdir()) if path.is_file()
    }
