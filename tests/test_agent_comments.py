from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pace_agent.watching import comments
from pace_agent.watching.comments import find_requests, without_comment


def only(path: str, text: str) -> comments.Request:
    found = find_requests(path, text)
    assert len(found) == 1, found
    return found[0]


LINE = [
    *[
        (f"a.{suffix}", "# {}")
        for suffix in ("py", "sh", "rb", "yaml", "toml", "r", "ex", "tf", "jl", "ps1", "nix")
    ],
    *[("Makefile", "# {}"), ("Dockerfile", "# {}"), ("CMakeLists.txt", "# {}"), (".gitignore", "# {}")],
    *[
        (f"a.{suffix}", "// {}")
        for suffix in ("js", "ts", "tsx", "go", "rs", "c", "h", "cpp", "java", "kt", "swift")
    ],
    *[
        (f"a.{suffix}", "// {}")
        for suffix in ("cs", "php", "scala", "dart", "scss", "proto", "zig", "vue", "jsonc")
    ],
    *[("a.rs", "/// {}"), ("a.rs", "//! {}"), ("a.sql", "-- {}"), ("a.lua", "-- {}"), ("a.hs", "-- {}")],
    *[("a.el", ";; {}"), ("a.clj", "; {}"), ("a.ini", "; {}"), ("a.tex", "% {}"), ("a.erl", "%% {}")],
    *[("a.vb", "' {}"), ("a.f90", "! {}"), ("a.vim", '" {}'), ("a.bat", "REM {}"), ("a.bat", ":: {}")],
]
BLOCK = [
    *[
        (f"a.{suffix}", "/* {} */")
        for suffix in ("js", "ts", "go", "rs", "c", "cpp", "java", "css", "kt", "cs", "sql")
    ],
    *[("a.java", "/** {} */"), ("a.html", "<!-- {} -->"), ("a.md", "<!-- {} -->"), ("a.xml", "<!-- {} -->")],
    *[
        ("a.vue", "<!-- {} -->"),
        ("a.ml", "(* {} *)"),
        ("a.fs", "(* {} *)"),
        ("a.hs", "{{- {} -}}"),
        ("a.lua", "--[[ {} ]]"),
    ],
    *[("a.ps1", "<# {} #>"), ("a.jl", "#= {} =#"), ("a.lisp", "#| {} |#")],
]


@pytest.mark.parametrize(("path", "form"), LINE + BLOCK)
@pytest.mark.parametrize(("mark", "kind"), [("AI!", "do"), ("AI?", "answer")])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_every_languages_comments(path: str, form: str, mark: str, kind: str, end: str) -> None:
    comment = form.format(f"rename it's value, please {mark}")
    text = f"first{end}  {comment}{end}last{end}"
    found = only(path, text)
    assert (found.line, found.last_line, found.kind) == (2, 2, kind)
    assert found.text == "rename it's value, please"
    assert found.raw == comment
    assert text[found.start :].startswith(comment)
    assert without_comment(text, found) == f"first{end}last{end}"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.py", 's = "# do it AI!"\n'),
        ("a.py", "s = '''\n# do it AI!\n'''\n"),
        ("a.py", 'def f():\n    """Do it AI!"""\n'),
        ("a.js", "s = `\n// do it AI!\n`;\n"),
        ("a.js", "r = /[/]/; s = '// do it AI!';\n"),
        ("a.go", "s := `\n// do it AI!\n`\n"),
        ("a.rs", 'let s = r#"\n// do it AI!\n"#;\n'),
        ("a.c", 'char *s = "\\"// do it AI!";\n'),
        ("a.kt", 'val s = """\n// do it AI!\n"""\n'),
        ("a.sh", "echo '# do it AI!'\n"),
        ("a.sh", "cat <<'EOF'\n# do it AI!\nEOF\n"),
        ("a.sh", "cat <<-A <<B\n# do it AI!\n\tA\n# do it AI!\nB\n"),
        ("a.sh", "echo ${x#do it AI!\n"),
        ("a.yaml", 'a: "b # do it AI!"\n'),
        ("a.yaml", "a: b#AI!\n"),
        ("a.sql", "select '-- do it AI!';\n"),
        ("a.scss", "background: url(http://x/AI!\n"),
        ("a.html", "<p>do it AI!</p>\n"),
        ("a.txt", "# do it AI!\n"),
        ("noname", "# do it AI!\n"),
    ],
)
def test_what_is_no_comment(path: str, text: str) -> None:
    assert find_requests(path, text) == []


@pytest.mark.parametrize(
    "comment",
    [
        "# do it AI! later",
        "# do it XAI!",
        "# do it -AI!",
        "# do it ai!",
        "# do it AI",
        "# do it AI !",
        "# do it AI!!",
    ],
)
def test_what_is_no_mark(comment: str) -> None:
    assert find_requests("a.py", f"x = 1\n{comment}\n") == []


def test_code_after_a_here_document_or_an_apostrophe_is_seen_again() -> None:
    assert only("a.sh", "cat <<EOF\nx\nEOF\nls # do it AI!\n").line == 4
    assert only("a.sh", "# don't\nls # do it AI!\n").text == "do it"
    assert only("a.yaml", "name: it's\nb: 1 # do it AI!\n").line == 2
    assert only("a.kt", 'val a = \'x\'\nval s = """it\'s""" // do it AI!\n').line == 2
    assert only("tool", "#!/bin/sh\nls # do it AI!\n").line == 2
    assert only("tool", "#!/usr/bin/env python3\nx = 1 # do it AI!\n").line == 2


def test_a_file_that_is_broken_is_still_read() -> None:
    assert only("a.py", "def f(:\n    x = (1\n    # repair this AI!\n").text == "repair this"
    assert only("a.c", "int f( {\n/* close it AI! */").text == "close it"


@pytest.mark.parametrize("path", ["a.c", "a.kt", "a.css"])
def test_a_comment_that_is_still_being_written_asks_for_nothing(path: str) -> None:
    assert find_requests(path, "x\n/* close it AI!") == []


class TestBlocks:
    def test_a_block_comment_is_taken_whole(self) -> None:
        text = (
            "int a;\n\n/*\n * Make this faster.\n * Keep its name.\n *\n * - no globals AI!\n */\nint f();\n"
        )
        found = only("a.c", text)
        assert (found.line, found.last_line) == (3, 8)
        assert found.text == "Make this faster.\nKeep its name.\n\n- no globals"
        assert without_comment(text, found) == "int a;\n\nint f();\n"

    def test_line_comments_that_form_a_sentence(self) -> None:
        text = "x = 1\n    # Make this faster,\n    # and keep\n    # its name AI!\ny = 2\n"
        found = only("a.py", text)
        assert (found.line, found.last_line) == (2, 4)
        assert found.text == "Make this faster,\nand keep\nits name"
        assert without_comment(text, found) == "x = 1\ny = 2\n"

    @pytest.mark.parametrize(
        "above",
        [
            "# What this does.",
            "# What?",
            "  # deeper",
            "#",
            "## other signs",
            "x = 1  # behind code",
            "# ask AI?",
            "",
        ],
    )
    def test_what_does_not_belong_to_it_stays(self, above: str) -> None:
        text = f"{above}\n# use the new rate AI!\ndef f(): pass\n"
        found = next(one for one in find_requests("a.py", text) if one.kind == "do")
        assert found.text == "use the new rate"
        assert without_comment(text, found) == f"{above}\ndef f(): pass\n"

    def test_lines_below_the_mark_stay(self) -> None:
        text = "# do it AI!\n# and this is the heading\nx = 1\n"
        assert without_comment(text, only("a.py", text)) == "# and this is the heading\nx = 1\n"

    def test_several_in_one_file(self) -> None:
        text = "a = 1  # why AI?\n# first AI!\n# second AI!\ns = '# no AI!'\n# é\n\nz = 'ü'  # third AI!\n"
        found = find_requests("a.py", text)
        assert [(one.line, one.kind, one.text) for one in found] == [
            (1, "answer", "why"),
            (2, "do", "first"),
            (3, "do", "second"),
            (7, "do", "third"),
        ]
        for one in found:
            text = without_comment(text, one)
        assert text == "a = 1\ns = '# no AI!'\n# é\n\nz = 'ü'\n"

    def test_a_mark_alone(self) -> None:
        assert only("a.py", "x = 1  # AI!\n").text == ""


class TestRemoval:
    @pytest.mark.parametrize(
        ("path", "text", "after"),
        [
            ("a.py", "x = 1  # two AI!\r\ny = 2\r\n", "x = 1\r\ny = 2\r\n"),
            ("a.py", "x = 1\t# two AI!", "x = 1"),
            ("a.py", "x = 1\n# two AI!", "x = 1\n"),
            ("a.py", "# two AI!", ""),
            ("a.py", "# two AI!  \t\n  y\n", "  y\n"),
            ("a.c", "f(a, /* swap AI! */ b);\n", "f(a,  b);\n"),
            ("a.c", "  /* swap AI! */ f(b);\n", "   f(b);\n"),
            ("a.c", "f(b); /* swap\n them AI! */\ng();\n", "f(b);\ng();\n"),
            ("a.c", "f(b); /* swap\n them AI! */ g();\n", "f(b);  g();\n"),
            ("a.html", "<p>\n  <!-- shorten AI! -->\n</p>\n", "<p>\n</p>\n"),
            ("a.py", "x = 1\n\n\n# two AI!\n\n\ny = 2", "x = 1\n\n\n\n\ny = 2"),
        ],
    )
    def test_byte_for_byte_else(self, path: str, text: str, after: str) -> None:
        assert without_comment(text, only(path, text)) == after

    def test_found_again_after_the_file_has_changed(self) -> None:
        text = "a = 1\n# two AI!\nb = 1\n# two AI!\nc = 1\n"
        second = find_requests("a.py", text)[1]
        changed = "import os\n\na = 1\n# two AI!\nb = 2\n# two AI!\nc = 1\n"
        assert without_comment(changed, second) == "import os\n\na = 1\nb = 2\n# two AI!\nc = 1\n"
        moved = text.replace("a = 1\n", "a = 1\nz = 2\n")
        assert (
            without_comment(moved, find_requests("a.py", text)[0])
            == "a = 1\nz = 2\nb = 1\n# two AI!\nc = 1\n"
        )

    def test_gone_already(self) -> None:
        found = only("a.py", "x = 1\n# two AI!\n")
        for text in ("x = 2\n", "x = 2\n# three AI!\n", 's = "# two AI!"\n', ""):
            assert without_comment(text, found) == text


@given(
    st.lists(
        st.sampled_from(
            [
                "x = 1",
                "# plain",
                "# do AI!",
                "y = 2  # why AI?",
                "'''",
                "s = 'it'",
                "# it's",
                "",
                "é = 'ß'",
                "\tz",
            ]
        ),
        max_size=12,
    ),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["a.py", "a.sh", "a.yaml", "a.rb"]),
)
def test_removing_takes_away_the_comment_and_nothing_else(lines: list[str], end: str, path: str) -> None:
    text = end.join(lines)
    for found in find_requests(path, text):
        after = without_comment(text, found)
        assert text[found.start : found.start + len(found.raw)] == found.raw
        assert len(find_requests(path, after)) == len(find_requests(path, text)) - 1
        kept = text[: found.start].rstrip(" \t"), text[found.start + len(found.raw) :]
        assert after in (kept[0] + kept[1], kept[0] + kept[1].removeprefix(end))


def test_a_huge_file_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comments, "LARGEST", 20)
    assert find_requests("a.py", "# do it AI!\n")
    assert not find_requests("a.py", "# do it AI!\n" * 2)


def test_without_a_grammar_the_signs_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comments, "grammar_of", lambda language: None)
    text = "s = '''\n# no AI!\n'''\nt = rb'# no AI!'\nu = f\"# no AI!\"  # yes AI!\n"
    assert only("a.py", text).line == 5
    assert only("a.rs", "fn f<'a>(x: &'a str) {} // yes AI!\n").text == "yes"
    assert only("a.ts", "const s = `\n// no AI!\n` // yes AI!\n").line == 3
