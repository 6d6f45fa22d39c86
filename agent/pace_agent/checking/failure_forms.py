"""Forms of the lines in which tools print what failed and where."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

Frame = tuple[str, int, str | None]
"""Path as printed, line (1-based), and name of the function if the output gives one."""

PY_FRAME = re.compile(r"^([\s|+E]*)File \"([^\"]+)\", line (\d+)(?:, in (.+))?$")
PY_ERROR = re.compile(
    r"^[A-Za-z_][\w.]*(?:Error|Exception|Warning|Exit|Interrupt|Failed|Group|[A-Z]\w*)?(?::\s|:?$|\s*\()"
)
PYTEST_FRAME = re.compile(r"^(\S[^:\n]*?|[A-Za-z]:[^:\n]+):(\d+): in (\S+)$")
PYTEST_PLACE = re.compile(
    r"^(\S[^:\n]*?\.\w+|[A-Za-z]:[^:\n]+):(\d+):(?: ([A-Za-z_][\w.]*)(?::? (.*))?)?\s*$"
)
PYTEST_TITLE = re.compile(r"^_{3,} (.+?) _{3,}$")
PYTEST_ERROR = re.compile(r"^E(?: {1,}(.*))?$")
SECTION = re.compile(r"^={3,} (.+?) ={3,}$")
CAPTURED = re.compile(r"^-{3,} Captured .* -{3,}$")
SHORT = re.compile(r"^(FAILED|ERROR) (\S*?\.\w+(?:::[^\[\n]*?(?:\[.*?\])?)?)(?: - (.*))?$")
VERBOSE = re.compile(r"^(\S+\.py::.+?) (FAILED|ERROR)(?:\s+\[ *\d+%\])?$")
UNIT_TITLE = re.compile(r"^(FAIL|ERROR): (\w+) \(([\w.]+)\)")
JS_FRAME = re.compile(
    r"^\s*(?:at|❯)\s+(?:(?:async )?(.+?) )?\(?((?:file://)?(?:[A-Za-z]:)?[^():\s][^():]*?):(\d+):(\d+)\)?$"
)
TAP_FRAME = re.compile(
    r"^\s+(?:(?:async )?([^()]+?) \()?((?:file://)?(?:[A-Za-z]:)?[^():\s]+):(\d+):(\d+)\)?$"
)
JS_ERROR = re.compile(r"^\s*(?:Uncaught )?\[?(?:\w*Error|\w*Exception|AssertionError \[\w+\])\b.*[:\]]")
JS_ASIDE = re.compile(
    r"^\s*(?:(?:> ?)?\d+ \||\||at |---|# "
    r"|(?:duration_ms|type|location|failureType|code|name|expected|actual|operator|stack): )"
)
JS_HEAD = re.compile(r"^((?:file://)?(?:/|[A-Za-z]:[\\/])[^:\n]+\.\w+):(\d+)$")
GO_PLACE = re.compile(r"^\s+(\S+\.go):(\d+): ?(.*)$")
GO_FRAME = re.compile(r"^\t(\S+\.go):(\d+)(?: \+0x[0-9a-f]+)?$")
GO_TEST = re.compile(r"^\s*--- FAIL: (\S+)")
RUST_PANIC = re.compile(r"^thread '(.*?)'(?: \(\d+\))? panicked at (?:'(.*)', )?([^\s':]+):(\d+):\d+:?$")
RUST_PANIC_START = re.compile(r"^thread '(.*?)' panicked at '([^']*(?:'[^']*)*)$")
RUST_PANIC_END = re.compile(r"^(.*)', ([^\s':]+):(\d+):\d+$")
"""Before Rust 1.73 the message stood before the place, of several lines if it had them."""
RUST_TEST = re.compile(r"^test (\S+)(?: - should panic)? \.\.\. FAILED$")
RUST_ERROR = re.compile(r"^(error|warning)(?:\[\w+\])?: (.*)$")
RUST_PLACE = re.compile(r"^\s*--> ([^:\n]+):(\d+):\d+$")
COMPILER = re.compile(
    r"^(?:vet: )?((?:[A-Za-z]:)?[^\s:()][^:()\n]*?)(?::(\d+)(?::\d+)?|\((\d+)(?:,\d+)?\))(?::| -) ?(.*)$"
)
IN_FUNCTION = re.compile(
    r"^\S+: In (?:static )?(?:member )?(?:function|constructor|destructor) ['‘`](.+)['’]:$"
)
C_ASSERT = re.compile(r"^(?:[^:\s]+: )?([^:\s]+\.\w+):(\d+): (.+?): (Assertion .*failed\.)$")
JEST_TITLE = re.compile(r"^\s*● (.+)$")
VITEST_TITLE = re.compile(r"^\s*FAIL\s+(\S+\.\w+)(?: \[[^\]]*\])?( > .+)?$")
MOCHA_TITLE = re.compile(r"^\s+\d+\) (\S.*)$")
NODE_TITLE = re.compile(r"^\s*(?:not ok \d+ - |✖ )(.+?)(?: \([\d.]+ ?ms\))?(?: #.*)?$")
CTEST = re.compile(r"^\s+\d+ - (\S+) \((?:Failed|Timeout|SEGFAULT|.*Exception.*|Not Run)[^)]*\)$")
GTEST = re.compile(r"^\[  FAILED  \] (\S+?\.\S+?)(?:,| \(\d+ ms\)|$)")
CUT = re.compile(r"^(?:… .*bytes.* …|\[?\.\.\.+ .*(?:truncated|omitted|cut).*)$")
UNLOADED = re.compile(
    r"ERROR collecting|errors? during collection|while importing test module|while loading conftest"
    r"|unittest\.loader\._FailedTest|^ERROR: (?:file or directory )?not found|Test suite failed to run"
    r"|could not compile|\[(?:build|setup) failed\]|^Failed Suites|Failed to resolve import"
    r"|Cannot find module|ERR_MODULE_NOT_FOUND|ld returned \d+ exit|^make(?:\[\d+\])?: \*\*\* .*\.o\]"
)
NO_PARSE = re.compile(r"^(?:\w+\.)*(?:SyntaxError|IndentationError|TabError)\b")


@dataclass
class Trace:
    """One failure: where it passed, and what it says."""

    frames: list[Frame] = field(default_factory=list)
    is_inward: bool = True
    """Whether the frames run from the outermost call to the innermost."""
    message: list[str] = field(default_factory=list)
    title: str = ""
    """Of the test, as a heading above names it."""
    folder: str = ""
    """Folder that its paths are relative to, if the output says one."""
    is_compiler: bool = False


def javascript_message(said: Sequence[str]) -> list[str]:
    """What the lines before a stack say: the error, and what was expected and received."""
    lines = [re.sub(r"^\s*error: (?:\|-)?['\"]?(.*?)['\"]?$", r"\1", one) for one in said]
    lines = [one for one in lines if one.strip() and not JS_ASIDE.match(one)]
    errors = [at for at, one in enumerate(lines) if JS_ERROR.match(one)]
    start = errors[-1] if errors else 0
    return [one for one in lines[start:] if set(one.strip()) - set("^~ ")][:4]
