#!/usr/bin/env python3
"""Check that the patches apply to the pinned upstream, and with ``--latest`` report on its newest release.

Exit code 1 if a patch does not apply to the pin. What is found out about the newest release is advice: it
never fails.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from patching import PatchError, apply_patch
from prepare import patches_in
from upstream import LLAMA, PrepareError, cache_root, fetch_sdist, pip_download, read_pin, unpack


def misfits(sdist: Path, patches: list[Path]) -> list[str]:
    """Why each of ``patches`` that does not apply to ``sdist`` does not, one line each.

    Raises:
        PrepareError: the sdist is not laid out as expected.
    """
    found = []
    with tempfile.TemporaryDirectory(prefix="pace-drift-") as folder:
        unpack(sdist, Path(folder))
        for patch in patches:
            try:
                apply_patch(patch, Path(folder) / LLAMA)
            except PatchError as error:
                found.append(str(error))
    return found


def check_pin(native: Path) -> int:
    """Report on the pinned release; the exit code."""
    pin, patches = read_pin(native / "upstream.txt"), patches_in(native)
    bad = misfits(fetch_sdist(pin, native / "upstream.txt", cache_root()), patches)
    for line in bad:
        print(line)
    print(f"{pin.name} {pin.version} (pinned): {len(patches) - len(bad)} of {len(patches)} patches apply")
    return 1 if bad else 0


def advise_on_latest(native: Path) -> None:
    """Report on the newest release, or say why there is nothing to report."""
    pin, patches = read_pin(native / "upstream.txt"), patches_in(native)
    folder = Path(tempfile.mkdtemp(prefix="pace-latest-"))
    try:
        sdist = pip_download([pin.name], folder)
        version = sdist.name.removesuffix(".tar.gz").rpartition("-")[2]
        if version == pin.version:
            print(f"{pin.name} {version} is the newest release")
            return
        bad = misfits(sdist, patches)
        for line in bad:
            print(line)
        print(f"{pin.name} {version} (newest): {len(patches) - len(bad)} of {len(patches)} patches apply")
    except (PrepareError, OSError, tarfile.TarError) as error:
        print(f"nothing is known about the newest release: {error}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(description="Check that the patches apply to the pinned llama.cpp.")
    parser.add_argument(
        "--native", type=Path, default=Path(__file__).parent, help="folder of pin and patches"
    )
    parser.add_argument(
        "--latest", action="store_true", help="also report on the newest release (advice only)"
    )
    options = parser.parse_args()
    try:
        status = check_pin(options.native)
    except (PrepareError, OSError, tarfile.TarError) as error:
        print(f"drift: error: {error}", file=sys.stderr)
        return 1
    if options.latest:
        advise_on_latest(options.native)
    return status


if __name__ == "__main__":
    sys.exit(main())
