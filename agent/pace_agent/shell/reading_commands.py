"""Commands that only read, with the options that keep them so. What is not listed is asked about.

Left out on purpose: ``awk`` (runs commands), ``env`` and ``printenv`` (show secrets), ``less`` and ``man``
(run commands), ``tail -f`` (never ends), and of each command the options that write (``sort -o``), run
something (``rg --pre``) or read a list of files (``--files0-from``).
"""

from __future__ import annotations

from dataclasses import dataclass

from pace_agent.shell.options import Options, options
from pace_agent.shell.words import names


@dataclass(frozen=True)
class Rule:
    """How a command that only reads is told."""

    options: Options
    operands: str = "paths"
    """What its operands are: ``paths``, ``text``, ``none``, or ``pattern`` (a pattern, then paths)."""

    most: int | None = None
    """At most so many operands: a further one would be written."""

    pattern_options: frozenset[str] = frozenset()
    """Options that give the pattern, so that all operands are paths."""

    recursive: frozenset[str] = frozenset()
    """Options that make it read whole folders; ``""``: it always does."""

    follows: frozenset[str] = frozenset()
    """Those by which it follows links in the folders too."""

    skips_hidden: bool = False
    """Whether reading a folder leaves names with a dot in front out."""


def _rule(
    flags: str = "",
    valued: str = "",
    long: str = "",
    *,
    operands: str = "paths",
    most: int | None = None,
    numbers: bool = False,
    attached: str = "",
) -> Rule:
    return Rule(options(flags, valued, long, numbers=numbers, attached=attached), operands, most)


_GREP = Rule(
    options(
        "abcEFGhHiILlnoPqrRsvwxyzZT",
        "eABCmD",
        "extended-regexp fixed-strings basic-regexp perl-regexp regexp= file@ ignore-case"
        " no-ignore-case word-regexp line-regexp count color colour files-without-match"
        " files-with-matches max-count= only-matching quiet silent no-messages byte-offset"
        " with-filename no-filename line-number initial-tab null after-context= before-context="
        " context= text include= exclude= exclude-dir= recursive dereference-recursive invert-match"
        " null-data version help",
        paths="f",
        numbers=True,
    ),
    "pattern",
    pattern_options=frozenset({"e", "f", "regexp", "file"}),
    recursive=frozenset({"r", "R", "recursive", "dereference-recursive"}),
    follows=frozenset({"R", "dereference-recursive"}),
)
_RG = Rule(
    options(
        "acFhHiIlLnNopPqsSUvVwx0",
        "eABCEgmMtTjrd",
        "after-context= before-context= context= case-sensitive color= column count count-matches"
        " crlf files files-with-matches files-without-match fixed-strings glob= iglob= heading"
        " no-heading ignore-case invert-match json line-number no-line-number line-regexp"
        " max-columns= max-count= max-depth= multiline multiline-dotall no-config no-filename"
        " no-messages null only-matching pcre2 pretty quiet regexp= replace= smart-case sort= sortr="
        " stats text threads= trim type= type-not= type-list vimgrep with-filename word-regexp"
        " version help file@",
        paths="f",
    ),
    "pattern",
    pattern_options=frozenset({"e", "f", "regexp", "file", "files", "type-list"}),
    recursive=frozenset({""}),
    follows=frozenset({"L", "follow"}),
    skips_hidden=True,
)
_SUM = _rule("bt", "", "binary text tag zero")

RULES: dict[str, Rule] = {
    "ls": _rule(
        "1AaBbCcdFfGghHiklLmNnopQqrRSstuUvXxZ",
        "Iw",
        "all almost-all author classify color directory file-type format= full-time"
        " group-directories-first human-readable ignore= indicator-style= inode literal no-group"
        " numeric-uid-gid recursive reverse size sort= time= time-style= width= version help",
    ),
    "cat": _rule("AbEenstTuv", "", "number number-nonblank show-all show-ends show-tabs squeeze-blank"),
    "tac": _rule("br", "s"),
    "head": _rule("qvz", "cn", "bytes= lines= quiet silent verbose zero-terminated", numbers=True),
    "tail": _rule("qvz", "cn", "bytes= lines= quiet silent verbose zero-terminated", numbers=True),
    "wc": _rule("clmwL", "", "bytes chars lines words max-line-length total="),
    "nl": _rule("p", "bdfhilnsvw"),
    "cut": _rule(
        "nsz", "bcdf", "bytes= characters= delimiter= fields= complement only-delimited output-delimiter="
    ),
    "sort": _rule(
        "bcCdfghiMnRrsuVmz",
        "kt",
        "ignore-leading-blanks dictionary-order ignore-case general-numeric-sort human-numeric-sort"
        " month-sort numeric-sort reverse version-sort check key= field-separator= stable unique"
        " zero-terminated",
    ),
    "uniq": _rule(
        "cdDiuz", "fsw", "count repeated all-repeated ignore-case unique skip-fields= skip-chars=", most=1
    ),
    "tr": _rule("cCdst", "", "complement delete squeeze-repeats truncate-set1", operands="text"),
    "fold": _rule("bs", "w"),
    "expand": _rule("i", "t"),
    "column": _rule("tx", "cs"),
    "rev": _rule(),
    "paste": _rule("sz", "d"),
    "grep": _GREP,
    "egrep": _GREP,
    "fgrep": _GREP,
    "rg": _RG,
    "tree": _rule("adfiFhpugsDrtvcUCnN", "LPI", "noreport dirsfirst gitignore prune filelimit= charset="),
    "pwd": _rule("LP", operands="none"),
    "echo": _rule("neE", operands="text"),
    "true": _rule(operands="text"),
    "false": _rule(operands="text"),
    ":": _rule(operands="text"),
    "which": _rule("as", "", "all", operands="text"),
    "type": _rule("aftpP", operands="text"),
    "whoami": _rule(operands="none"),
    "id": _rule("gGnuz", operands="text"),
    "groups": _rule(operands="text"),
    "uname": _rule("asnrvmpio", "", "all", operands="none"),
    "arch": _rule(operands="none"),
    "hostname": _rule("fsi", operands="none"),
    "nproc": _rule("", "", "all", operands="none"),
    "uptime": _rule("ps", operands="none"),
    "free": _rule("bkmghtw", operands="none"),
    "basename": _rule("az", "s", operands="text"),
    "dirname": _rule("z", operands="text"),
    "realpath": _rule("emsqLPz"),
    "readlink": _rule("efmnqsvz"),
    "stat": _rule("Lftx", "c", "dereference file-system format= printf= terse"),
    "file": _rule("bhiLNrk", "", "brief mime mime-type mime-encoding dereference no-dereference"),
    "du": _rule(
        "0abcDhHkLlmPsSx", "dt", "all apparent-size bytes max-depth= human-readable summarize total exclude="
    ),
    "df": _rule("ahHiklPT", "tx", "human-readable all inodes local portability print-type"),
    "diff": Rule(
        options(
            "abBcdeEinNpqrstTuwyZ",
            "CULWx",
            "brief unified context ignore-all-space ignore-blank-lines ignore-case ignore-space-change"
            " side-by-side color recursive new-file exclude= label= width= suppress-common-lines"
            " report-identical-files",
        ),
        recursive=frozenset({"r", "recursive"}),
        follows=frozenset({"r", "recursive"}),
    ),
    "cmp": _rule("bls", "ni"),
    "comm": _rule("123z", "", "check-order nocheck-order output-delimiter= total"),
    "md5sum": _SUM,
    "sha1sum": _SUM,
    "sha256sum": _SUM,
    "sha512sum": _SUM,
    "cksum": _rule(),
    "b2sum": _rule("t"),
    "od": _rule("abcdfilosxv", "AjNtS", attached="w"),
    "hexdump": _rule("bcCdovx", "ns"),
    "strings": _rule("af", "nt", "all bytes= radix="),
    "seq": _rule("w", "fs", operands="text"),
    "sleep": _rule(operands="text"),
    "cd": _rule("LP", most=1),
}
"""Commands whose options and operands say all; the others are in :mod:`.shell_rules`."""

XXD = (names("-b -e -u -i -p -ps -C"), names("-c -g -l -s -o"))
"""Options of ``xxd`` without and with a value. It knows no options in one word: ``-bc 1`` is ``-b 1``."""

VERSIONED = names(
    "python python2 python3 pip pip3 uv ruff mypy black node npm npx bun deno tsc gcc g++ cc c++ clang"
    " clang++ make cmake ninja java javac ruby gem perl php git rg grep find sed awk gawk bash zsh docker"
    " terraform gh jq curl wget tar swift ghc stack R julia"
)
"""Programs that may be asked for their ``--version``.

Left out are those that then run what a repository's settings say: ``pytest`` (``conftest.py``), ``yarn``,
``pnpm``, ``mvn``, ``gradle``, ``cargo``, ``rustc``, ``rustup``, ``dotnet``, ``bundle``, ``poetry``.
"""

VERSION_WORDS = {
    **dict.fromkeys(
        names("python python2 python3 pip pip3 uv ruff mypy black perl rg grep jq curl wget gawk"),
        names("-V"),
    ),
    "java": names("-version"),
    "javac": names("-version"),
    **dict.fromkeys(names("go git docker kubectl terraform gh"), names("version")),
}
"""Other ways of asking for the version. To most programs such a word would be a file or a target to run."""
