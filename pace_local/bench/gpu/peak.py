"""The most memory that was used while something ran: of each device, and of this process."""

from __future__ import annotations

import threading
from types import TracebackType

import psutil

from pace_local import _native

ACCELERATORS = ("gpu", "integrated gpu")
_EVERY_SECONDS = 0.1


def accelerators() -> list[_native.Device]:
    """Devices other than the CPU that the native library sees."""
    return [device for device in _native.devices() if device.kind in ACCELERATORS]


def used_bytes() -> int:
    """Memory in use on all devices other than the CPU, as their drivers say, other programs' included."""
    return sum(device.total - device.free for device in accelerators())


class Peak:
    """Looks ten times a second while it is entered. What is allocated and freed in between is missed."""

    def __init__(self) -> None:
        self.device_bytes = 0
        """Of all devices together, other programs' memory included; 0 without any."""
        self.host_bytes = 0
        """Resident set of this process, mapped weights included."""
        self._process = psutil.Process()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory", daemon=True)

    def __enter__(self) -> Peak:
        """Begin to look."""
        self.look()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Look once more, and end."""
        self._done.set()
        self._thread.join()
        self.look()

    def look(self) -> None:
        """Compare what is used now with the most so far."""
        self.device_bytes = max(self.device_bytes, used_bytes())
        self.host_bytes = max(self.host_bytes, self._process.memory_info().rss)

    def _watch(self) -> None:
        while not self._done.wait(_EVERY_SECONDS):
            self.look()
