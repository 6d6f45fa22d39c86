#!/usr/bin/env python3
"""Make the patched llama.cpp tree: take the pinned sdist (``upstream.py``), unpack it, patch it.

Prints the tree's path as the only line on standard output; progress and errors go to standard error.
The tree is keyed by the content of the pin and the patches, so that it is made once and never changes.
Needs Python and pip, nothing else. Safe to stop at any time, and safe when two run at once: everything is
made in a temporary folder and renamed into place.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from patching import PatchError, apply_patch
from upstream import LLAMA, PARTS, Pin, PrepareError, cache_root, fetch_sdist, read_pin, say, sweep, unpack

LAYOUT = 1  # part of the key: raise it when this file makes a different tree from the same inputs
STAMP = "prepared.json"


def patches_in(native: Path) -> list[Path]:
    """The patches of ``native``, in the order in which they apply."""
    return sorted((native / "patches").glob("*.patch"), key=lambda patch: patch.name)


def tree_key(pin: Pin, patches: list[Path]) -> str:
    """16 hex digits that change whenever the tree would."""
    digest = hashlib.sha256(json.dumps([LAYOUT, pin.name, pin.version, pin.sha256, PARTS]).encode())
    for patch in patches:
        content = patch.read_bytes()
        digest.update(f"\n{patch.name} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:16]


def files_of(folder: Path) -> set[Path]:
    """The files under ``folder``, relative to it, without the stamp."""
    return {path.relative_to(folder) for path in folder.rglob("*") if path.is_file() and path.name != STAMP}


def measure(tree: Path) -> dict[str, int]:
    """How many files the tree has and how many bytes, to notice one that was half deleted."""
    sizes = [(tree / name).stat().st_size for name in files_of(tree)]
    return {"files": len(sizes), "bytes": sum(sizes)}


def is_whole(tree: Path) -> bool:
    """Whether ``tree`` is there and as it was made."""
    try:
        return bool(json.loads((tree / STAMP).read_text("utf-8"))["size"] == measure(tree))
    except (OSError, ValueError, KeyError, TypeError):
        return False


def prepare(native: Path) -> Path:
    """The patched tree for the pin and patches in the folder ``native``, made if need be.

    Raises:
        PrepareError: the sdist cannot be had or is not the pinned one.
        PatchError: a patch does not apply.
    """
    requirements = native / "upstream.txt"
    pin, patches = read_pin(requirements), patches_in(native)
    key = tree_key(pin, patches)
    trees = cache_root() / "upstream"
    tree = trees / key
    if is_whole(tree):
        return tree
    sdist = fetch_sdist(pin, requirements, cache_root())
    trees.mkdir(parents=True, exist_ok=True)
    sweep(trees)
    fresh = Path(tempfile.mkdtemp(prefix=f".{key}-", dir=trees))
    try:
        say(f"unpacking llama.cpp and applying {len(patches)} patches")
        unpack(sdist, fresh)
        for patch in patches:
            apply_patch(patch, fresh / LLAMA)
        stamp = {"key": key, "upstream": f"{pin.name} {pin.version}", "size": measure(fresh)}
        (fresh / STAMP).write_text(json.dumps(stamp, indent=1) + "\n", "utf-8")
        fresh.chmod(0o755)
        put_in_place(fresh, tree)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return tree


def put_in_place(fresh: Path, tree: Path) -> None:
    """Rename ``fresh`` to ``tree``; a whole tree that another process put there first is kept."""
    if tree.exists() and not is_whole(tree):
        tree.rename(fresh.with_name(fresh.name + ".broken"))
        shutil.rmtree(fresh.with_name(fresh.name + ".broken"), ignore_errors=True)
    try:
        fresh.rename(tree)
    except OSError:
        if not is_whole(tree):
            raise


def mirror(tree: Path, folder: Path) -> None:
    """Make ``folder`` equal to ``tree``, writing only what differs.

    A build that reads the mirror compiles again just what a changed patch touches; under the tree's own
    path, which changes with its key, it would compile everything.
    """
    wanted = files_of(tree)
    for name in files_of(folder) - wanted:
        (folder / name).unlink()
    for name in wanted:
        source, target = tree / name, folder / name
        if not target.is_file() or target.read_bytes() != source.read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())


def main() -> int:
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description="Make the patched llama.cpp tree and print its path.")
    parser.add_argument(
        "--native", type=Path, default=Path(__file__).parent, help="folder with the pin and patches"
    )
    parser.add_argument(
        "--mirror", type=Path, metavar="DIR", help="make DIR equal to the tree, and print DIR instead"
    )
    parser.add_argument("--sdist", action="store_true", help="print the path of the verified sdist instead")
    parser.add_argument("--key", action="store_true", help="print the tree's key only, and make nothing")
    options = parser.parse_args()
    requirements = options.native / "upstream.txt"
    try:
        if options.key:
            print(tree_key(read_pin(requirements), patches_in(options.native)))
        elif options.sdist:
            print(fetch_sdist(read_pin(requirements), requirements, cache_root()))
        else:
            tree = prepare(options.native)
            if options.mirror:
                mirror(tree, options.mirror)
            print(options.mirror or tree)
    except (PrepareError, PatchError, OSError, tarfile.TarError) as error:
        say(f"error: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
