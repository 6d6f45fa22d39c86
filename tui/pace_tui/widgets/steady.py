"""Text that is drawn again only when it differs."""

from __future__ import annotations

from rich.console import RenderableType
from textual.widgets import Static


class Steady(Static):
    """Shows a text without markup."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes, markup=False)
        self._key: object = None

    def put(self, content: RenderableType, *, key: object = None, layout: bool = True) -> None:
        """Show something, unless it is there already.

        Args:
            content: what is shown.
            key: is equal where the content is; None: the content itself.
            layout: whether its height may be another than before; then the whole screen is laid out anew.
        """
        key = content if key is None else key
        if key != self._key:
            self._key = key
            self.update(content, layout=layout)
