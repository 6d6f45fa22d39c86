"""What documents promise: commands that exist, files that are there, code that compiles."""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

import pace_local
from pace_agent import cli as agent_cli
from pace_local import cli
from pace_local.bench import cli as bench_cli
from pace_local.plan import load_plan
from pace_tui import cli as tui_cli
from pace_tui.bench.measure import BENCHMARK

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "native/README.md")),
        *(ROOT / "docs").glob("*.md"),
    )
    if path.is_file()
)
_SHELL = ("", "sh", "bash", "shell", "console", "text")


def text_of(document: str) -> str:
    return (ROOT / document).read_text(encoding="utf-8")


def fences(document: str, *languages: str) -> list[str]:
    """The contents of the fenced blocks in some languages."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", text_of(document), flags=re.MULTILINE | re.DOTALL)
    return [content for language, content in blocks if language in languages]


def prose(document: str) -> str:
    """A document without its fenced blocks."""
    return re.sub(r"^```.*?^```", "", text_of(document), flags=re.MULTILINE | re.DOTALL)


def commands(document: str) -> Iterator[list[str]]:
    """Command lines of this project that a reader could type, in words, without variables before them."""
    lines = []
    for block in fences(document, *_SHELL):
        joined = block.replace("\\\n", " ").splitlines()
        prompted = [line[2:] for line in joined if line.startswith("$ ")]
        lines += prompted or joined
    lines += re.findall(r"`([^`\n]+)`", prose(document))
    for line in lines:
        with contextlib.suppress(ValueError):  # a quotation mark in prose
            words = shlex.split(line, comments=True)
            while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
                words.pop(0)
            if words and re.fullmatch(r"pace|scripts/[\w-]+", words[0]):
                yield words


COMMANDS = [
    pytest.param(document, words, id=f"{document}: {shlex.join(words)[:70]}")
    for document in DOCUMENTS
    for words in commands(document)
]


def test_there_is_something_to_check():
    assert {"CONTRIBUTING.md", "native/README.md", "docs/how-it-works.md"} <= set(DOCUMENTS)
    assert len(COMMANDS) >= 5


@pytest.mark.parametrize(("document", "words"), COMMANDS)
def test_every_command_can_be_typed(document, words):
    program, *arguments = words
    if program != "pace":
        script = ROOT / program
        assert script.is_file(), f"{document} names {program}, which is not there"
        assert script.stat().st_mode & 0o111, f"{program} cannot be run"
    if arguments in ([], ["…"], ["models"]):
        return
    if program in ("pace", "scripts/pace"):
        parser = cli.build_parser(more=(*tui_cli.COMMANDS, *agent_cli.COMMANDS))
        arguments = tui_cli.with_command(arguments)
    elif program == "scripts/bench":
        parser = bench_cli.build_parser([BENCHMARK])
    else:
        return
    parsed = parse(parser, arguments)
    for name in getattr(parsed, "files", []):
        if "/" in name and not set("*…<>") & set(name):
            assert (ROOT / name).is_file(), f"{document} asks about {name}, which is not there"


def parse(parser: argparse.ArgumentParser, arguments: list[str]) -> argparse.Namespace:
    """What a parser makes of arguments; fails with its message if they cannot be typed."""
    said, code = io.StringIO(), 0
    parsed = argparse.Namespace()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
        try:
            parsed = parser.parse_args(arguments)
        except SystemExit as ended:  # also after --help
            code = ended.code
    assert code == 0, said.getvalue()
    return parsed


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document):
    text = prose(document)
    targets = re.findall(r"\]\(([^)\s]+)(?:\s[^)]*)?\)", text) + re.findall(r'(?:src|href)="([^"]+)"', text)
    for target in targets:
        if re.match(r"[a-z][a-z+.-]*:", target):
            continue
        name, _, anchor = target.partition("#")
        path = (ROOT / document).parent / name if name else ROOT / document
        assert path.exists(), f"{document} links to {target}"
        if anchor and path.suffix == ".md":
            assert anchor in anchors(path), f"{document} links to {target}, a heading that is not there"


def anchors(path: Path) -> set[str]:
    """What GitHub makes of a document's headings."""
    headings = re.findall(r"^#+ +(.+?) *$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_python_compiles_and_imports_what_there_is(document):
    for block in fences(document, "python"):
        tree = ast.parse(block)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module == "pace_local":
                for alias in node.names:
                    assert hasattr(pace_local, alias.name), f"{document} imports {alias.name}"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_plans_can_be_loaded(document, tmp_path):
    for block in fences(document, "toml"):
        if "[[step]]" in block:
            (tmp_path / "plan.toml").write_text(block, encoding="utf-8")
            assert len(load_plan(tmp_path / "plan.toml")) == block.count("[[step]]")


@pytest.mark.parametrize("document", DOCUMENTS)
def test_nothing_is_left_to_be_filled_in(document):
    assert not re.search(r"@@|\bTODO\b|\bTBD\b|\bFIXME\b", text_of(document))


def test_the_layout_is_what_there_is():
    """Names at the margin are folders of the repository, indented ones are in the folder above."""
    for document in DOCUMENTS:
        for block in fences(document, ""):
            if not block.startswith("native/ "):
                continue
            folder = ROOT
            for line in block.splitlines():
                names = re.findall(r"(?:^|(?<=  ))([\w.-]+/)(?=\s|$)", line)
                inside = re.match(r"\s+([\w.-]+/?)\s", line)
                if inside:
                    assert (folder / inside[1]).exists(), f"{document} lays out {inside[1]}"
                for name in names if not inside else ():
                    folder = ROOT / name
                    assert folder.is_dir(), f"{document} lays out {name}"
                if line.startswith("scripts/ "):
                    for name in line.removeprefix("scripts/").split(","):
                        assert (ROOT / "scripts" / name.strip()).is_file(), f"{document} lays out {name}"
