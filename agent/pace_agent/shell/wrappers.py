"""Commands that run another, and which one: ``sudo``, ``env``, ``xargs``, ``sh -c``, ``find -exec``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from pace_agent.shell.words import Redirection, SimpleCommand, Word, literal, names, unknown_rest

SHELLS = names("sh bash dash zsh ksh mksh ash rbash fish csh tcsh")

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\+?=")


@dataclass(frozen=True)
class _Wrapper:
    """How a wrapper's own options are told from the command that it runs."""

    flags: str = ""
    valued: str = ""
    long_flags: frozenset[str] = frozenset()
    long_valued: frozenset[str] = frozenset()
    folders: frozenset[str] = frozenset()
    """Options, letters or words, whose value is the folder that the command runs in."""

    files: frozenset[str] = frozenset()
    """Options whose value is a file that is read."""

    operands: int = 0
    """Arguments of its own in front of the command, such as the time limit of ``timeout``."""


def _wrapper(
    flags: str = "",
    valued: str = "",
    long: str = "",
    operands: int = 0,
    *,
    folders: str = "",
    files: str = "",
) -> _Wrapper:
    words = long.split()
    return _Wrapper(
        flags,
        valued,
        frozenset(name for name in words if not name.endswith("=")),
        frozenset(name[:-1] for name in words if name.endswith("=")),
        names(folders),
        names(files),
        operands,
    )


_WRAPPERS = {
    "sudo": _wrapper(
        "nSEHkbAPB",
        "ughpCrtDRTU",
        "non-interactive stdin preserve-env set-home background user= group= chdir=",
        folders="D R chdir",
    ),
    "doas": _wrapper("n", "uC"),
    "env": _wrapper("i0v", "uC", "ignore-environment null debug unset= chdir=", folders="C chdir"),
    "time": _wrapper("pvaq", "fo", "portability verbose append quiet format= output="),
    "nice": _wrapper("0123456789", "n", "adjustment="),
    "ionice": _wrapper("t", "cn", "ignore class= classdata="),
    "chrt": _wrapper("abfiorRm", "", "", 1),
    "nohup": _wrapper(),
    "setsid": _wrapper("cfw", "", "ctty fork wait"),
    "stdbuf": _wrapper("", "ioe", "input= output= error="),
    "timeout": _wrapper("fpv", "sk", "foreground preserve-status verbose signal= kill-after=", 1),
    "gtimeout": _wrapper("fpv", "sk", "foreground preserve-status verbose signal= kill-after=", 1),
    "command": _wrapper("p"),
    "builtin": _wrapper(),
    "exec": _wrapper("cl", "a"),
    "busybox": _wrapper(),
    "toybox": _wrapper(),
    "caffeinate": _wrapper("disum", "tw"),
    "strace": _wrapper("fFqrtTvxyCcwk", "eopsuEaOSP"),
    "ltrace": _wrapper("fCcrtTSi", "eopsualn"),
    "chronic": _wrapper("ve"),
    "unbuffer": _wrapper("p"),
    "xargs": _wrapper(
        "0rtpxo",
        "nPILdEsa",
        "null no-run-if-empty verbose interactive exit open-tty max-args= max-procs= replace= max-lines="
        " delimiter= eof= max-chars= arg-file= process-slot-var=",
        files="a arg-file",
    ),
}

_FIND_RUNS = names("-exec -execdir -ok -okdir")
_FD_RUNS = names("-x --exec -X --exec-batch")


@dataclass(frozen=True)
class Nested:
    """A text that another shell runs."""

    script: str
    via: tuple[str, ...]


@dataclass(frozen=True)
class Unwrapped:
    """What a command runs: itself, or others in its place."""

    runs: tuple[SimpleCommand | Nested, ...]
    unclear: tuple[str, ...] = field(default=())


def unwrap(command: SimpleCommand) -> Unwrapped:
    """What a command comes down to, with every wrapper taken off."""
    program = command.program
    if program in SHELLS:
        return _shell(command)
    if program in ("eval", "trap"):
        return _text(command)
    if program == "find" or program in ("fd", "fdfind"):
        return _search(command, _FIND_RUNS if program == "find" else _FD_RUNS)
    if program in ("su", "runuser", "script", "watch", "parallel", "chroot", "unshare", "nsenter", "setpriv"):
        return Unwrapped((command,), (f"what {program} runs",))
    wrapper = _WRAPPERS.get(program or "")
    if wrapper is None or program is None:
        return Unwrapped((command,))
    if program == "command" and any(word.raw in ("-v", "-V") for word in command.words[1:2]):
        return Unwrapped((command,))
    return _unwrap_one(command, program, wrapper)


def _unwrap_one(command: SimpleCommand, program: str, wrapper: _Wrapper) -> Unwrapped:
    values: list[tuple[str, Word]] = []
    at = _skip_options(command.words, wrapper, values)
    if at is None:
        return Unwrapped((command,), (f"the options of {program}",))
    variables = [*command.assignments, *_own_variables(program, command.words[1:at], values)]
    while program in ("env", "sudo", "doas", "time") and at < len(command.words):
        match = _ASSIGNMENT.match(command.words[at].raw)
        if match is None:
            break
        variables.append(match[1])
        at += 1
    for word in command.words[at : at + wrapper.operands]:
        if word.text is None:
            return Unwrapped((command,), (f"an argument of {program}",))
    at += wrapper.operands
    rest = command.words[at:]
    if not rest:
        return Unwrapped((command,))
    if any(word.text is None or word.is_pattern for word in command.words[:at]):
        return Unwrapped((command,), (f"an argument of {program}",))
    opened = command.is_open or program == "xargs"
    inner = replace(
        command, words=rest, assignments=tuple(variables), via=(*command.via, program), is_open=opened
    )
    if rest[0].text is None or rest[0].is_pattern:
        return Unwrapped((inner,), (f"which command {program} runs",))
    found = unwrap(inner)
    own = (*_own_paths(command, wrapper, values), *_own_files(command, at, program))
    return replace(found, runs=(*own, *found.runs))


def _own_variables(program: str, words: Sequence[Word], values: Sequence[tuple[str, Word]]) -> list[str]:
    """Variables that options of a wrapper set, or that are not set any more where it matters."""
    found: list[str] = []
    for name, value in values:
        if program == "strace" and name == "E":
            found.append((value.text or "").partition("=")[0])
        elif program == "env" and name in ("u", "unset") and value.text == "PATH":
            found.append("PATH")
    if program == "env" and any(re.match(r"-[0v]*i|-$|--i", word.raw) for word in words):
        found.append("PATH")  # some shells then look in the current folder too
    return found


def _own_paths(
    command: SimpleCommand, wrapper: _Wrapper, values: Sequence[tuple[str, Word]]
) -> Iterator[SimpleCommand]:
    """What a wrapper's own options come to: going to a folder, or reading a file."""
    for name, value in values:
        if name in wrapper.folders:
            yield replace(command, words=(literal("cd"), literal("--"), value), redirections=(), inputs=())
        elif name in wrapper.files:
            yield replace(command, words=(), redirections=(Redirection("<", value),), inputs=())


def _own_files(command: SimpleCommand, at: int, program: str) -> tuple[SimpleCommand, ...]:
    """The wrapper itself, where one of its options names a file that it writes, or more than it shows."""
    pattern = {
        "time": r"-[A-Za-z]*o|--output",
        "strace": r"-[A-Za-z]*[oPS]|--",
        "ltrace": r"-[A-Za-z]*[oFlnp]|--",
    }
    known = pattern.get(program)
    writes = known is not None and any(re.match(known, word.raw) for word in command.words[1:at])
    return (replace(command, words=command.words[:at]),) if writes else ()


def _skip_options(words: Sequence[Word], wrapper: _Wrapper, values: list[tuple[str, Word]]) -> int | None:
    """Where a wrapper's options end; None if one of them is not known.

    Args:
        words: the wrapper and all behind it.
        wrapper: the options that it has.
        values: is given the options that have a value, with it.
    """
    at = 1
    while at < len(words):
        text = words[at].text
        if text is None:
            return None if words[at].raw.startswith("-") else at
        if text == "--":
            return at + 1
        if text == "-" or not text.startswith("-"):
            return at + (text == "-")
        if text.startswith("--"):
            name, equals, value = text[2:].partition("=")
            if name in wrapper.long_valued:
                if not equals and at + 1 >= len(words):
                    return None
                values.append((name, literal(value) if equals else words[at + 1]))
                at += 1 if equals else 2
            elif name in wrapper.long_flags:
                at += 1
            else:
                return None
            continue
        taken = _short_options(words, at, wrapper, values)
        if taken is None:
            return None
        at += taken
    return at


def _short_options(
    words: Sequence[Word], at: int, wrapper: _Wrapper, values: list[tuple[str, Word]]
) -> int | None:
    letters = (words[at].text or "")[1:]
    for number, letter in enumerate(letters):
        if letter in wrapper.valued:
            rest = letters[number + 1 :]
            if not rest and at + 1 >= len(words):
                return None
            values.append((letter, literal(rest) if rest else words[at + 1]))
            return 1 if rest else 2
        if letter not in wrapper.flags:
            return None
    return 1


def _shell(command: SimpleCommand) -> Unwrapped:
    program = command.program or "sh"
    at, takes_text = 1, False
    while at < len(command.words):
        text = command.words[at].text
        if text is None:
            return Unwrapped((command,), (f"what {program} runs",))
        if text in ("-o", "+o", "-O", "+O"):
            at += 2
        elif text in ("--login", "--norc", "--noprofile", "--posix", "--restricted"):
            at += 1
        elif text == "--version" and len(command.words) == 2:
            return Unwrapped((command,))
        elif re.fullmatch(r"-[a-zA-Z]+", text) and "s" not in text and "o" not in text:
            takes_text = takes_text or "c" in text
            at += 1
        elif text.startswith(("-", "+")):
            return Unwrapped((command,), (f"the options of {program}",))
        else:
            break
    rest = command.words[at:]
    if not rest:
        return Unwrapped((command,), (f"what {program} reads from its input and runs",))
    if not takes_text:
        return Unwrapped((command,))  # a script in a file
    if rest[0].text is None or rest[0].is_pattern:
        return Unwrapped((command,), (f"what {program} -c runs",))
    if program in ("fish", "csh", "tcsh"):
        return Unwrapped((command,), (f"the language of {program}",))
    # xargs and find may put names of files into the text.
    unclear = (f"what is added to the text of {program} -c",) if command.is_open else ()
    return Unwrapped((Nested(rest[0].text, (*command.via, f"{program} -c")),), unclear)


def _text(command: SimpleCommand) -> Unwrapped:
    """``eval`` runs its arguments as text, ``trap`` its first one, later."""
    rest = command.words[1:]
    if command.program == "trap":
        if rest and rest[0].text in ("-p", "-l"):
            return Unwrapped((command,))
        rest = rest[1:2] if rest and rest[0].text == "--" else rest[:1]
    if any(word.text is None or word.is_pattern or word.has_tilde for word in rest):
        return Unwrapped((command,), (f"what {command.program} runs",))
    script = " ".join(word.text or "" for word in rest)
    return Unwrapped((Nested(script, (*command.via, command.program or "eval")),))


def _search(command: SimpleCommand, runs: frozenset[str]) -> Unwrapped:
    """``find`` stays, and what it runs for each file comes beside it."""
    found: list[SimpleCommand | Nested] = [command]
    unclear: tuple[str, ...] = ()
    words, at = command.words, 1
    while at < len(words):
        if words[at].text not in runs and not (words[at].text or "").startswith("--exec"):
            at += 1
            continue
        end = next((n for n in range(at + 1, len(words)) if words[n].text in (";", "+")), len(words))
        inner = tuple(unknown_rest(w) if "{" in (w.text or "") else w for w in words[at + 1 : end])
        if not inner or inner[0].text is None or inner[0].is_pattern:
            unclear = (*unclear, f"which command {command.program} runs")
        else:
            via = (*command.via, f"{command.program} {words[at].text}")
            each = unwrap(replace(command, words=inner, redirections=(), via=via, is_open=True))
            found += each.runs
            unclear = (*unclear, *each.unclear)
        at = end + 1
    return Unwrapped(tuple(found), unclear)
