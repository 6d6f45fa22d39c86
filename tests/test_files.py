from __future__ import annotations

import codecs
import os
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pace_local.errors import FileError
from pace_local.files import MAX_FILE_BYTES, SourceText, expand, read_text

Check = Callable[["str | os.PathLike[str]"], object]


@contextmanager
def raises_line(*fragments: str) -> Iterator[None]:
    """A FileError of one line that holds each fragment, within seconds."""
    with pytest.raises(FileError) as caught:
        yield
    message = str(caught.value)
    assert "\n" not in message
    for fragment in fragments:
        assert fragment in message
    assert caught.value.exit_code == 2


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("data", "text", "encoding", "newline"),
    [
        (b"rate = 53\n", "rate = 53\n", "utf-8", "\n"),
        (b"a\r\nb\r\nc\n", "a\r\nb\r\nc\n", "utf-8", "\r\n"),
        (b"a\rb\r", "a\rb\r", "utf-8", "\r"),
        (b"one line", "one line", "utf-8", ""),
        ("größe £5 數\n".encode(), "größe £5 數\n", "utf-8", "\n"),
        (codecs.BOM_UTF8 + "é\n".encode(), "é\n", "utf-8-sig", "\n"),
        (codecs.BOM_UTF16_LE + "é\r\n".encode("utf-16-le"), "é\r\n", "utf-16-le", "\r\n"),
        (codecs.BOM_UTF16_BE + "é\n".encode("utf-16-be"), "é\n", "utf-16-be", "\n"),
        (b"", "", "utf-8", ""),
        (codecs.BOM_UTF8, "", "utf-8-sig", ""),
    ],
)
def test_text_is_read_as_it_stands(
    tmp_path: Path, data: bytes, text: str, encoding: str, newline: str
) -> None:
    path = write(tmp_path / "f.txt", data)
    assert read_text(path) == SourceText(str(path), text, encoding, newline)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.text(st.characters(codec="utf-8", exclude_characters="\0")),
    st.sampled_from([b"", codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE]),
)
def test_any_text_goes_back_to_its_bytes(
    tmp_path_factory: pytest.TempPathFactory, text: str, mark: bytes
) -> None:
    codec = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}.get(mark, "utf-8")
    # A text that starts with the mark's own character is read as if that were a mark.
    text = text.lstrip("\ufeff")
    data = mark + text.encode(codec)
    source = read_text(write(tmp_path_factory.getbasetemp() / "any.txt", data))
    assert source.text == text
    assert source.to_bytes() == data


@pytest.mark.parametrize(
    ("data", "blank"), [(b"", True), (b" \n\t\r\n", True), (codecs.BOM_UTF8, True), (b"x", False)]
)
def test_empty_files_are_marked(tmp_path: Path, data: bytes, blank: bool) -> None:
    assert read_text(write(tmp_path / "f.txt", data)).is_blank is blank


def test_latin1_is_refused_with_offset_and_line(tmp_path: Path) -> None:
    path = write(tmp_path / "prices.txt", b"first\nsecond\n\xa35\n")
    with raises_line(repr(str(path)), "0xA3", "offset 13", "line 3", "iconv"):
        read_text(path)


def test_offset_counts_the_byte_order_mark(tmp_path: Path) -> None:
    with raises_line("0xFF", "offset 4"):
        read_text(write(tmp_path / "f.txt", codecs.BOM_UTF8 + b"a\xff"))


def test_truncated_utf16_is_refused(tmp_path: Path) -> None:
    with raises_line("UTF-16", "offset 4"):
        read_text(write(tmp_path / "f.txt", codecs.BOM_UTF16_LE + b"a\0b"))


@pytest.mark.parametrize(
    ("data", "fragment"),
    [
        (b"\x7fELF\x02\0\0", "NUL byte at offset 5"),
        ("plain".encode("utf-16-le"), "byte order mark"),
        (codecs.BOM_UTF16_LE + "a\0b".encode("utf-16-le"), "NUL character"),
        (codecs.BOM_UTF32_LE + "a".encode("utf-32-le"), "UTF-32"),
        (codecs.BOM_UTF32_BE + "a".encode("utf-32-be"), "UTF-32"),
    ],
)
def test_binary_is_refused(tmp_path: Path, data: bytes, fragment: str) -> None:
    path = write(tmp_path / "f.bin", data)
    with raises_line(repr(str(path)), fragment):
        read_text(path)


@pytest.mark.parametrize("check", [read_text, lambda path: expand([path])])
class TestPathsThatAreNoFiles:
    def test_missing_file_names_the_nearest(self, tmp_path: Path, check: Check) -> None:
        write(tmp_path / "orders.py", b"x")
        with raises_line("no such file", "ordres.py", "did you mean", "orders.py"):
            check(tmp_path / "ordres.py")

    def test_missing_directory(self, tmp_path: Path, check: Check) -> None:
        with raises_line("no such file", "no directory", "nowhere"):
            check(tmp_path / "nowhere" / "a.py")

    def test_pattern_that_the_shell_left(self, tmp_path: Path, check: Check) -> None:
        with raises_line("no file matches", "*.py"):
            check(tmp_path / "*.py")

    def test_directory_suggests_its_most_frequent_suffix(self, tmp_path: Path, check: Check) -> None:
        for name in ("a.md", "b.py", "c.py", "Makefile"):
            write(tmp_path / name, b"x")
        with raises_line("is a directory", str(tmp_path / "*.py")):
            check(tmp_path)

    def test_file_used_as_a_directory(self, tmp_path: Path, check: Check) -> None:
        write(tmp_path / "a.py", b"x")
        with raises_line("no such file", "a.py"):
            check(tmp_path / "a.py" / "b")

    def test_pipe_is_refused_without_waiting(self, tmp_path: Path, check: Check) -> None:
        os.mkfifo(tmp_path / "p")
        ended = threading.Event()

        def attempt() -> None:
            with raises_line("is a pipe"):
                check(tmp_path / "p")
            ended.set()

        threading.Thread(target=attempt, daemon=True).start()
        assert ended.wait(10)

    def test_device_is_refused(self, tmp_path: Path, check: Check) -> None:
        with raises_line("/dev/zero", "is a device"):
            check("/dev/zero")

    def test_socket_is_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, check: Check) -> None:
        monkeypatch.chdir(tmp_path)  # a socket's path has a short limit
        with socket.socket(socket.AF_UNIX) as server, raises_line("is a socket"):
            server.bind("s")
            check("s")

    def test_link_to_itself(self, tmp_path: Path, check: Check) -> None:
        (tmp_path / "loop").symlink_to(tmp_path / "loop")
        with raises_line("cannot read", "loop"):
            check(tmp_path / "loop")

    @pytest.mark.parametrize("path", ["a\0b", "x" * 5000, ""])
    def test_impossible_paths(self, path: str, check: Check) -> None:
        with raises_line():
            check(path)

    def test_name_with_a_line_end_stays_on_one_line(self, tmp_path: Path, check: Check) -> None:
        with raises_line("a\\nb"):
            check(tmp_path / "a\nb")


def test_unreadable_file(tmp_path: Path) -> None:
    path = write(tmp_path / "secret.txt", b"x")
    path.chmod(0)
    if os.geteuid() != 0:
        with raises_line("cannot read", "secret.txt", "Permission denied"):
            read_text(path)
        return
    os.seteuid(65534)  # root reads everything, so look as nobody
    try:
        with raises_line("cannot read", "secret.txt", "Permission denied"):
            read_text(path)
    finally:
        os.seteuid(0)


def test_size_limit_is_exact(tmp_path: Path) -> None:
    path = write(tmp_path / "f.txt", b"x" * 100)
    assert len(read_text(path, max_bytes=100).text) == 100
    with raises_line(repr(str(path)), "100 bytes", "99 bytes", "split it"):
        read_text(path, max_bytes=99)


def test_huge_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.txt"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with raises_line("1048576.0 MiB", f"{MAX_FILE_BYTES // 2**20}.0 MiB"):
        read_text(path)


@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="needs a file whose size the kernel states as 0"
)
def test_size_limit_holds_where_the_stated_size_is_wrong() -> None:
    assert Path("/proc/self/status").stat().st_size == 0
    with raises_line("more than the 10 bytes"):
        read_text("/proc/self/status", max_bytes=10)


def test_expand_keeps_order_and_drops_repeats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("b.py", "a.py"):
        write(Path(name), b"x")
    Path("link.py").symlink_to("a.py")
    given_paths: list[str | Path] = [
        "b.py",
        "a.py",
        Path("a.py"),
        "./b.py",
        str(tmp_path / "b.py"),
        "link.py",
    ]
    assert expand(given_paths) == ["b.py", "a.py"]
    assert expand([]) == []


def test_expand_stops_at_the_first_path_that_cannot_be_used(tmp_path: Path) -> None:
    write(tmp_path / "a.py", b"x")
    with raises_line("zz.py"):
        expand([tmp_path / "a.py", tmp_path / "zz.py", tmp_path])


def test_every_message_says_what_to_do(tmp_path: Path) -> None:
    """The message is shown alone, so it must carry the remedy too: a clause after a semicolon or a colon."""
    write(tmp_path / "latin.txt", b"\xe9")
    write(tmp_path / "nul.txt", b"\0")
    for path in (
        tmp_path,
        tmp_path / "latin.txt",
        tmp_path / "nul.txt",
        tmp_path / "none.txt",
        Path("/dev/null"),
    ):
        with pytest.raises(FileError) as caught:
            read_text(path)
        assert re.search(r"; \w+", str(caught.value))
