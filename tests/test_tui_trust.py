"""What the screen finds out before it starts anything: which files are used only if they are trusted."""

from __future__ import annotations

from pathlib import Path

import pytest
from agent_runs import make_repository

from pace_agent.settings.trust import TrustStore
from pace_tui.declined import Declined
from pace_tui.repository import prepare

FILES = {"AGENTS.md": "Say hi.\n", "web/app/AGENTS.md": "Use tabs.\n", "web/app/.pace/config.toml": "\n"}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    return make_repository(tmp_path / "shop", {**FILES, "docs/a.md": ""})


def asked(folder: Path) -> tuple[str, ...]:
    return tuple(prepare(folder, is_trusting=False).untrusted)


def test_instructions_above_the_folder_are_asked_about_too(root: Path) -> None:
    """Regression: in a folder of a repository nothing was asked, or only about its own files."""
    assert asked(root) == ("AGENTS.md",)
    assert asked(root / "docs") == ("../AGENTS.md",)
    app = root / "web" / "app"
    assert asked(app) == ("../../AGENTS.md", "AGENTS.md", ".pace/config.toml")
    assert tuple(prepare(app, is_trusting=True).untrusted) == ()
    TrustStore().trust(app)
    assert asked(app) == ()
    assert asked(root) == ("AGENTS.md",)


def test_a_no_is_remembered_until_there_is_another_file(root: Path, tmp_path: Path) -> None:
    prepare(root, is_trusting=False).decline()
    assert asked(root) == ()
    assert asked(root / "docs") == ("../AGENTS.md",)  # it is of another folder
    (root / ".pace").mkdir()
    (root / ".pace" / "config.toml").touch()
    assert asked(root) == ("AGENTS.md", ".pace/config.toml")
    prepare(root, is_trusting=False).decline()
    assert asked(root) == ()


@pytest.mark.parametrize("broken", ["{", "[]", '{"repositories": [1]}', '{"repositories": {"REPO": 3}}'])
def test_where_it_cannot_be_read_it_is_asked_again(broken: str, tmp_path: Path) -> None:
    path = tmp_path / "declined.json"
    declined = Declined(path)
    path.write_text(broken.replace("REPO", str(tmp_path)))
    assert not declined.covers(tmp_path, ["a"])
    path.write_text('{"repositories": {}}')
    declined.add(tmp_path, ["a", "b"])
    assert declined.covers(tmp_path, ["b"])
    path.chmod(0o666)
    assert not declined.covers(tmp_path, ["b"])
