"""Which folders to have watched, so that ignored trees are left out.

A recursive watch takes everything below it, ignored or not, and every watch has its price (with watchdog 6
on Linux an inotify instance, of which a user has 128, and two threads). So there are a few: the root, unless
leaving a large ignored tree out is worth watching the folders around it one by one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

MOST_ROOTS = 24
WORTH = 32
"""Folders of an ignored tree from which on leaving it out is worth more watches."""
_COUNTED = 2_000


def plan_roots(
    folders: Collection[str], ignored: Collection[str], weigh: Callable[[str], int], most: int = MOST_ROOTS
) -> Mapping[str, bool]:
    """Folders to watch, each with whether to watch it with all that is below.

    Args:
        folders: all that are not ignored, without the root.
        ignored: ignored folders directly inside of those.
        weigh: how many folders are in an ignored one, itself included.
        most: folders to watch at all.

    Returns:
        Paths relative to the root, which is ``""``. Together they cover ``folders`` and the root.
    """
    children: dict[str, list[str]] = {"": []}
    for folder in sorted(folders):
        children.setdefault(folder, [])
        children.setdefault(folder.rpartition("/")[0], []).append(folder)
    weights = {folder: weigh(folder) for folder in ignored}
    alone: set[str] = set()  # watched without what is below
    for folder in sorted(weights, key=lambda one: (-weights[one], one)):
        if weights[folder] < WORTH:
            break
        wider = alone | set(_above(folder))
        if 1 + sum(len(children.get(one, ())) for one in wider) <= most:
            alone = wider
    if not alone:
        return {"": True}
    plan = dict.fromkeys(sorted(alone), False)
    plan |= {child: True for one in sorted(alone) for child in children[one] if child not in alone}
    return plan


def _above(folder: str) -> list[str]:
    above = []
    while folder:
        folder = folder.rpartition("/")[0]
        above.append(folder)
    return above


def count_folders(folder: Path, most: int = _COUNTED) -> int:
    """How many folders are in a tree, its top included, counted up to ``most``."""
    count = 0
    stack = [os.fspath(folder)]
    while stack and count < most:
        count += 1
        try:
            with os.scandir(stack.pop()) as entries:
                stack += [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError:
            continue
    return count
