"""Budgets when nobody gives any."""

from __future__ import annotations

from collections import namedtuple
from pathlib import Path

import pytest

from pace_local.recall import default_disk_bytes, default_host_bytes, sizes

Usage = namedtuple("Usage", "total used free")


@pytest.mark.parametrize(
    ("available", "expected"), [(4_000_000_003, 1_000_000_000), (64_000_000_000, 8_000_000_000)]
)
def test_host(monkeypatch: pytest.MonkeyPatch, available: int, expected: int) -> None:
    monkeypatch.setattr(sizes, "available_memory", lambda: available)
    assert default_host_bytes() == expected


@pytest.mark.parametrize(
    ("free", "expected"), [(5_000_000_009, 500_000_000), (10**13, 32_000_000_000), (3, 1)]
)
def test_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, free: int, expected: int) -> None:
    asked: list[Path] = []

    def usage(path: Path) -> Usage:
        asked.append(path)
        if not path.exists():
            raise FileNotFoundError(path)
        return Usage(0, 0, free)

    monkeypatch.setattr(sizes.shutil, "disk_usage", usage)
    assert default_disk_bytes(tmp_path / "a" / "b") == expected
    assert asked[-1] == tmp_path
    assert default_disk_bytes() == expected


def test_a_folder_that_its_own_store_filled_keeps_its_budget(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each time that a session was opened, a tenth of what it had saved was deleted."""
    (tmp_path / "piece-000000000000.kv").write_bytes(bytes(400))
    (tmp_path / "piece-000000000001.kept.kv").write_bytes(bytes(600))
    monkeypatch.setattr(sizes.shutil, "disk_usage", lambda path: Usage(10_000, 1_000, 9_000))
    assert default_disk_bytes(tmp_path) == 1_000
    assert default_disk_bytes(tmp_path / "new") == default_disk_bytes() == 900


def test_a_disk_that_cannot_be_asked_has_no_room(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def usage(path: Path) -> Usage:
        raise PermissionError(path)

    monkeypatch.setattr(sizes.shutil, "disk_usage", usage)
    assert default_disk_bytes(tmp_path) == 0


def test_this_machine_has_some_room(tmp_path: Path) -> None:
    assert default_host_bytes() > 0
    assert default_disk_bytes(tmp_path) > 0
