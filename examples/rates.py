"""Rates of the parcel service: the rules that every quote must follow.

Weights are in kilograms, prices in cents. Every price is rounded up to a full cent.
"""

BASE_CENTS = 437
CENTS_PER_KG = 83
HEAVY_FROM_KG = 12.5
HEAVY_SURCHARGE_CENTS = 965
EXPRESS_FACTOR = 1.85
ISLAND_ZONES = ("IS", "FO", "GL")
ISLAND_FEE_CENTS = 1240


# The order of the steps matters: the surcharge for heavy parcels comes before the express factor, the fee
# for islands after it. A parcel of exactly HEAVY_FROM_KG is heavy.
QUOTE_STEPS = ("base", "weight", "heavy surcharge", "express factor", "island fee")
