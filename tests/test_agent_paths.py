from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pace_agent.errors import RefusedError, ToolError
from pace_agent.files.atomic_write import write_atomically
from pace_agent.safety.paths import LONGEST_PATH, Place, Territory
from pace_agent.safety.protected import header_protection, protection


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    (folder / "src").mkdir(parents=True)
    (folder / "src/a.py").write_text("a\n")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_text("secret\n")
    return folder


def put(territory: Territory, place: Place) -> None:
    """Write a file as :class:`pace_agent.files.file_state.KnownFiles` does."""
    with territory.held(place, make=True) as path:
        write_atomically(path, b"x")


def test_errors_name_the_place_and_what_it_may_have_been_meant_for(root: Path) -> None:
    territory = Territory(root)
    with pytest.raises(ToolError, match=r"no such file: 'src/b\.py'; did you mean 'src/a\.py'\?"):
        territory.read(territory.find("src/b.py"), 10)
    (root / "src/folder").mkdir()
    with pytest.raises(ToolError, match=rf"cannot write '{root / 'src/folder'}'"):
        put(territory, territory.find("src/folder"))


def test_a_path_is_found_however_it_is_written(root: Path) -> None:
    territory = Territory(root)
    for written in ("src/a.py", "./src//a.py", "src/../src/a.py", str(root / "src/a.py"), "src/./a.py/"):
        place = territory.find(written)
        assert place.path == root / "src/a.py"
        assert place.shown == os.path.join("src", "a.py")
        assert territory.read(place, 100) == b"a\n"
    assert territory.find(".").shown == "."
    assert territory.find("a.py", base=root / "src").shown == os.path.join("src", "a.py")


def test_a_path_need_not_be_there(root: Path) -> None:
    territory = Territory(root)
    place = territory.find("new/folder/file")
    assert place.parts == ("new", "folder", "file")
    with pytest.raises(ToolError, match=r"no such file: 'new/folder/file'"):
        territory.read(place, 100)
    put(territory, place)
    assert (root / "new/folder/file").read_bytes() == b"x"


@pytest.mark.parametrize(
    "path",
    [
        "..",
        "../outside/secret",
        "src/../../outside/secret",
        "/",
        "/etc/passwd",
        "~",
        "~/x",
        "~root/x",
        "../repository2",
        "src/../..",
        "/proc/self/root/etc/passwd",
        "new/../../x",
    ],
)
def test_a_path_outside_is_refused(root: Path, path: str) -> None:
    (root.parent / "repository2").mkdir()
    with pytest.raises(RefusedError, match="is outside of the repository"):
        Territory(root).find(path)
    assert not Territory(root).contains(path)


def test_a_home_in_the_repository_is_inside(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(root))
    assert Territory(root).find("~/src").parts == ("src",)


def test_a_link_is_judged_by_where_it_leads(root: Path) -> None:
    (root / "out").symlink_to(root.parent / "outside")
    (root / "file").symlink_to(root.parent / "outside/secret")
    (root / "in").symlink_to("src")
    (root / "env").symlink_to(".env")
    (root / "dangling").symlink_to("../nothing")
    (root / "loop").symlink_to("loop")
    (root / "chain").symlink_to("out")
    territory = Territory(root)
    for path in ("out/secret", "file", "out", "dangling", "chain/secret", "in/../out/new"):
        with pytest.raises(RefusedError, match=r"outside.*\(a link leads there\)"):
            territory.find(path)
    assert territory.find("in/a.py").parts == ("src", "a.py")
    assert territory.find("env").protection is not None
    with pytest.raises((RefusedError, ToolError)):
        territory.read(territory.find("loop"), 10)


def test_the_repository_itself_may_be_reached_by_a_link(root: Path) -> None:
    link = root.parent / "link"
    link.symlink_to(root)
    territory = Territory(link)
    assert territory.repository == root
    assert territory.find(str(link / "src/a.py")).parts == ("src", "a.py")


def test_extra_folders_belong_to_the_territory(root: Path) -> None:
    extra = root.parent / "outside"
    territory = Territory(root, [extra])
    place = territory.find("../outside/secret")
    assert (place.root, place.parts, place.shown) == (extra, ("secret",), str(extra / "secret"))
    with pytest.raises(RefusedError, match=f"the repository and {extra}"):
        territory.find("../else")


def test_a_folder_inside_of_another_counts_for_itself(root: Path) -> None:
    assert Territory(root, [root / "src"]).find("src/a.py").root == root / "src"


@pytest.mark.parametrize("folder", ["nothing", "src/a.py", "/"])
def test_a_territory_needs_a_folder(root: Path, folder: str) -> None:
    with pytest.raises(ToolError, match=r"is no folder|whole file system"):
        Territory(root / folder)


def test_a_home_folder_that_nobody_has_is_no_folder(root: Path) -> None:
    with pytest.raises(ToolError, match="'~no-such-user-here/x' is no folder"):
        Territory(root, ["~no-such-user-here/x"])


@pytest.mark.parametrize(
    "path",
    ["", "a\0b", "a\nb", "a\x1b[31m", "a\x7f", "a\x85", "a\u2028b", "\udcff", "x" * (LONGEST_PATH + 1)],
)
def test_what_cannot_be_a_path_is_said_in_one_line(root: Path, path: str) -> None:
    with pytest.raises(ToolError) as caught:
        Territory(root).find(path)
    assert "\n" not in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("path", ["x" * 300, "src/a.py/b", "a/" * 3000])
def test_what_the_system_refuses_is_an_error_of_ours(root: Path, path: str) -> None:
    territory = Territory(root)
    with pytest.raises(ToolError):
        territory.read(territory.find(path), 10)
    with pytest.raises(ToolError):
        put(territory, territory.find(path))


@settings(deadline=None, max_examples=200)
@given(st.lists(st.sampled_from(["..", ".", "src", "out", "in", "x", "", "~", ".env", "/"]), max_size=7))
def test_no_path_leads_outside(tmp_path_factory: pytest.TempPathFactory, parts: list[str]) -> None:
    base = tmp_path_factory.mktemp("paths")
    root = base / "r"
    (root / "src").mkdir(parents=True)
    (root / "out").symlink_to(base)
    (root / "in").symlink_to("src")
    path = "/".join(parts)
    territory = Territory(root)
    try:
        place = territory.find(path)
    except (RefusedError, ToolError):
        return
    real = Path(os.path.realpath(root / os.path.expanduser(path)))
    assert place.path == real
    assert real == root or root in real.parents
    assert (".env" in place.parts) == (place.protection is not None)


PROTECTED = (
    ".env .env.local .env.production .ENV .envrc sub/.env .env.example.local .git .git/config "
    ".git/hooks/x a/.git/HEAD .GIT/x .git. .Git/config git~1/config .g\u200cit/config id_rsa "
    "id_ed25519 ID_RSA id_ecdsa_sk server.key a.p12 a.pfx a.ppk a.jks .ssh/known_hosts .aws/config "
    ".kube/config .gnupg/x .netrc .npmrc .pypirc .pgpass .git-credentials .docker/config.json "
    ".config/gh/hosts.yml .cargo/credentials.toml .vault-token .m2/settings.xml"
)
FREE = (
    ".env.example .env.sample env environment.py .gitignore .gitattributes .github/workflows/x.yml "
    "gitconfig id_rsa.pub src/key.py keys/README.md config.json docker/config.json .config/x "
    "credentials.py README.md .environs/../x a.pem"
)


@pytest.mark.parametrize("path", PROTECTED.split())
def test_secrets_are_protected(path: str) -> None:
    assert protection(Path(path).parts) is not None


@pytest.mark.parametrize("path", FREE.split())
def test_ordinary_files_are_not(path: str) -> None:
    assert protection(Path(os.path.normpath(path)).parts) is None


@pytest.mark.parametrize(
    "text",
    [
        "-----BEGIN PRIVATE KEY-----\n",
        "# x\n-----BEGIN RSA PRIVATE KEY-----\n",
        "-----BEGIN OPENSSH PRIVATE KEY-----",
        "-----BEGIN PGP PRIVATE KEY BLOCK-----",
        "PuTTY-User-Key-File-2: ssh-rsa",
    ],
)
def test_a_private_key_is_known_by_its_beginning(root: Path, text: str) -> None:
    (root / "notes.txt").write_text(text)
    territory = Territory(root)
    with pytest.raises(RefusedError, match=r"'notes.txt' is protected: it holds a private key"):
        territory.read(territory.find("notes.txt"), 1000)
    territory.allow("notes.txt")
    assert territory.read(territory.find("notes.txt"), 1000) == text.encode()


def test_public_keys_and_certificates_are_no_secrets() -> None:
    assert header_protection(b"-----BEGIN PUBLIC KEY-----\n") is None
    assert header_protection(b"-----BEGIN CERTIFICATE-----\n") is None


def test_protected_files_are_used_only_if_named(root: Path) -> None:
    (root / ".env").write_text("A=1\n")
    (root / "sub").mkdir()
    (root / "sub/.env").write_text("A=2\n")
    territory = Territory(root)
    for action in (
        lambda: territory.read(territory.find(".env"), 100),
        lambda: territory.check(territory.find(".env")),
    ):
        with pytest.raises(RefusedError, match=r"'.env' is protected: .* only if the user names it"):
            action()
    named = Territory(root, named=["./.env"])
    assert named.read(named.find(".env"), 100) == b"A=1\n"
    with pytest.raises(RefusedError):
        named.read(named.find("sub/.env"), 100)


def test_naming_a_folder_names_what_is_in_it_and_naming_all_names_nothing(root: Path) -> None:
    (root / ".git").mkdir()
    assert Territory(root, named=[".git"]).find(".git/config").protection is None
    assert Territory(root, named=["."]).find(".git/config").protection is not None


def test_a_folder_that_became_a_link_is_not_followed(root: Path) -> None:
    territory = Territory(root)
    reading, writing = territory.find("src/a.py"), territory.find("src/new/b.py")
    (root / "src").rename(root / "old")
    (root / "src").symlink_to(root.parent / "outside")
    (root.parent / "outside/a.py").write_text("outside\n")
    for action in (
        lambda: territory.read(reading, 100),
        lambda: put(territory, reading),
        lambda: put(territory, writing),
    ):
        with pytest.raises(RefusedError, match="has become a link since it was looked up"):
            action()
    assert (root.parent / "outside/a.py").read_text() == "outside\n"
    assert not (root.parent / "outside/new").exists()


def test_a_file_that_became_a_link_is_not_followed(root: Path) -> None:
    territory = Territory(root)
    place = territory.find("src/a.py")
    (root / "src/a.py").unlink()
    (root / "src/a.py").symlink_to(root.parent / "outside/secret")
    with pytest.raises(RefusedError, match="has become a link"):
        territory.read(place, 100)
    put(territory, place)  # takes the link's place
    assert (root / "src/a.py").read_bytes() == b"x"
    assert (root.parent / "outside/secret").read_text() == "secret\n"


def test_a_repository_that_was_replaced_is_noticed(root: Path) -> None:
    territory = Territory(root)
    place = territory.find("src/a.py")
    root.rename(root.parent / "old")
    (root / "src").mkdir(parents=True)
    (root / "src/a.py").write_text("other\n")
    with pytest.raises(RefusedError, match="has been replaced by another"):
        territory.read(place, 100)
    with pytest.raises(RefusedError, match="outside"):
        territory.find("src/a.py")


def test_swapping_a_folder_for_a_link_all_the_time_never_leads_outside(root: Path) -> None:
    (root.parent / "outside/a.py").write_text("outside\n")
    territory = Territory(root)
    stop = threading.Event()

    def swap() -> None:
        other = root / "link"
        other.symlink_to(root.parent / "outside")
        while not stop.is_set():
            for source, target in (("src", "kept"), ("link", "src"), ("src", "link"), ("kept", "src")):
                os.rename(root / source, root / target)

    thread = threading.Thread(target=swap)
    thread.start()
    read = refused = 0
    try:
        for number in range(2000):
            try:
                place = territory.find("src/a.py")
                if number % 4 == 0:
                    with territory.held(place) as path:
                        path.write_bytes(b"a\n")
                assert territory.read(place, 100) == b"a\n"
                read += 1
            except (RefusedError, ToolError):
                refused += 1
    finally:
        stop.set()
        thread.join()
    assert (root.parent / "outside/a.py").read_text() == "outside\n"
    assert read
    assert refused


def test_only_regular_files_are_read(root: Path) -> None:
    os.mkfifo(root / "pipe")
    territory = Territory(root)
    for path in ("pipe", "src", "."):
        with pytest.raises(ToolError, match=r"no regular file|is a folder"):
            territory.read(territory.find(path), 10)


def test_a_large_file_is_not_read(root: Path) -> None:
    territory = Territory(root)
    with pytest.raises(ToolError, match=r"has 2 bytes, more than the 1 that"):
        territory.read(territory.find("src/a.py"), 1)


def test_descriptors_are_closed(root: Path) -> None:
    territory = Territory(root)
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else None
    for _ in range(20):
        territory.read(territory.find("src/a.py"), 100)
        put(territory, territory.find("new/a.py"))
        with pytest.raises(ToolError):
            territory.read(territory.find("src/none/none"), 100)
    if before is not None:
        assert len(os.listdir("/proc/self/fd")) == before


def test_upper_and_lower_case_are_alike_where_the_file_system_says_so(root: Path) -> None:
    if not (root / "SRC").exists():
        with pytest.raises(ToolError, match="no such file"):
            Territory(root).read(Territory(root).find("SRC/a.py"), 10)
        return
    place = Territory(root).find(str(root).upper() + "/SRC/A.PY")
    assert Territory(root).read(place, 10) == b"a\n"
