from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pace_agent.errors import RefusedError
from pace_agent.safety.approvals import (
    Approval,
    ProjectApprovals,
    approvals_path,
    is_too_broad,
    suggested_prefix,
)
from pace_agent.safety.paths import Territory
from pace_agent.safety.permissions import Action, Mode, Permissions, Request, Scope, Verdict
from pace_local.errors import ConfigError, StorageError

READ = Request("read", Action.READ, path="src/a.py")
EDIT = Request("edit", Action.WRITE, path="src/a.py")
PLUGIN = Request("deploy", Action.OTHER)


def run(command: str) -> Request:
    return Request("shell", Action.RUN, command=command)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    (folder / "src").mkdir(parents=True)
    (folder / "src/a.py").write_text("a\n")
    (folder / ".env").write_text("A=1\n")
    return folder


@pytest.fixture
def permissions(root: Path) -> Permissions:
    return Permissions(Territory(root), project_file=root.parent / "config/approvals.json")


@pytest.mark.parametrize(
    ("mode", "read", "write", "harmless", "other", "plugin"),
    [
        (Mode.PLAN, "allow", "refuse", "allow", "refuse", "refuse"),
        (Mode.ASK, "allow", "ask", "allow", "ask", "ask"),
        (Mode.ACCEPT_EDITS, "allow", "allow", "allow", "ask", "ask"),
        (Mode.AUTO, "allow", "allow", "allow", "allow", "allow"),
    ],
)
def test_modes(root: Path, mode: Mode, read: str, write: str, harmless: str, other: str, plugin: str) -> None:
    permissions = Permissions(Territory(root), mode)
    requests = (READ, EDIT, run("git status"), run("npm test"), PLUGIN)
    decisions = [permissions.decide(request) for request in requests]
    assert [decision.verdict.value for decision in decisions] == [read, write, harmless, other, plugin]
    assert all(decision.reason for decision in decisions)
    assert permissions.decide(Request("plan", Action.NOTHING)).verdict is Verdict.ALLOW


def test_the_mode_can_be_changed(permissions: Permissions) -> None:
    assert permissions.decide(EDIT).verdict is Verdict.ASK
    permissions.mode = Mode.PLAN
    assert permissions.decide(EDIT).verdict is Verdict.REFUSE
    permissions.mode = Mode.ACCEPT_EDITS
    assert permissions.decide(EDIT).verdict is Verdict.ALLOW


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("action", [Action.READ, Action.WRITE])
@pytest.mark.parametrize("path", ["../x", "/etc/passwd", ".env", ".git/config", "a\nb", "", None])
def test_paths_outside_and_protected_ones_are_refused_in_every_mode(
    root: Path, mode: Mode, action: Action, path: str | None
) -> None:
    permissions = Permissions(Territory(root), mode)
    request = Request("tool", action, path=path)
    assert permissions.decide(request).verdict is Verdict.REFUSE
    permissions.approve(request)  # nobody's yes lifts it
    assert permissions.decide(request).verdict is Verdict.REFUSE
    with pytest.raises(RefusedError, match="is refused: "):
        permissions.check(request)


@pytest.mark.parametrize("command", [None, "", "  \n"])
def test_a_request_without_a_command_is_refused(permissions: Permissions, command: str | None) -> None:
    assert permissions.decide(Request("shell", Action.RUN, command=command)).verdict is Verdict.REFUSE


def test_once_is_once(permissions: Permissions) -> None:
    for request in (EDIT, run("npm test"), run("rm $X"), PLUGIN):
        permissions.approve(request)
        assert permissions.decide(request).verdict is Verdict.ALLOW
        assert permissions.decide(request).verdict is Verdict.ASK


def test_a_tool_is_approved_for_the_session(permissions: Permissions, root: Path) -> None:
    decision = permissions.decide(EDIT)
    assert decision.offers == (Approval("edit"),)
    permissions.approve(EDIT, Scope.SESSION)
    assert permissions.decide(Request("edit", Action.WRITE, path="new.py")).verdict is Verdict.ALLOW
    assert permissions.decide(Request("write", Action.WRITE, path="new.py")).verdict is Verdict.ASK
    assert permissions.decide(Request("edit", Action.WRITE, path=".env")).verdict is Verdict.REFUSE
    assert Permissions(Territory(root)).decide(EDIT).verdict is Verdict.ASK


def test_a_prefix_is_of_words_and_not_of_characters(permissions: Permissions) -> None:
    permissions.approve(run("npm test"), Scope.SESSION)
    for command, expected in {
        "npm test": Verdict.ALLOW,
        "npm test -- --watch": Verdict.ALLOW,
        "npm  'test' $X": Verdict.ALLOW,
        "npm test | tail -5 && ls": Verdict.ALLOW,
        "npm tests": Verdict.ASK,
        "npm testing": Verdict.ASK,
        "npm": Verdict.ASK,
        "npm install": Verdict.ASK,
        "npm test && rm x": Verdict.ASK,
        "npm test; npm install": Verdict.ASK,
        "npm test $(rm x)": Verdict.ASK,
        "npm test `rm x`": Verdict.ASK,
        "npm test > out": Verdict.ASK,
        "npm test <(rm x)": Verdict.ASK,
        "A=1 npm test": Verdict.ASK,
        "sudo npm test": Verdict.ASK,
        "xargs npm test": Verdict.ASK,
        "echo npm test | sh": Verdict.ASK,
        "npm test 'unclosed": Verdict.ASK,
        "npm test ../x": Verdict.ASK,
        "npm test .env": Verdict.REFUSE,
        "npm test; rm -rf /": Verdict.REFUSE,
        "./npm test": Verdict.ASK,
    }.items():
        assert permissions.decide(run(command)).verdict is expected, command


def test_an_approval_does_not_lift_what_a_rule_refuses(permissions: Permissions) -> None:
    offers = [Approval("shell", ("git", "push", "origin", "main")), Approval("shell", ("rm", "-rf"))]
    permissions.approve(run("git push origin main"), Scope.SESSION, offers)
    assert permissions.decide(run("git push origin main")).verdict is Verdict.ALLOW
    assert permissions.decide(run("git push --force")).verdict is Verdict.REFUSE
    assert permissions.decide(run("rm -rf build")).verdict is Verdict.ALLOW
    assert permissions.decide(run("rm -rf ~")).verdict is Verdict.REFUSE
    permissions.mode = Mode.PLAN
    assert permissions.decide(run("git push origin main")).verdict is Verdict.REFUSE
    permissions.mode = Mode.AUTO  # where a push is asked about unless it was approved
    assert permissions.decide(run("git push origin main")).verdict is Verdict.ALLOW


@pytest.mark.parametrize(
    ("approved", "grave"),
    [
        ("git checkout -b fix", "git checkout -- ."),
        ("git stash", "git stash clear"),
        ("git branch x", "git branch -D main"),
        ("git reset HEAD~1", "git reset --hard"),
        ("git push", "git push origin main"),
        ("git checkout src", "git checkout src docs"),
        ("git restore a", "git restore a b"),
        ("touch a", 'touch "$NOWHERE/a"'),
        ("pytest", 'pytest > "$NOWHERE/a"'),
        ("npm publish", "ls | xargs npm publish"),
    ],
)
def test_what_is_grave_needs_an_approval_of_its_own(
    permissions: Permissions, approved: str, grave: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``git checkout -b fix`` was approved, and ``git checkout -- .`` took work away without a question."""
    monkeypatch.delenv("NOWHERE", raising=False)
    permissions.approve(run(approved), Scope.SESSION)
    for mode in (Mode.ASK, Mode.ACCEPT_EDITS, Mode.AUTO):
        permissions.mode = mode
        assert permissions.decide(run(approved)).verdict is Verdict.ALLOW
        assert permissions.decide(run(grave)).verdict is Verdict.ASK


def test_an_approval_does_not_leave_the_repository(
    permissions: Permissions, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``touch …`` was approved, and covered ``touch "$HOME/x"`` though not ``touch ../x``."""
    monkeypatch.setenv("HOME", str(root.parent / "home"))
    permissions.approve(run("touch a"), Scope.SESSION)
    assert permissions.decide(run("touch b")).verdict is Verdict.ALLOW
    for command in ("touch ../x", "touch ~/x", 'touch "$HOME/x"', "touch ${HOME}/x"):
        assert permissions.decide(run(command)).verdict is Verdict.ASK, command


def test_a_refusal_holds_for_the_session(permissions: Permissions) -> None:
    permissions.refuse(run("npm test"))
    decision = permissions.decide(run("npm test"))
    assert decision.verdict is Verdict.REFUSE
    assert "'npm test'" in decision.reason
    assert permissions.decide(run("npm install")).verdict is Verdict.ASK
    permissions.mode = Mode.AUTO
    assert permissions.decide(run("npm test")).verdict is Verdict.REFUSE
    permissions.approve(run("npm test"))  # the user thought better of it
    assert permissions.decide(run("npm test")).verdict is Verdict.ALLOW


def test_a_refusal_takes_back_what_was_approved_once(permissions: Permissions) -> None:
    permissions.approve(EDIT)
    permissions.refuse(EDIT)
    assert permissions.decide(EDIT).verdict is Verdict.REFUSE


def test_an_approval_for_the_project_lasts(permissions: Permissions, root: Path) -> None:
    permissions.approve(run("cargo build --release"), Scope.PROJECT)
    file = root.parent / "config/approvals.json"
    assert file.stat().st_mode & 0o777 == 0o600
    again = Permissions(Territory(root), project_file=file)
    assert again.approvals == {Approval("shell", ("cargo", "build"))}
    assert again.decide(run("cargo build")).verdict is Verdict.ALLOW
    again.approve(EDIT, Scope.PROJECT)
    assert permissions.decide(EDIT).verdict is Verdict.ALLOW  # the other session sees it
    assert again.warnings == []


def test_approvals_are_not_for_another_folder_of_the_same_path(permissions: Permissions, root: Path) -> None:
    permissions.approve(run("make test"), Scope.PROJECT)
    shutil.rmtree(root)
    root.mkdir()  # which may get the inode of the other
    file = root.parent / "config/approvals.json"
    other = Permissions(Territory(root), project_file=file)
    assert other.decide(run("make test")).verdict is Verdict.ASK
    assert "another folder" in other.warnings[0]
    other.approve(run("make lint"), Scope.PROJECT)
    again = Permissions(Territory(root), project_file=file)
    assert again.approvals == {Approval("shell", ("make", "lint"))}
    assert again.warnings == []


def test_a_refused_change_is_that_change_until_the_next_prompt(permissions: Permissions) -> None:
    one, two = replace(EDIT, about="1"), replace(EDIT, about="2")
    permissions.refuse(one)
    permissions.refuse(run("npm test"))
    assert permissions.decide(two).verdict is Verdict.ASK
    permissions.mode = Mode.ACCEPT_EDITS
    assert permissions.decide(two).verdict is Verdict.ALLOW
    assert permissions.decide(one).verdict is Verdict.REFUSE
    permissions.forget_refused_changes()
    assert permissions.decide(one).verdict is Verdict.ALLOW
    assert permissions.decide(run("npm test")).verdict is Verdict.REFUSE


def test_without_a_file_there_is_no_approval_for_the_project(root: Path) -> None:
    with pytest.raises(ConfigError, match="approve for the session"):
        Permissions(Territory(root)).approve(EDIT, Scope.PROJECT)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        '{"format": 2}',
        '{"format": 1, "approvals": []}',
        "\x00",
        "[" * 100_000,
        '{"format": 2, "folder": "/elsewhere", "approvals": [{"tool": "edit", "prefix": []}]}',
    ],
)
def test_a_broken_file_is_ignored_with_a_warning(root: Path, content: str) -> None:
    file = root.parent / "approvals.json"
    file.write_text(content)
    file.chmod(0o600)
    permissions = Permissions(Territory(root), project_file=file)
    assert permissions.decide(EDIT).verdict is Verdict.ASK
    assert permissions.decide(EDIT).verdict is Verdict.ASK
    (warning,) = permissions.warnings
    assert str(file) in warning
    permissions.approve(EDIT, Scope.PROJECT)
    assert Permissions(Territory(root), project_file=file).decide(EDIT).verdict is Verdict.ALLOW


def test_entries_that_are_none_or_too_broad_are_ignored(root: Path) -> None:
    file = root.parent / "approvals.json"
    entries = [3, {"tool": "shell"}, {"tool": "", "prefix": []}, {"tool": "shell", "prefix": [1]},
               {"tool": "shell", "prefix": []}, {"tool": "shell", "prefix": ["bash"]},
               {"tool": "shell", "prefix": ["sudo"]}, {"tool": "edit", "prefix": []}]  # fmt: skip
    ProjectApprovals(file, root).add([])
    file.write_text(json.dumps({**json.loads(file.read_text()), "approvals": entries}))
    file.chmod(0o600)
    project = ProjectApprovals(file, root)
    assert project.read() == {Approval("edit")}
    assert len(project.warnings) == 1


def test_a_file_that_others_can_change_approves_nothing(permissions: Permissions, root: Path) -> None:
    permissions.approve(EDIT, Scope.PROJECT)
    file = root.parent / "config/approvals.json"
    file.chmod(0o666)
    again = Permissions(Territory(root), project_file=file)
    assert again.decide(EDIT).verdict is Verdict.ASK
    assert "can be changed by other users" in again.warnings[0]


def test_a_file_that_cannot_be_written_leaves_the_approval_for_the_session(root: Path) -> None:
    (root.parent / "file").write_text("")
    permissions = Permissions(Territory(root), project_file=root.parent / "file/approvals.json")
    with pytest.raises(StorageError):
        permissions.approve(EDIT, Scope.PROJECT)
    assert permissions.decide(EDIT).verdict is Verdict.ALLOW


@pytest.mark.parametrize(
    ("command", "offers"),
    [
        ("npm test", [("npm", "test")]),
        ("npm run build --x", [("npm", "run", "build")]),
        ("pytest -q tests", [("pytest",)]),
        ("git commit -m x && cargo build", [("git", "commit"), ("cargo", "build")]),
        ("ls && pytest | tail", [("pytest",)]),
        ("python -m pytest -q", [("python", "-m", "pytest")]),
        ("python setup.py build", [("python", "setup.py", "build")]),
        ("rm a b", [("rm", "a", "b")]),
        ("./build.sh --fast", [("./build.sh", "--fast")]),
        ("sudo apt install x", [("sudo", "apt", "install", "x")]),
        ("git checkout -b fix", [("git", "checkout")]),
        ("git checkout -- src", [("git", "checkout", "--", "src")]),
        ("git push && pytest -q", [("git", "push"), ("pytest",)]),
        # What can be approved only this once:
        ("python -c 'x'", [("python", "-c", "x")]),
        ("rm $X", []),
        ("git checkout -- $X", []),
        ("git checkout -- *.py", []),
        ("ls | xargs git checkout --", []),
        ("python", []),
        ("bash", []),
        ("pytest > out", []),
        ("A=1 pytest", []),
        ("touch ../x", []),
        ("pytest 'unclosed", []),
        ("$X", []),
    ],
)
def test_what_is_offered(permissions: Permissions, command: str, offers: list[tuple[str, ...]]) -> None:
    decision = permissions.decide(run(command))
    assert decision.verdict is Verdict.ASK
    assert [approval.prefix for approval in decision.offers] == offers
    if offers:
        permissions.approve(run(command), Scope.SESSION)
        assert permissions.decide(run(command)).verdict is Verdict.ALLOW
    else:
        with pytest.raises(ConfigError, match="only be approved once"):
            permissions.approve(run(command), Scope.SESSION)


@pytest.mark.parametrize(
    "prefix",
    [
        (),
        ("bash",),
        ("/bin/sh",),
        ("sh", "-c"),
        ("python",),
        ("python3", "-c"),
        ("env",),
        ("sudo",),
        ("sudo", "-n"),
        ("sudo", "bash"),
        ("xargs",),
        ("find",),
        ("git",),
        ("npm",),
        ("rm",),
        ("eval",),
    ],
)
def test_what_would_cover_anything_cannot_be_approved(
    permissions: Permissions, prefix: tuple[str, ...]
) -> None:
    assert is_too_broad(Approval("shell", prefix))
    with pytest.raises(ConfigError, match="would approve any command"):
        permissions.approve(run("x"), Scope.SESSION, [Approval("shell", prefix)])


WORDS = st.lists(
    st.sampled_from(["git", "npm", "run", "x", "-c", "python", "-m", "sudo", "rm", "y"]), max_size=5
)


@settings(deadline=None, max_examples=200)
@given(WORDS)
def test_a_suggested_prefix_begins_the_command(words: list[str]) -> None:
    prefix = suggested_prefix(words)
    assert list(prefix) == words[: len(prefix)]
    assert bool(prefix) == bool(words)


def test_files_of_projects_differ_and_lie_in_the_config_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    one, two = approvals_path(Path("/a")), approvals_path(Path("/b"))
    assert one != two
    assert tmp_path in one.parents


def test_reasons_are_of_one_line(permissions: Permissions) -> None:
    for command in (
        "rm x\nrm y",
        "rm '\x1b[31m'",
        "npm test\n\n" * 50,
        "cat '.env\n'",
        "echo x > '/dev/sd\na'",
    ):
        permissions.refuse(run(command))
        reason = permissions.decide(run(command)).reason
        assert reason.isprintable(), reason
