"""Where a program's command line options are declared, and which definitions use what was parsed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pace_agent.repository.file_facts import FileFacts, Place
from pace_agent.repository.index import RepositoryIndex
from pace_agent.repository.path_names import is_test

_MOST_FILES = 60  # that are looked into for one library
_MOST_USERS = 4


@dataclass(frozen=True)
class _Idiom:
    """How a library for command lines is used."""

    library: str
    words: tuple[str, ...]
    """A file that uses it holds one of them."""
    suffixes: tuple[str, ...]
    declares: re.Pattern[str]
    """What stands where an option is declared, or its parser is made."""


def _idiom(library: str, words: str, suffixes: str, declares: str) -> _Idiom:
    return _Idiom(library, tuple(words.split()), tuple(suffixes.split()), re.compile(declares, re.MULTILINE))


_JS = ".js .mjs .cjs .jsx .ts .mts .cts .tsx"
_CPP = ".cc .cpp .cxx .h .hh .hpp .hxx"
_IDIOMS = (
    _idiom("argparse", "add_argument ArgumentParser", ".py", r"\.add_argument\(|\bArgumentParser\("),
    _idiom("click", "click", ".py", r"@\w*(?:click)?\.?(?:option|argument)\("),
    _idiom("typer", "typer", ".py", r"\btyper\.(?:Option|Argument|Typer)\(|@\w+\.command\("),
    _idiom(
        "optparse", "OptionParser add_option", ".py .rb", r"\.add_option\(|\bOptionParser\b|\bopts?\.on\("
    ),
    _idiom("docopt", "docopt", ".py", r"\bdocopt\(|^Usage:|^Options:"),
    _idiom("commander", "commander", _JS, r"\.(?:option|requiredOption|addOption|argument)\(|new Command\("),
    _idiom("yargs", "yargs", _JS, r"\.(?:option|options|positional|boolean)\(|\byargs\("),
    _idiom("parseArgs", "parseArgs minimist meow", _JS, r"\b(?:parseArgs|minimist|meow)\("),
    _idiom("process.argv", "argv", _JS, r"\bprocess\.argv\b"),
    _idiom(
        "flag",
        "flag pflag",
        ".go",
        r"\bp?flag\.(?:(?:String|Bool|Int|Int64|Uint|Float64|Duration|Func|Var)\w*|Parse|NewFlagSet)\(",
    ),
    _idiom("cobra", "cobra Flags PersistentFlags", ".go", r"\.(?:Persistent)?Flags\(\)\.\w+\("),
    _idiom("urfave/cli", "cli", ".go", r"\bcli\.\w+Flag\{"),
    _idiom(
        "clap",
        "clap structopt",
        ".rs",
        r"#\[(?:arg|clap|structopt|command)\b|\bArg::new\(|derive\([^)]*\b(?:Parser|Args|StructOpt)\b",
    ),
    _idiom("picocli", "picocli JCommander", ".java .kt", r"@(?:Option|Parameters?|Command)\("),
    _idiom("commons-cli", "addOption DefaultParser", ".java .kt", r"\.addOption\("),
    _idiom("CLI11", "add_option add_flag cxxopts add_options", _CPP, r"\.add_(?:options?|flag)\("),
    _idiom(
        "getopt",
        "getopt getopt_long argp",
        f".c {_CPP}",
        r"\bgetopt(?:_long)?\(|\bstruct option\b|\bargp_option\b",
    ),
    _idiom("sys.argv", "argv", ".py", r"\bsys\.argv\b"),
)
_PARSED = re.compile(
    r"\b(?:args?|arguments|opts?|options|parsed|flags?|ns|namespace|cli|config|argv|parameters|params)"
    r"(?:\.|->|\[\s*[\"'])\w|\bparse_(?:known_)?args\(|\b(?:flag|pflag)\.Parse\(|::parse\(\)|\.parse(?:Async)?\("
)
_ENTRIES = frozenset(
    {"cli", "main", "__main__", "app", "command", "commands", "cmd", "args", "options", "index", "run"}
)


@dataclass(frozen=True)
class OptionPlaces:
    """Where an option is to be added."""

    library: str
    declared: Place
    """Where others are declared, or lines outside of definitions."""
    used: tuple[Place, ...]
    """Definitions of the same file that use what was parsed, the likeliest first."""
    others: tuple[Place, ...] = ()
    """Other places where options are declared."""


def option_places(index: RepositoryIndex, hints: Sequence[str] = ()) -> OptionPlaces | None:
    """Where a repository declares its options; None if it is not seen to.

    Args:
        index: of the repository.
        hints: files, symbols and words that the task names; a place that has more of them is preferred.
    """
    found: list[tuple[float, str, Place]] = []
    for idiom in _IDIOMS:
        paths = dict.fromkeys(path for word in idiom.words for path in index.files_with(word))
        for path in [one for one in paths if one.endswith(idiom.suffixes)][:_MOST_FILES]:
            found += [(score, idiom.library, place) for score, place in _declared(path, idiom, index, hints)]
    if not found:
        return None
    found.sort(key=lambda one: (-one[0], one[2].path, one[2].first))
    _, library, best = found[0]
    others = tuple(
        dict.fromkeys(place for _, _, place in found[1:] if place != best and not is_test(place.path))
    )
    return OptionPlaces(library, best, _users(best, index), others)


def _declared(
    path: str, idiom: _Idiom, index: RepositoryIndex, hints: Sequence[str]
) -> list[tuple[float, Place]]:
    text, facts = index.text_of(path), index.facts_of(path)
    if text is None or facts is None:
        return []
    lines_of: dict[Place | None, list[int]] = {}
    for match in idiom.declares.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        lines_of.setdefault(facts.around(line), []).append(line)
    result = []
    for around, lines in lines_of.items():
        place = around or Place(path, "", min(lines), max(lines), "lines")
        score = float(min(len(lines), 6))
        score -= 20 * is_test(path)
        score -= 4 * (idiom.library in ("sys.argv", "process.argv"))  # seldom the declaration itself
        score += 3 * (path.rpartition("/")[2].partition(".")[0].casefold() in _ENTRIES)
        part = index.lines_of(path, place.first, place.last)
        for hint in hints:
            score += 10 * (hint in (path, place.symbol, place.name))
            score += 4 * bool(re.search(rf"(?<![\w-]){re.escape(hint)}(?![\w-])", part))
        result.append((score, place))
    return result


def _users(declared: Place, index: RepositoryIndex) -> tuple[Place, ...]:
    """Definitions of the file that use what was parsed; those that call the declaring one count for more."""
    facts = index.facts_of(declared.path)
    if facts is None:
        return ()
    found = []
    for one in _outermost(facts):
        if one.first <= declared.last and declared.first <= one.last:
            continue
        part = index.lines_of(one.path, one.first, one.last)
        uses = len(_PARSED.findall(part))
        calls = bool(declared.symbol) and bool(
            re.search(rf"\b{re.escape(declared.symbol.rpartition('.')[2])}\b", part)
        )
        if uses or calls:
            found.append((-(min(uses, 6) + 4 * calls + 3 * (one.leaf in _ENTRIES)), one.first, one))
    return tuple(one for _, _, one in sorted(found, key=lambda item: item[:2])[:_MOST_USERS])


def _outermost(facts: FileFacts) -> list[Place]:
    """Functions that are in no other function."""
    functions = [one for one in facts.definitions if one.kind == "function"]
    return [one for one in functions if facts.around(one.first) == one]
