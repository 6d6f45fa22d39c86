"""Which simple commands only read, and what they read. What is not known to only read is asked about."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pace_agent.shell.git import read_git
from pace_agent.shell.options import NotReadOnlyError, Parsed, options, parse
from pace_agent.shell.reading_commands import (
    HARMLESS_VARIABLES,
    RECURSIVE_DIFF,
    RULES,
    VERSION_OPTIONS,
    VERSIONED,
    Rule,
)
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
    if name in VERSIONED and len(words) == 1 and words[0].text in VERSION_OPTIONS:
        return Reading()
    if name == "go" and len(words) == 1 and words[0].text == "version":
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
    if name == "cd" and (not operands or operands[0].text == "-" or operands[0].is_pattern):
        raise NotReadOnlyError("cd to a folder that the text does not show")
    paths = (*operands, *parsed.paths)
    always = "" in rule.recursive
    recursive = rule.recursive | (RECURSIVE_DIFF if name == "diff" else frozenset())
    if not always and not recursive & parsed.options.keys():
        return Reading(paths)
    include = parsed.values("include", "g", "glob", "iglob")
    sweep = Sweep(
        tuple(operands),
        rule.skips_hidden,
        tuple(pattern for pattern in include if not pattern.startswith("!")),
        tuple(parsed.values("exclude-dir")),
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
    parsed = parse(words, options("uR", "dI", "utc universal date= iso-8601 rfc-3339= rfc-email"))
    if any(not (word.text or "").startswith("+") for word in parsed.operands):
        raise NotReadOnlyError("date with a time sets the clock")
    return Reading()


def _read_printf(words: Sequence[Word]) -> Reading:
    if words and (words[0].text is None or words[0].text.startswith("-")):
        raise NotReadOnlyError("printf with an option")
    return Reading()


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
    parse(words[1:], _PIP)
    return Reading()


def _read_git(words: Sequence[Word]) -> Reading:
    return Reading(tuple(read_git(words)))


_SPECIAL = {
    "git": _read_git,
    "find": _read_find,
    "sed": _read_sed,
    "date": _read_date,
    "printf": _read_printf,
    "test": _read_test,
    "[": _read_test,
    "[[": _read_test,
    "command": _read_command,
    "ps": _read_ps,
    "pip": _read_pip,
    "pip3": _read_pip,
}
