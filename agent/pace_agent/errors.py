"""What can go wrong in an agent's work, beside what the library raises.

::

    PaceError
    └── InputError
        ├── ToolError            a tool cannot do what it was asked: the model is told, and can try again
        │   ├── EditError        a text to replace was not found, or more than once
        │   └── StaleError       a file has changed since it was read
        └── RefusedError         a permission was refused
"""

from __future__ import annotations

from pace_local.errors import InputError


class ToolError(InputError):
    """A tool cannot do what it was asked. The message goes to the model, and says what to do."""


class EditError(ToolError):
    """A text to replace was not found, or more than once."""


class StaleError(ToolError):
    """A file has changed since it was read, so that an edit would undo somebody's work."""


class RefusedError(InputError):
    """A permission was refused, by a rule or by the user."""
