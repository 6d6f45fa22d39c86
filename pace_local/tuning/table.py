"""The two forms in which a tuning is shown: a table for people, and plain values for JSON."""

from __future__ import annotations

from typing import Any

from pace_local.tuning.measure import Measurement
from pace_local.tuning.run import Tuning

_NUMBERS = ("NATS", "TO NONE", "AROUND", "TOP-1", "EVICTIONS", "TIME")
_LEGEND = (
    "NATS: mean negative log-likelihood of a recorded answer token.\n"
    "TO NONE: the same less that of the reference, policy none with all in the cache.\n"
    "AROUND: mean NATS of the point and its neighbours, one step away in one column.\n"
    "TOP-1: recorded tokens that are the likeliest.  TIME: of a turn, relative to the first point."
)


def table(tuning: Tuning) -> str:
    """The sensitivity table, and what it says, in lines for people."""
    sensitivity, measured = tuning.sensitivity, tuning.measured
    names = [axis.name for axis in tuning.grid.axes] or ["policy"]
    lines: list[tuple[str, ...]] = [("", *names, *_NUMBERS)]
    reasons: dict[int, str] = {}
    reference = tuning.reference.measured
    if reference is not None:
        blank = [""] * (len(names) - 1)
        lines.append(("", "reference", *blank, *_cells(tuning, reference, None)))
    for number, outcome in enumerate(tuning.outcomes):
        values = [_shown(value) for value in tuning.grid.values(number).values()] or [tuning.policy]
        mark = "→" if number == sensitivity.recommended else ""
        if outcome.measured is None:
            reasons[len(lines)] = f"refused: {outcome.refused}"
            lines.append((mark, *values, *("" for _ in _NUMBERS)))
        else:
            lines.append(
                (mark, *values, *_cells(tuning, outcome.measured, sensitivity.neighbourhood[number]))
            )
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    text = []
    for number, line in enumerate(lines):
        cells = [cell.rjust(width) for cell, width in zip(line, widths, strict=True)]
        if number in reasons:
            cells[1 + len(names) :] = [reasons[number]]
        text.append("  ".join(cells).rstrip())
    text += ["", _LEGEND]
    if reference is None:
        text.append(f"There is no reference: {tuning.reference.refused}.")
    text += _verdict(tuning)
    if len({point.run for point in measured.values()}) > 1:
        text.append("Some times were measured in an earlier run; compare TIME with care.")
    return "\n".join(text)


def as_document(tuning: Tuning) -> dict[str, Any]:
    """The tuning as plain values for JSON; losses in nats per token."""
    sensitivity = tuning.sensitivity
    flatness = sensitivity.flatness
    points = []
    for number, outcome in enumerate(tuning.outcomes):
        point: dict[str, Any] = {"values": tuning.grid.values(number), "refused": outcome.refused}
        if outcome.measured is not None:
            point |= _figures(tuning, outcome.measured)
            point["neighbourhood"] = sensitivity.neighbourhood[number]
        points.append(point)
    reference = tuning.reference.measured
    return {
        "policy": tuning.policy,
        "axes": {axis.name: list(axis.values) for axis in tuning.grid.axes},
        "reference": None if reference is None else _figures(tuning, reference),
        "no_reference": tuning.reference.refused,
        "points": points,
        "recommended": sensitivity.recommended,
        "at_edge": [] if sensitivity.recommended is None else tuning.grid.edges(sensitivity.recommended),
        "flat": None if flatness is None else flatness.is_flat,
        "spread": None if flatness is None else flatness.spread,
        "threshold": None if flatness is None else flatness.threshold,
    }


def describe(values: dict[str, Any], policy: str) -> str:
    """A point in words: ``window=512 pool_size=128``."""
    return " ".join(f"{name}={_shown(value)}" for name, value in values.items()) or policy


def _verdict(tuning: Tuning) -> list[str]:
    sensitivity = tuning.sensitivity
    if sensitivity.recommended is None:
        return ["No point could be measured."]
    flatness = sensitivity.flatness
    best = describe(tuning.grid.values(sensitivity.recommended), tuning.policy)
    lines = [
        f"→ {best}: the best neighbourhood, {_nats(sensitivity.neighbourhood[sensitivity.recommended])}."
    ]
    if flatness is None:
        lines.append("Too little was measured to tell differences from noise.")
    elif flatness.is_flat:
        tokens = tuning.measured[sensitivity.recommended].tokens
        lines.append(
            f"Flat: the losses differ by {_nats(flatness.spread)} at most, and a difference up to "
            f"{_nats(flatness.threshold)} can be chance with {tokens:,} tokens. Any of these points will do."
        )
    else:
        lines.append(
            f"The losses differ by up to {_nats(flatness.spread)}; a difference up to "
            f"{_nats(flatness.threshold)} can be chance."
        )
    edges = tuning.grid.edges(sensitivity.recommended)
    if edges and not (flatness is not None and flatness.is_flat):
        lines.append(f"It is at the edge of the grid in {', '.join(edges)}; what lies beyond was not tried.")
    return lines


def _figures(tuning: Tuning, point: Measurement) -> dict[str, Any]:
    return {
        "loss": point.loss,
        "to_reference": _to_reference(tuning, point),
        "agreement": point.agreement,
        "tokens": point.tokens,
        "evictions": point.evictions,
        "evicted": point.evicted,
        "renumberings": point.renumberings,
        "seconds_per_turn": point.seconds_per_turn,
        "relative_seconds": _relative_seconds(tuning, point),
    }


def _cells(tuning: Tuning, point: Measurement, neighbourhood: float | None) -> tuple[str, ...]:
    to_reference, relative = _to_reference(tuning, point), _relative_seconds(tuning, point)
    return (
        f"{point.loss:.4f}",
        "" if to_reference is None else f"{to_reference:+.4f}",
        "" if neighbourhood is None else f"{neighbourhood:.4f}",
        f"{100 * point.agreement:.1f} %",
        f"{point.evictions:,}",
        "" if relative is None else f"{relative:.2f}",
    )


def _to_reference(tuning: Tuning, point: Measurement) -> float | None:
    reference = tuning.reference.measured
    return None if reference is None else point.loss - reference.loss


def _relative_seconds(tuning: Tuning, point: Measurement) -> float | None:
    first = next(iter(tuning.measured.values()), None)
    return None if first is None or not first.seconds else point.seconds_per_turn / first.seconds_per_turn


def _nats(value: float) -> str:
    return f"{value:.4f} nats"


def _shown(value: Any) -> str:
    return "none" if value is None else str(value)
