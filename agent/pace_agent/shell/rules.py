"""Which simple commands only read, and what they read. What is not known to only read is asked about."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from pace_agent.shell.git import read_git
from pace_agent.shell.options import NotReadOnlyError, Parsed, options, parse
from pace_agent.shell.reading_commands import RULES, VERSION_WORDS, VERSIONED, XXD, Rule
from pace_agent.shell.variables import HARMLESS_VARIABLES
from pace_agent.shell.words import Redirection, SimpleCommand, Word, names

PRIVILEGED = frozenset({"sudo", "doas"})

_SYSTEM_FOLDERS = ("/bin/", "/usr/bin/", "/usr/local/bin/", "/opt/homebrew/bin/")
_DEVICES = names("/dev/null /dev/stdout /dev/stderr /dev/stdin /dev/zero")
_PRINTED_LINES = re.compile(r"(?:(?:[0-9]+|\$)(?:,(?:[0-9]+|\+[0-9]+|\$))?[pdq=]\s*;?\s*)+")
_FIND_TESTS = names(
    "name iname path ipath wholename iwholename regex iregex type xtype size mtime mmin atime amin"
    " ctime cmin perm user group uid gid maxdepth mindepth links inum printf regextype fstype used"
    " lname ilname"
)
_FIND_PATHS = names("newer anewer cnewer samefile")
_FIND_WORDS = names(
    "empty print print0 ls prune not a o and or true false depth xdev mount quit daystart nouser"
    " nogroup readable writable executable noleaf follow"
)
_TEST_OPERATORS = names("-f -d -e -r -w -x -s -z -n -L -h -S -p -b -c -nt -ot -ef = == != ! -a -o ( ) && ||")
_PIP = options("vl", "", "format= verbose local user files")


@dataclass(frozen=True)
class Sweep:
    """Whole folders that a command reads."""

    folders: tuple[Word, ...]
    """Empty: the current one."""

    skips_hidden: bool = False
    include: tuple[str, ...] = ()
    """Patterns of the names that are read; empty: all."""

    exclude_folders: tuple[str, ...] = ()

    follows: bool = False
    """Whether links in them are followed."""

    types: tuple[str, ...] = ()
    """Kinds of files that are read, hidden ones too, as ``rg -t`` has them."""

    is_git: bool = False
    """Whether only files are read that git has, or has in its index."""


@dataclass(frozen=True)
class Reading:
    """What a command that changes nothing reads."""

    paths: tuple[Word, ...] = ()
    """Words that are paths, or may be."""

    sweep: Sweep | None = None


def is_device(path: str) -> bool:
    """Whether a path is one of the devices that keep nothing: ``/dev/null`` and the standard streams."""
    return path in _DEVICES or re.fullmatch(r"/dev/fd/[0-9]+", path) is not None


def writes_file(redirection: Redirection) -> bool:
    """Whether a redirection makes or changes a file that lasts."""
    return redirection.writes and not is_device(redirection.target.text or "")


def read_only(command: SimpleCommand) -> Reading:
    """What a command reads, if it is known to change nothing.

    Its redirections to files are not looked at: they are writes, see :func:`writes_file`.

    Raises:
        NotReadOnlyError: if it may change something; the message says why, as a phrase.
    """
    others = sorted(set(command.assignments) - HARMLESS_VARIABLES)
    if others:
        raise NotReadOnlyError(f"the variable {others[0]} may change what runs")
    if privileged := PRIVILEGED.intersection(command.via):
        raise NotReadOnlyError(f"{min(privileged)} runs it as another user")
    if command.is_open:
        raise NotReadOnlyError(f"the arguments that {command.via[-1] if command.via else 'it'} adds")
    from_input = tuple(each.target for each in command.redirections if each.is_file and not each.writes)
    if any(word.text is None or word.is_pattern for word in from_input):
        raise NotReadOnlyError("its input is only known when it runs")
    if not command.words:
        return Reading(from_input)
    if command.name is None:
        raise NotReadOnlyError(f"{command.words[0].raw} is only known when it runs")
    name = _plain_name(command.name)
    reading = _read(name, command.words[1:])
    return Reading((*reading.paths, *from_input), reading.sweep)


def _plain_name(name: str) -> str:
    folder, slash, last = name.rpartition("/")
    if slash and f"{folder}/" not in _SYSTEM_FOLDERS:
        raise NotReadOnlyError(f"{name} is no command of the system")
    return last


def _read(name: str, words: Sequence[Word]) -> Reading:
    if len(words) == 1 and (
        (name in VERSIONED and words[0].text == "--version")
        or words[0].text in VERSION_WORDS.get(name, frozenset())
    ):
        return Reading()
    special = _SPECIAL.get(name)
    if special is not None:
        return special(words)
    rule = RULES.get(name)
    if rule is None:
        raise NotReadOnlyError(f"{name} is not on the list of commands that only read")
    try:
        parsed = parse(words, rule.options)
    except NotReadOnlyError as error:
        raise NotReadOnlyError(f"{name}: {error}") from None
    return _by_rule(name, rule, parsed)


def _by_rule(name: str, rule: Rule, parsed: Parsed) -> Reading:
    operands = parsed.operands
    if rule.operands == "text":
        return Reading()
    if rule.operands == "none" and operands:
        raise NotReadOnlyError(f"{name} with {operands[0].raw}")
    if rule.operands == "pattern" and not rule.pattern_options & parsed.options.keys():
        if operands and operands[0].is_pattern:
            raise NotReadOnlyError(f"the pattern {operands[0].raw} without quotes may stand for files")
        operands = operands[1:]
    if rule.most is not None and len(operands) > rule.most:
        raise NotReadOnlyError(f"{name} writes its operand {rule.most + 1}")
    if rule.most is not None and any(word.is_pattern for word in operands):
        raise NotReadOnlyError(f"{name} may write one of the files that the pattern stands for")
    if name == "cd" and (not operands or operands[0].text == "-" or operands[0].is_pattern):
        raise NotReadOnlyError("cd to a folder that the text does not show")
    paths = (*operands, *parsed.paths)
    if "" not in rule.recursive and not rule.recursive & parsed.options.keys():
        return Reading(paths)
    # A file of settings of the user's may say that hidden files are read too.
    has_settings = (
        rule.skips_hidden and "RIPGREP_CONFIG_PATH" in os.environ and "no-config" not in parsed.options
    )
    include = parsed.values("include", "g", "glob", "iglob")
    sweep = Sweep(
        tuple(operands),
        rule.skips_hidden and not has_settings,
        tuple(pattern for pattern in include if not pattern.startswith("!")),
        tuple(parsed.values("exclude-dir")),
        has_settings or bool(rule.follows & parsed.options.keys()),
        tuple(parsed.values("t", "type")) if rule.skips_hidden else (),
    )
    return Reading(paths, sweep)


def _read_find(words: Sequence[Word]) -> Reading:
    paths: list[Word] = []
    at = 0
    while at < len(words) and words[at].text in ("-H", "-L", "-P"):
        at += 1
    while at < len(words):
        word, text = words[at], words[at].text
        at += 1
        if text is None:
            raise NotReadOnlyError(f"find: {word.raw} is only known when it runs")
        if text in ("(", ")", "!", ","):
            continue
        if not text.startswith("-"):
            paths.append(word)
            continue
        name = text[1:]
        if name in _FIND_WORDS:
            continue
        if name not in _FIND_TESTS | _FIND_PATHS:
            raise NotReadOnlyError(f"find: {text}")
        if at >= len(words) or words[at].text is None or words[at].is_pattern:
            raise NotReadOnlyError(f"find: the value of {text} is only known when it runs")
        if name in _FIND_PATHS:
            paths.append(words[at])
        at += 1
    return Reading(tuple(paths))


def _read_sed(words: Sequence[Word]) -> Reading:
    """``sed -n '1,20p' file`` and its like: printing lines by number, and nothing else."""
    parsed = parse(words, options("nErsuz", "e", "quiet silent regexp-extended expression="))
    scripts = parsed.values("e", "expression")
    operands = parsed.operands
    if not scripts:
        if not operands or operands[0].is_pattern:
            raise NotReadOnlyError("sed without a script in quotes")
        scripts, operands = [operands[0].text or ""], operands[1:]
    if not all(_PRINTED_LINES.fullmatch(script.strip()) for script in scripts):
        raise NotReadOnlyError("sed: a script that does more than print lines by number")
    return Reading(tuple(operands))


def _read_date(words: Sequence[Word]) -> Reading:
    parsed = parse(
        words, options("uR", "d", "utc universal date= iso-8601 rfc-3339= rfc-email", attached="I")
    )
    if any(not (word.text or "").startswith("+") for word in parsed.operands):
        raise NotReadOnlyError("date with a time sets the clock")
    return Reading()


def _read_printf(words: Sequence[Word]) -> Reading:
    for word in words:
        if word.text is None:
            raise NotReadOnlyError(f"{word.raw} is only known when it runs")
    if words and (words[0].is_pattern or (words[0].text or "").startswith("-")):
        raise NotReadOnlyError("printf with an option")
    if words and re.search(r"%[-+ #'*.0-9]*[hlLjztq]*n", (words[0].text or "").replace("%%", "")):
        raise NotReadOnlyError("printf with %n sets a variable")
    return Reading()


def _read_xxd(words: Sequence[Word]) -> Reading:
    flags, valued = XXD
    operands: list[Word] = []
    at = 0
    while at < len(words):
        word, text = words[at], words[at].text
        at += 1
        if text is None or word.is_pattern:
            raise NotReadOnlyError(f"xxd: what {word.raw} stands for")
        if not text.startswith("-") or text == "-":
            operands.append(word)
        elif text in valued:
            at += 1
        elif text not in flags and not (text[:2] in valued and re.fullmatch(r"[0-9]+", text[2:])):
            raise NotReadOnlyError(f"xxd: the option {text}")
    if len(operands) > 1:
        raise NotReadOnlyError("xxd writes its operand 2")
    return Reading(tuple(operands))


def _read_test(words: Sequence[Word]) -> Reading:
    for word in words:
        text = word.text
        if text is None or "[" in text or (text.startswith("-") and text not in _TEST_OPERATORS):
            raise NotReadOnlyError(f"the condition {word.raw}")
    return Reading(tuple(word for word in words if word.text not in _TEST_OPERATORS | {"]", "]]"}))


def _read_command(words: Sequence[Word]) -> Reading:
    if words and words[0].text in ("-v", "-V") and all(word.text is not None for word in words):
        return Reading()
    raise NotReadOnlyError("command")


def _read_ps(words: Sequence[Word]) -> Reading:
    """``ps`` without ``e`` among options of the old form, which shows environments."""
    for word in words:
        if word.text is None or not re.fullmatch(r"aux|-ef|-e|-A|-f|-[uUCp]|[\w,-]+", word.text):
            raise NotReadOnlyError("ps with such an option")
        if "e" in word.text and not re.fullmatch(r"-e|-ef", word.text):
            raise NotReadOnlyError("ps may show environments")
    return Reading()


def _read_pip(words: Sequence[Word]) -> Reading:
    if not words or words[0].text not in ("list", "show", "freeze"):
        raise NotReadOnlyError("pip")
    parsed = parse(words[1:], _PIP)
    if any(word.is_pattern for word in parsed.operands):
        raise NotReadOnlyError("pip: a name that may be an option")
    return Reading()


def _read_git(words: Sequence[Word]) -> Reading:
    name, paths = read_git(words)
    if name != "grep":
        return Reading(tuple(paths))
    everything = any(word.text == "--untracked" for word in words)
    return Reading(tuple(paths), Sweep(() if everything else tuple(paths), is_git=not everything))


_SPECIAL = {
    "git": _read_git,
    "find": _read_find,
    "sed": _read_sed,
    "date": _read_date,
    "printf": _read_printf,
    "xxd": _read_xxd,
    "test": _read_test,
    "[": _read_test,
    "[[": _read_test,
    "command": _read_command,
    "ps": _read_ps,
    "pip": _read_pip,
    "pip3": _read_pip,
}
