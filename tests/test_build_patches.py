"""native/patching.py: strict application of unified diffs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

NATIVE = Path(__file__).parents[1] / "native"
sys.path.insert(0, str(NATIVE))

import prepare
from patching import PatchError, apply_patch
from upstream import LLAMA

SOURCE = "".join(f"line {n}\n" for n in range(1, 21))
PATCH = """--- a/src/a.cpp
+++ b/src/a.cpp
@@ -9,4 +9,5 @@
 line 9
 line 10
+added
 line 11
 line 12
"""


def target(tmp_path: Path, source: str = SOURCE) -> Path:
    (tmp_path / "src").mkdir(exist_ok=True)
    path = tmp_path / "src/a.cpp"
    path.write_text(source)
    return path


def test_moved_hunk_applies_at_the_nearest_match(tmp_path: Path) -> None:
    repeated = "head\n" * 7 + SOURCE + SOURCE  # the context stands at lines 16 and 36; the patch says 9
    path = target(tmp_path, repeated)
    (tmp_path / "x.patch").write_text(PATCH)
    apply_patch(tmp_path / "x.patch", tmp_path)
    assert path.read_text() == repeated.replace("line 11\n", "added\nline 11\n", 1)


def test_patch_with_one_bad_hunk_changes_nothing(tmp_path: Path) -> None:
    path = target(tmp_path)
    bad = "@@ -17,2 +18,3 @@\n line 17\n+more\n line eighteen\n"
    (tmp_path / "x.patch").write_text(PATCH + bad)
    with pytest.raises(PatchError, match=r"x\.patch:9: does not apply to src/a\.cpp:19"):
        apply_patch(tmp_path / "x.patch", tmp_path)
    assert path.read_text() == SOURCE


def test_hunks_may_not_apply_out_of_order(tmp_path: Path) -> None:
    target(tmp_path)
    again = "@@ -3,2 +4,3 @@\n line 3\n+late\n line 4\n"
    (tmp_path / "x.patch").write_text(PATCH + again)
    with pytest.raises(PatchError, match=r"x\.patch:9: does not apply"):
        apply_patch(tmp_path / "x.patch", tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hello\n", "no hunk"),
        ("@@ -1 +1 @@\n-a\n+b\n", "a hunk before any file name"),
        (PATCH.replace("-9,4", "-9,9"), "do not add up"),
        (PATCH.replace("@@ -9,4 +9,5 @@", "@@ here @@"), "malformed hunk header"),
        (PATCH.replace("+++ b/src/a.cpp", "+++ b/src/b.cpp"), "renames src/a.cpp to src/b.cpp"),
        (PATCH.replace("src/a.cpp", "src/none.cpp"), "src/none.cpp is not in the tree"),
    ],
    ids=["no-diff", "no-file", "cut-short", "no-numbers", "rename", "no-such-file"],
)
def test_bad_patch_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = target(tmp_path)
    (tmp_path / "x.patch").write_text(text)
    with pytest.raises(PatchError, match=message):
        apply_patch(tmp_path / "x.patch", tmp_path)
    assert path.read_text() == SOURCE


def test_missing_newline_at_the_end_of_a_file(tmp_path: Path) -> None:
    path = target(tmp_path, "a\nb")
    note = "\\ No newline at end of file\n"
    (tmp_path / "x.patch").write_text(
        f"--- a/src/a.cpp\n+++ b/src/a.cpp\n@@ -1,2 +1,3 @@\n a\n+x\n b\n{note}"
    )
    apply_patch(tmp_path / "x.patch", tmp_path)
    assert path.read_text() == "a\nx\nb"


@pytest.mark.skipif(shutil.which("patch") is None, reason="compares with the patch program")
def test_our_patches_apply_as_the_patch_program_applies_them(tmp_path: Path) -> None:
    """The reader of patches here against the one that everybody uses, on the real patches and sources."""
    tree = prepare.prepare(NATIVE)
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    patches = prepare.patches_in(NATIVE)
    for patch in patches:
        for name in [
            line[6:].strip() for line in patch.read_text().splitlines() if line.startswith("+++ b/")
        ]:
            copy = ours / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(tree / LLAMA / name, copy)
    assert list(ours.rglob("*")), "no patch changes anything"
    shutil.copytree(ours, theirs)
    for patch in reversed(patches):
        subprocess.run(["patch", "-p1", "-R", "-s", "-i", str(patch)], cwd=theirs, check=True)
    pristine = tmp_path / "pristine"
    shutil.copytree(theirs, pristine)
    for patch in patches:
        subprocess.run(["patch", "-p1", "-s", "-F0", "-i", str(patch)], cwd=theirs, check=True)
        apply_patch(patch, pristine)
    for path in ours.rglob("*.h"):
        name = path.relative_to(ours)
        assert (pristine / name).read_bytes() == (theirs / name).read_bytes() == path.read_bytes()
