"""What failed and where, read from the output of tests, compilers and interpreters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pace_agent.checking.failure_excerpt import shown
from pace_agent.checking.failure_forms import Trace
from pace_agent.checking.failure_paths import RepositoryPaths
from pace_agent.checking.failure_reader import Reader
from pace_agent.shell.output import settled

__all__ = ["FailurePlace", "Failures", "parse_failures", "shown"]

_LONGEST_OUTPUT = 2_000_000
"""Characters that are read: as many from the beginning as from the end."""
_LONGEST_LINE = 2_000
_LONGEST_SAID = 240
_MOST_PLACES = 200
_MOST_LINES = 5


@dataclass(frozen=True)
class FailurePlace:
    """A line of the repository that a failure names."""

    path: str
    """From the repository, with ``/``."""
    line: int
    """1-based."""
    symbol: str | None
    """Function, as the output names it, without what is around it where that cannot be told; None if the
    output names none."""
    message: str
    """What is said to be wrong, in one line, at the innermost place of a failure; empty at those that it
    only passed through."""


@dataclass(frozen=True)
class Failures:
    """What an output says went wrong."""

    places: tuple[FailurePlace, ...] = ()
    """Inside the repository only; failure by failure, each from the outermost call to the innermost."""
    summary: str = ""
    """What failed, in one to five lines."""
    tests: tuple[str, ...] = ()
    """Ids of the failing tests, as their tool takes them: of pytest ``tests/test_a.py::test_x[1]``, of
    unittest ``tests.test_a.Case.test_x``, of JavaScript's tools the titles as they are printed, with spaces,
    ``›`` or ``>`` between them, of Go ``TestX/case``, of Cargo ``tests::x``."""
    is_collection_error: bool = False
    """Whether tests could not even be loaded, or the code not compiled."""


def parse_failures(output: str, repository: Path) -> Failures:
    """What failed and where.

    Reads what pytest (every ``--tb`` style), unittest, Python, node, Jest, Vitest, Mocha, ``go test``,
    ``cargo test``, CTest, GoogleTest, C compilers, rustc, tsc and linters of that form print; with colours,
    any line ends, and with a part cut out. Of an output that nothing of this is in, the summary is its last
    lines.

    Args:
        output: of a command that failed.
        repository: folder that the command ran in; only its own files count as places, and those of
            dependencies that are installed in it do not.
    """
    if len(output) > _LONGEST_OUTPUT:
        half = _LONGEST_OUTPUT // 2
        output = f"{output[:half]}\n… bytes left out …\n{output[-half:]}"
    text = "\n".join(line[:_LONGEST_LINE] for line in settled(output).split("\n"))
    reader = Reader(text)
    paths = RepositoryPaths(repository)
    found = [(trace, list(_places(trace, paths, repository))) for trace in reader.traces]
    found = [(trace, places) for trace, places in found if places or trace.message]
    own = [one for one in found if one[1]] or found
    tests = dict(reader.tests)
    if not tests and reader.is_pytest:
        tests = {one: "" for trace, places in found if (one := _test_of(trace, places))}
    places = [place for some in dict.fromkeys(tuple(some) for _, some in own) for place in some]
    if not places:
        places = list(_places_of_tests(tests, paths))
    return Failures(
        tuple(places[:_MOST_PLACES]),
        _summary(own, tests, reader, text, repository),
        tuple(tests),
        reader.is_unloaded,
    )


def _places(trace: Trace, paths: RepositoryPaths, repository: Path) -> Iterator[FailurePlace]:
    folder = trace.folder
    if paths.go_module and folder.startswith(paths.go_module):
        folder = folder.removeprefix(paths.go_module).strip("/")
    frames = trace.frames if trace.is_inward else trace.frames[::-1]
    inside: list[tuple[str, int, str | None]] = []
    is_closure = False
    for path, line, symbol in frames:
        own = paths.inside(f"{folder}/{path}") if folder and "/" not in path else None
        own = own or paths.inside(path, folder)
        if own is None or line < 1:
            continue
        plain = _plain(symbol)
        if inside and is_closure and inside[-1][2] == plain:
            inside.pop()  # Rust's test harness calls a test by a closure at its attribute
        is_closure = symbol is not None and symbol.endswith("{{closure}}")
        if inside and inside[-1][:2] == (own, line):
            before = inside.pop()[2]
            plain = plain or before
        if (own, line, plain) not in inside:
            inside.append((own, line, plain))
    said = _said(trace, repository)
    for at, (own, line, symbol) in enumerate(inside, 1):
        yield FailurePlace(own, line, symbol, said if at == len(inside) else "")


def _plain(symbol: str | None) -> str | None:
    """A function's name without its package, receiver marks and arguments."""
    if symbol is None:
        return None
    name = re.sub(r"\(anonymous namespace\)::|::\{\{.*?\}\}|\{\{.*?\}\}|\s*\[as .*\]$", "", symbol.strip())
    name = name.removeprefix("async ").removeprefix("new ")
    if re.search(r"<(?:anonymous|module|lambda|listcomp|dictcomp|setcomp|genexpr)>$", name):
        return None
    if "/" in name or ".(*" in name:  # Go: the path of the package, then its name
        name = name.rpartition("/")[2].partition(".")[2] or name
        name = name.replace("(*", "").replace(")", "")
    if "::" in name:
        name = name.rpartition("::")[2]
    name = re.sub(r"\(.*\).*$", "", name).strip()
    name = name.rpartition(" ")[2]
    name = re.sub(r"^(?:Object|Module|TestContext|Context|Proxy|global|globalThis|main)\.(?=\w)", "", name)
    name = re.sub(r"\.func\d+(?:\.\d+)*$", "", name)
    return name if re.fullmatch(r"[\w$.~]+", name) else None


def _said(trace: Trace, repository: Path) -> str:
    """A failure's message in one line."""
    lines = [
        one.strip(" \t,").removeprefix("+  ") for one in trace.message if set(one.strip()) - set("^~-+ ")
    ]
    text = "; ".join(lines).replace(":; ", ": ").replace(f"{repository}/", "")
    return text if len(text) <= _LONGEST_SAID else text[: _LONGEST_SAID - 1] + "…"


def _test_of(trace: Trace, places: list[FailurePlace]) -> str | None:
    """The id of a pytest test, from the heading above its traceback."""
    title = trace.title.rpartition(" of ")[2] if trace.title.startswith("ERROR at ") else trace.title
    if not places or not re.fullmatch(r"[\w.]+(?:\[.*\])?", title) or not places[0].path.endswith(".py"):
        return None
    name, bracket, rest = title.partition("[")
    return f"{places[0].path}::{name.replace('.', '::')}{bracket}{rest}"


def _places_of_tests(tests: dict[str, str], paths: RepositoryPaths) -> Iterator[FailurePlace]:
    """Where the tests of an output without tracebacks are defined."""
    for test, said in tests.items():
        path, _, rest = test.partition("::")
        own = paths.inside(path) if rest else None
        name = rest.partition("[")[0].rpartition("::")[2] or rest.partition("[")[0]
        line = paths.line_of(own, name) if own and name else None
        if own and line:
            yield FailurePlace(own, line, name, said)


def _summary(
    found: list[tuple[Trace, list[FailurePlace]]],
    tests: dict[str, str],
    reader: Reader,
    text: str,
    repository: Path,
) -> str:
    lines: list[str] = []
    if tests:
        names = list(tests)
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        verb = "test fails" if len(names) == 1 else "tests fail"
        lines.append(_cut(f"{len(names)} {verb}: {', '.join(names[:3])}{more}"))
    elif reader.is_unloaded:
        is_compiler = any(trace.is_compiler for trace, _ in found)
        what = "the code does not compile" if is_compiler else "the tests or the code could not be loaded"
        lines.append(what)
    for trace, places in found:
        said = _said(trace, repository)
        where = ""
        if places:
            last = places[-1]
            where = f"{last.path}:{last.line}" + (f", in {last.symbol}" if last.symbol else "")
        line = _cut(": ".join(one for one in (where, said) if one))
        if line and line not in lines and len(lines) < _MOST_LINES:
            lines.append(line)
    if not found:
        lines += [_cut(f"{test}: {said}") for test, said in tests.items() if said][: _MOST_LINES - len(lines)]
    if not found and not any(tests.values()):
        last_lines = [line.strip() for line in text.split("\n") if line.strip()]
        lines += [_cut(line) for line in last_lines[len(lines) - _MOST_LINES :]]
    return "\n".join(lines) if lines else "the command failed and printed nothing"


def _cut(line: str) -> str:
    return line if len(line) <= 2 * _LONGEST_SAID else line[: 2 * _LONGEST_SAID - 1] + "…"
