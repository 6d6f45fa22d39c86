from __future__ import annotations

import shlex
import shutil
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pace_agent.shell.split import LONGEST_COMMAND, Split, split_command
from pace_agent.shell.words import Word

NAMES = st.sampled_from(["one", "two", "three", "four"])
PLAIN_WORDS = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp", "Zs")), max_size=8
)


def names(split: Split) -> list[str]:
    return [command.name or "" for command in split.commands if command.words]


def texts(split: Split) -> list[list[str | None]]:
    return [[word.text for word in command.words] for command in split.commands if command.words]


# Commands of which it is known what they run: (text, names). The text can stand wherever a command can.


def _both(a: tuple[str, list[str]], b: tuple[str, list[str]], text: str) -> tuple[str, list[str]]:
    return text.format(a[0], b[0]), a[1] + b[1]


def _one(a: tuple[str, list[str]], text: str, *more: str) -> tuple[str, list[str]]:
    return text.replace("@", a[0]), [*more, *a[1]]


SIMPLE = st.tuples(NAMES, st.lists(PLAIN_WORDS, max_size=2)).map(
    lambda drawn: (" ".join([drawn[0], *map(shlex.quote, drawn[1])]), [drawn[0]])
)
JOINED = st.sampled_from(
    [
        "{} | {}",
        "{} && {}",
        "{} || {}",
        "{}; {}",
        "{}\n{}",
        "{} & {}",
        "{} |\n {}",
        "{} && \\\n{}",
        "{} |& {}",
        "{} # a comment; rm x\n{}",
        "if {}; then {}; fi",
        "while {}; do {}; done",
        "until {}; do {}; done",
        "if {}; then :; else {}; fi",
        "case x in a) {};; *) {};; esac",
    ]
)
AROUND = st.sampled_from(
    [
        "( @ )",
        "{ @; }",
        "{ @\n}",
        "for x in a b; do @; done",
        "f() { @; }",
        "( @ ) > file",
        "{ @; } 2>&1",
    ]
)
IN_A_WORD = st.sampled_from(
    [
        "outer $( @ )",
        'outer "$( @ )"',
        'outer "a b $( @ ) c"',
        "outer x$( @ )y",
        "outer <(@)",
        "outer > >(@)",
        "outer ${x:-$( @ )}",
        "X=$( @ ) outer",
        "outer <<< $( @ )",
        "outer <<EOF\nsome $( @ )\nEOF",
    ]
)
AS_TEXT = st.sampled_from(["sh -c {}", "bash -c {}", "eval {}", "sudo bash -c {}", "env A=1 sh -c {}"])
IN_FRONT = st.sampled_from(
    [
        "sudo ",
        "sudo -u me ",
        "env A=1 ",
        "A=1 B=2 ",
        "time ",
        "nice -n 5 ",
        "nohup ",
        "timeout 5 ",
        "command ",
        "xargs ",
        "xargs -0 -n 1 ",
        "stdbuf -oL ",
        "sudo env X=y nice ",
        "> out ",
        "2>/dev/null ",
    ]
)


def _larger(inner: st.SearchStrategy[tuple[str, list[str]]]) -> st.SearchStrategy[tuple[str, list[str]]]:
    def without_heredoc(drawn: tuple[str, list[str]]) -> bool:
        return "<<EOF" not in drawn[0]

    plain = inner.filter(without_heredoc)
    return st.one_of(
        st.builds(_both, plain, plain, JOINED),
        st.builds(_one, plain, AROUND),
        st.builds(
            lambda a, text: _one(a, text, "outer"), plain.filter(lambda a: "\n" not in a[0]), IN_A_WORD
        ),
        st.builds(lambda a, text: (text.format(shlex.quote(a[0])), a[1]), plain, AS_TEXT),
        st.builds(lambda front, a: (front + a[0], a[1]), IN_FRONT, SIMPLE),
        st.builds(lambda a: (f"find . -exec {a[0]} \\;", ["find", *a[1]]), SIMPLE),
    )


COMMANDS = st.recursive(SIMPLE, _larger, max_leaves=6)


@settings(
    deadline=None, max_examples=400, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
@given(COMMANDS)
def test_no_command_is_lost(drawn: tuple[str, list[str]]) -> None:
    text, expected = drawn
    found = Counter(name for name in names(split_command(text)) if name != ":")
    assert not Counter(expected) - found
    # Nothing is invented either, where all is understood.
    if split_command(text).is_clear:
        assert found == Counter(expected)


@settings(deadline=None, max_examples=300)
@given(st.lists(st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs"))), max_size=5))
def test_quoted_words_come_back_as_they_are(words: list[str]) -> None:
    split = split_command(shlex.join(["command-of-mine", *words]))
    assert split.is_clear
    assert texts(split) == [["command-of-mine", *words]]


@settings(deadline=None, max_examples=300)
@given(st.text(max_size=60) | st.text(st.sampled_from("ab $`\"'\\(){}[]<>|&;#=\n*?~!-"), max_size=40))
def test_any_text_is_split_without_an_error(text: str) -> None:
    split_command(text)


def test_characters_far_from_ascii_do_not_end_the_process() -> None:
    # Each of these ended it with SIGSEGV, depending on what lay behind a table of the C library.
    for far in map(chr, range(0x10000, 0x110000, 0x0FFF)):
        assert texts(split_command(f"echo {{{far}..2}} {{1..{far}}}")) == [["echo", None, None]]
        split_command("=$([){" + far)


@pytest.mark.parametrize("text", ["é", "中文", "🙂", "a中b", "\u2003", "\u0085", "٣"])
def test_what_is_not_ascii_is_a_part_of_words(text: str) -> None:
    assert texts(split_command(f"echo {text} x{text}y > {text}; {text} b")) == [
        ["echo", text, f"x{text}y"],
        [text, "b"],
    ]
    assert split_command(f"cat > {text}").commands[0].redirections[0].target.text == text


PIECES = [
    *[
        "aa",
        "bb",
        " ",
        " ",
        "\n",
        ";",
        "&",
        "|",
        "&&",
        "||",
        "$(",
        ")",
        "`",
        '"',
        "'",
        "\\",
        "{ ",
        "}",
        "(",
        "#",
    ],
    *[
        "<<EE\n",
        "\nEE\n",
        "<<'EE'\n",
        "if ",
        "then ",
        "fi",
        "for x in ",
        "do ",
        "done",
        "case aa in ",
        "aa)",
        ";;",
    ],
    *[
        "esac",
        "! ",
        ">dd",
        "2>&1",
        "<(",
        "x=1",
        "${x:-",
        "[[ ",
        "]]",
        "*",
        "<<<",
        "&>dd",
        "\\\n",
        "time ",
        "$'",
    ],
    *[
        "else ",
        "<dd",
        "\t",
        "=",
        "$",
        "-c",
        "''",
        "\\'",
        "\n#",
        "sh -c ",
        "eval ",
        "<<-EE\n",
        "\n\tEE\n",
        "[ ",
        " ]",
    ],
]
_RUN = """
FUNCNEST=4
command_not_found_handle() {
    local line; printf -v line '%s\\037' "$@"; printf '%s\\036' "$line" >> "$LOG"; return $((RANDOM % 2))
}
sh() { [ "$1" = -c ] && eval "$2"; }
ulimit -t 1; ulimit -f 100; PATH=/nonexistent; eval "$TEXT"
"""


def _run_by_bash(text: str) -> list[list[str]]:
    """What bash runs: names that are no commands, written down instead of run."""
    with tempfile.TemporaryDirectory() as folder:
        inner, log = Path(folder, "empty"), Path(folder, "log")
        inner.mkdir()
        try:
            subprocess.run(
                [shutil.which("bash") or "", "-c", _RUN],
                cwd=inner,
                env={"LOG": str(log), "TEXT": text, "PATH": ""},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=10,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return []
        if not log.exists():
            return []
        return [line.split("\x1f")[:-1] for line in log.read_text().split("\x1e")[:-1]]


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@settings(
    deadline=None, max_examples=400, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
@given(st.lists(st.sampled_from(PIECES), min_size=2, max_size=12).map("".join))
def test_what_is_understood_is_what_bash_runs(text: str) -> None:
    split = split_command(text)
    # A function could call itself without end.
    if not split.is_clear or "() {" in text or "(){" in text:
        return
    known = texts(split)
    for ran in _run_by_bash(text):
        if not ran or ran[0] in ("sh", "time"):
            continue
        same = [words for words in known if words[0] == ran[0]]
        assert any(None in words or "*" in text or words == ran for words in same), (ran, known)


MISREAD = [
    # Texts that the grammar alone reads otherwise than the shell; found by comparing them.
    "aa\\\nbb x",
    "cat <<A <<B\nx\nA\ny\nB",
    "*x=1",
    "aa\n\\\nbb",
    "<<<}\\`aa bb",
    " -c2>&1",
    "<<<$ aa",
    "[ x \n &>dd ]",
    "time ! aa",
    "aa $\\\n(bb)",
    'aa "$\\\n(bb)"',
    '$\\\n""',
    "! { (aa); }",
    "{aa,bb}",
    "x=(aa) bb[$(cc)]=1 dd",
    "aa#bb\raa",
    "echo $'a\\'; bb'",
    "((aa bb))",
    "aa <<E$x\nE\n",
    "aa ;& bb",
    "a[$(bb)]=1 cc",
    "${aa} bb",
    "coproc aa",
    "aa <<EOF\n\\$(bb)\nEOF",
]


@pytest.mark.parametrize("text", MISREAD)
def test_what_shells_and_grammar_may_read_in_two_ways_is_unclear(text: str) -> None:
    assert split_command(text).unclear


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ls -la | grep x", ["ls", "grep"]),
        ("echo `a \\`b\\``", ["b", "a", "echo"]),
        ('echo "$(a "$(b)")"', ["b", "a", "echo"]),
        ("time { a; }", ["a"]),
        ("! { a; }", ["a"]),
        ("git commit -m \"$(cat <<'EOF'\na (b) `c` $(d)\nEOF\n)\"", ["cat", "git"]),
        ("find . -exec a {} + -o -exec b {} \\;", ["find", "a", "b"]),
        ("fd -x a b", ["fd", "a"]),
        ("xargs -n 1 sh -c 'a; b'", ["a", "b"]),
        ("trap 'a; b' EXIT", ["a", "b"]),
        ("if a; then b; elif c; then d; else e; fi", ["a", "b", "c", "d", "e"]),
        ("sudo -u x env -u Y A=1 nice -n 5 timeout -k 1 5 a b", ["a"]),
    ],
)
def test_commands_are_found(text: str, expected: list[str]) -> None:
    assert names(split_command(text)) == expected


def test_what_variables_are_set_to() -> None:
    text = 'A=1; for f in a *.py "$A"; do read -r B; done; for g; do C=2 ls; done; export D=$A E; A+=x; F='
    values = [(name, word and word.raw) for name, word in split_command(text).values]
    assert values == [
        ("A", "1"), ("f", "a"), ("f", "*.py"), ("f", '"$A"'), ("B", None), ("g", None),
        ("D", "$A"), ("A", None), ("F", ""),
    ]  # fmt: skip


def test_a_command_keeps_what_stands_around_it() -> None:
    (command,) = split_command('A=1 sudo cp "$X" b > out 2>&1').commands
    assert command.assignments == ("A",)
    assert command.via == ("sudo",)
    assert [word.text for word in command.words] == ["cp", None, "b"]
    assert [(each.operator, each.target.text) for each in command.redirections] == [(">", "out"), (">&", "1")]
    assert [each.writes for each in command.redirections] == [True, False]
    assert command.program == "cp"


def test_a_word_behind_a_redirection_is_an_argument() -> None:
    (command,) = split_command("rm > /dev/null a b").commands
    assert [word.text for word in command.words] == ["rm", "a", "b"]


def test_what_feeds_a_command_is_known() -> None:
    split = split_command("curl x | tee y | (cat; sh)")
    assert names(split) == ["curl", "tee", "cat", "sh"]
    assert set(split.commands[3].inputs) >= {0, 1}
    split = split_command("cat <<E | sh\nE")
    shell = next(command for command in split.commands if command.name == "sh")
    assert [split.commands[number].name for number in shell.inputs] == ["cat"]


@pytest.mark.parametrize(
    "text",
    ["a" * (LONGEST_COMMAND + 1), "(" * 5000, "$(" * 300 + ")" * 300, "! " * 8000, "a|" * 7000 + "a", "a\0b"],
)
def test_what_is_too_much_is_unclear(text: str) -> None:
    assert split_command(text).unclear


def test_shells_in_shells_are_followed_to_a_limit() -> None:
    text = "rm x"
    for _ in range(3):
        text = f"sh -c {shlex.quote(text)}"
    assert names(split_command(text)) == ["rm"]
    for _ in range(8):
        text = f"sh -c {shlex.quote(text)}"
    assert split_command(text).unclear


def test_a_function_that_starts_itself_in_the_background_is_noticed() -> None:
    assert split_command(":(){ :|:& };:").self_calling == (":",)
    assert split_command("f() { g; }; f").self_calling == ()


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("a'b'\"c\"d\\e", "abcde"),
        ("'$x'", "$x"),
        ('"a\\"b\\n"', 'a"b\\n'),
        ("a\\ b", "a b"),
        ("''", ""),
        ("$", "$"),
    ],
)
def test_quotes_are_taken_off_as_a_shell_does(raw: str, text: str) -> None:
    (command,) = split_command(f"x {raw}").commands
    assert command.words[1].text == text


def test_patterns_and_home_folders_are_told() -> None:
    (command,) = split_command("x *.py '*.py' ~/a '~/a' a[b]").commands
    assert [word.is_pattern for word in command.words] == [False, True, False, False, False, True]
    assert [word.has_tilde for word in command.words] == [False, False, False, True, False, False]
    assert Word("a", "a") == Word("a", "a", False, False)
