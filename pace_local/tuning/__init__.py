"""Sensitivity of a policy to its parameters, measured on a recorded session."""

from pace_local.tuning.grid import Axis, Grid, check_parameters, default_grid, parse_axes
from pace_local.tuning.journal import Journal
from pace_local.tuning.measure import Measurement, measure
from pace_local.tuning.progress import Progress
from pace_local.tuning.run import Outcome, Tuning, tune
from pace_local.tuning.sensitivity import Flatness, Sensitivity
from pace_local.tuning.table import as_document, table

__all__ = [
    "Axis",
    "Flatness",
    "Grid",
    "Journal",
    "Measurement",
    "Outcome",
    "Progress",
    "Sensitivity",
    "Tuning",
    "as_document",
    "check_parameters",
    "default_grid",
    "measure",
    "parse_axes",
    "table",
    "tune",
]
