"""An output line by line: tracebacks, assertions and errors as the tools of several languages print them.

Each kind of line has one method. A method that knows a line says so, and none after it sees the line.
"""

from __future__ import annotations

import re

from pace_agent.checking import failure_forms as forms
from pace_agent.checking.failure_forms import Trace

_MOST_MESSAGE = 6
"""Lines of a message that are kept."""
_MOST_FRAMES = 400


class Reader:
    """Reads an output.

    Args:
        text: without control sequences, line ends of one character.
    """

    def __init__(self, text: str) -> None:
        self.traces: list[Trace] = []
        self.tests: dict[str, str] = {}
        """Id of each failing test, with what the tool says of it in short."""
        self.is_unloaded = False
        self.is_pytest = False
        self._trace: Trace | None = None
        self._title = ""
        self._section = ""
        self._is_captured = False
        self._defined: str | None = None  # by the source lines of a long pytest entry
        self._indent: int | None = None  # of a Python traceback that still lacks its message
        self._open: Trace | None = None  # whose message may go on
        self._said: list[str] = []  # lines that were not understood, for messages that come before a stack
        self._severity = ""
        self._panic: Trace | None = None
        self._is_stack = False
        self._mocha: list[str] | None = None
        self._function: str | None = None
        self._folder = ""
        self._before = ""
        self._lines = text.split("\n")
        self._at = 0
        for at, line in enumerate(self._lines):
            self._at = at
            self._read(line)
            self._before = line
        self._go_ids()

    def _read(self, line: str) -> None:
        if forms.UNLOADED.search(line):
            self.is_unloaded = True
        for method in (
            self._heading,
            self._test_id,
            self._python,
            self._python_error,
            self._pytest,
            self._javascript,
            self._go,
            self._rust,
            self._compiler,
        ):
            if method(line):
                return
        self._more(line)

    # ---- what all kinds share

    def _begin(self, *, is_inward: bool = True, is_compiler: bool = False) -> Trace:
        self._trace = Trace([], is_inward, [], self._title, self._folder, is_compiler)
        self.traces.append(self._trace)
        self._open = None
        self._said = []
        return self._trace

    def _end(self) -> None:
        self._trace = self._open = self._indent = None
        self._is_stack = False

    def _say(self, trace: Trace, text: str) -> None:
        text = text.strip()
        if text and len(trace.message) < _MOST_MESSAGE:
            trace.message.append(text)

    def _frame(self, trace: Trace, path: str, line: str, symbol: str | None) -> None:
        if len(trace.frames) >= _MOST_FRAMES:
            del trace.frames[_MOST_FRAMES // 2]
        trace.frames.append((path, int(line), symbol))

    def _more(self, line: str) -> None:
        """A line that goes on with a message, or may turn out to be one."""
        if self._open is not None:
            if line.strip() and not re.match(r"^[=\-_]{3,}|^stack backtrace:|^note: ", line):
                self._say(self._open, line)
            elif self._open.message:
                self._open = None
        elif line.strip():
            self._said = [*self._said[-11:], line]
        definition = re.match(r"^[> ]\s*(?:async )?def (\w+)", line)
        if definition:
            self._defined = definition[1]

    # ---- headings and ids

    def _heading(self, line: str) -> bool:
        if section := forms.SECTION.match(line):
            self._end()
            self._section, self._is_captured, self._title = section[1], False, ""
            return True
        if title := forms.PYTEST_TITLE.match(line):
            self._end()
            self._title, self._is_captured, self._defined = title[1], False, None
            self.is_pytest = True
            return True
        if forms.CAPTURED.match(line):
            self._end()
            self._is_captured = True
            return True
        if re.match(r"^(?:_ ){5,}", line):
            self._defined = None
            return True
        if forms.CUT.match(line):
            self._end()
            self._said = []
            return True
        return self._section.startswith("warnings summary")

    def _test_id(self, line: str) -> bool:
        if found := forms.SHORT.match(line):
            test, said = found[2], found[3] or ""
            self.tests[test] = self.tests.get(test) or said
            self.is_unloaded |= found[1] == "ERROR" and "::" not in test
            return True
        if found := forms.VERBOSE.match(line):
            self.tests.setdefault(found[1], "")
            return True
        if found := forms.UNIT_TITLE.match(line):
            self._end()
            place = found[3] if found[3].endswith(f".{found[2]}") else f"{found[3]}.{found[2]}"
            self._title = place
            if "_FailedTest" not in place and found[2] not in ("setUpClass", "tearDownClass", "setUpModule"):
                self.tests.setdefault(place, "")
            return True
        if found := forms.RUST_TEST.match(line) or forms.CTEST.match(line) or forms.GTEST.match(line):
            self.tests.setdefault(found[1], "")
            return True
        if (found := forms.GO_TEST.match(line)) is not None:
            self._end()
            self._title = found[1]
            self.tests.setdefault(found[1], "")
            return True
        return self._javascript_id(line)

    def _javascript_id(self, line: str) -> bool:
        found = forms.JEST_TITLE.match(line) or forms.VITEST_TITLE.match(line) or forms.NODE_TITLE.match(line)
        if found is not None:
            title = found[1] if found.re is not forms.VITEST_TITLE else (found[2] or "").removeprefix(" > ")
            self._end()
            self._said, self._mocha = [], None
            if title and not title.startswith(("Test suite failed", "Console", "Cannot log")):
                self._title = title
                if not re.search(r"\.[cm]?[jt]sx?$", title) and title != "failing tests:":
                    self.tests.setdefault(title, "")
            return True
        if found := forms.MOCHA_TITLE.match(line):
            self._end()
            self._said, self._mocha = [], [found[1]]
            if found[1].endswith(":") and " " not in line[: line.index(")")].strip():
                self._finish_mocha()
            return True
        if self._mocha is not None:
            if line.strip() and line.startswith("    "):
                self._mocha.append(line.strip())
                self._finish_mocha()
            else:
                self._mocha = None
        return False

    def _finish_mocha(self) -> None:
        """Mocha ends a test's full title, one line a suite, with a colon."""
        if self._mocha is not None and self._mocha[-1].endswith(":"):
            self._title = " ".join(self._mocha)[:-1]
            self.tests.setdefault(self._title, "")
            self._mocha = None

    def _go_ids(self) -> None:
        """A test whose subtest failed is not named beside it."""
        for test in list(self.tests):
            parent = test.rpartition("/")[0]
            if re.match(r"^(?:Test|Fuzz|Example)\w*$", parent.partition("/")[0]):
                self.tests.pop(parent, None)

    # ---- Python

    def _python(self, line: str) -> bool:
        found = forms.PY_FRAME.match(line)
        if found is None or self._is_captured:
            return False
        trace = self._trace
        if trace is None or self._indent is None or trace.message:
            trace = self._begin()
        self._frame(trace, found[2], found[3], found[4])
        self._indent = max(0, len(found[1].replace("E", " ").replace("|", " ").replace("+", " ")) - 2)
        return True

    def _python_error(self, line: str) -> bool:
        if self._indent is None or self._trace is None:
            return False
        plain = re.sub(r"^E(?= )", " ", line)
        plain = re.sub(r"^(\s*)[|+]", r"\1 ", plain)
        if not plain.strip() or len(plain) - len(plain.lstrip()) > self._indent:
            return True  # source lines and their marks
        if plain.strip().startswith(("Traceback", "[Previous line")):
            return True
        if forms.PY_ERROR.match(plain.strip()):
            self._say(self._trace, plain)
            self._open = None if line.startswith("E") else self._trace
            if forms.NO_PARSE.match(plain.strip()):
                self.is_unloaded = True
            self._indent = None
            return True
        self._indent = None
        return False

    def _pytest(self, line: str) -> bool:
        if frame := forms.PYTEST_FRAME.match(line):
            if self._is_captured:
                return True
            trace = self._trace
            if trace is None or trace.message or not trace.is_inward:
                trace = self._begin()
            self._frame(trace, frame[1], frame[2], frame[3])
            return True
        error = forms.PYTEST_ERROR.match(line)
        if error is not None and not self._is_captured:
            trace = self._trace or self._begin()
            self._say(trace, error[1] or "")
            self._open = trace if not self._title else None  # one-line entries indent what follows
            return True
        place = forms.PYTEST_PLACE.match(line)
        if place is None or not place[1].endswith((".py", ".pyi", ".pyx")):
            return False
        if (place[3] or "").endswith("Warning") or (self._is_captured and not place[3]):
            return True
        if (place[3] or "") in ("error", "note", "warning"):
            return False
        trace = self._trace or self._begin()
        self._is_captured = False
        self._frame(trace, place[1], place[2], self._defined)
        self._defined = None
        if place[3]:
            if not trace.message:
                self._say(trace, f"{place[3]}: {place[4]}" if place[4] else place[3])
            self._end()
        return True

    # ---- JavaScript and TypeScript

    def _javascript(self, line: str) -> bool:
        if re.match(r"^\s+stack: \|-?$", line):
            self._is_stack = True
            return True
        found = forms.JS_FRAME.match(line) or (forms.TAP_FRAME.match(line) if self._is_stack else None)
        if found is None:
            if line.strip() == "..." or (self._is_stack and forms.NODE_TITLE.match(line)):
                self._is_stack = False
            head = forms.JS_HEAD.match(line)
            if head and any(
                one.strip(" ^~") == "" and "^" in one for one in self._lines[self._at + 1 : self._at + 5]
            ):
                self._said = [line]
                trace = self._begin(is_inward=False)
                self._frame(trace, head[1], head[2], None)
                return True
            if forms.JS_ERROR.match(line) and "SyntaxError" in line:
                self.is_unloaded = True
            if self._trace is not None and not self._trace.is_inward and self._trace.frames:
                if forms.JS_ERROR.match(line) and not self._trace.message:
                    self._say(self._trace, line)
                    return True
                if line.strip() == "" and self._trace.message:
                    self._trace = None
            return False
        symbol = found[1]
        rust = re.match(r"^\s*\d+: (.+)$", self._before)
        if rust and symbol is None:
            symbol = rust[1]
        stack = self._trace
        if stack is None or stack.is_inward:
            message = forms.javascript_message(self._said)
            stack = self._begin(is_inward=False)
            for one in message:
                self._say(stack, one)
        self._open = None
        self._frame(stack, found[2], found[3], symbol)
        return True

    # ---- Go

    def _go(self, line: str) -> bool:
        if line.startswith(("panic: ", "fatal error: ")):
            trace = self._begin(is_inward=False)
            self._say(trace, line)
            return True
        if found := forms.GO_FRAME.match(line):
            stack = self._trace
            if stack is None or stack.is_inward:
                return False
            called = re.sub(r"\((?:0x|\{|\.\.\.|\)).*$", "", self._before.strip())
            self._frame(stack, found[1], found[2], called.removeprefix("created by ") or None)
            return True
        if line.startswith("goroutine ") and self._trace is not None and self._trace.frames:
            self._end()
            return True
        if line.startswith("# "):
            self._folder = line[2:].split(" ")[0]
            return False
        package = re.match(r"^(?:FAIL|ok)\s+(\S+/\S+|\S+)\s+(?:[\d.]+s|\(cached\)|\[\w+ failed\])", line)
        if package:
            for one in reversed(self.traces):
                if one.folder:
                    break
                one.folder = package[1]
            self._end()
            self._title = ""
            return True
        if found := forms.GO_PLACE.match(line):
            trace = self._begin()
            self._frame(trace, found[1], found[2], self._title.partition("/")[0] or None)
            self._say(trace, found[3])
            self._open = trace
            return True
        return False

    # ---- Rust

    def _rust(self, line: str) -> bool:
        if self._panic is not None:
            ended = forms.RUST_PANIC_END.match(line)
            self._say(self._panic, ended[1] if ended else line)
            if ended:
                self._frame(self._panic, ended[2], ended[3], None)
            if ended or not line.strip():
                self._panic = None
            return True
        if found := forms.RUST_PANIC.match(line):
            self._title = found[1] if found[1] != "main" else ""
            trace = self._begin(is_inward=False)
            self._frame(trace, found[3], found[4], None)
            self._say(trace, found[2] or "")
            self._open = trace
            return True
        if found := forms.RUST_PANIC_START.match(line):
            self._title = found[1] if found[1] != "main" else ""
            self._panic = self._begin(is_inward=False)
            self._say(self._panic, found[2])
            return True
        if re.match(r"^\s+\d+: .+$", line) and self._trace is not None and not self._trace.is_inward:
            return True  # the function of the frame on the next line
        if found := forms.RUST_ERROR.match(line):
            self._end()
            self._severity = line if found[1] == "error" else ""
            return True
        if found := forms.RUST_PLACE.match(line):
            if self._severity:
                trace = self._begin(is_compiler=True)
                self._frame(trace, found[1], found[2], None)
                self._say(trace, self._severity)
                self._severity, self.is_unloaded = "", True
                self._end()
            return True
        return False

    # ---- compilers and linters

    def _compiler(self, line: str) -> bool:
        if found := forms.IN_FUNCTION.match(line):
            self._function = found[1]
            return True
        if re.match(r"^\S+: At (?:top level|global scope):$", line):
            self._function = None
            return True
        if found := forms.C_ASSERT.match(line):
            trace = self._begin()
            self._frame(trace, found[1], found[2], found[3])
            self._say(trace, found[4])
            self._end()
            return True
        found = forms.COMPILER.match(line)
        if found is None or self._is_captured:
            return False
        said = found[4].strip()
        if not said or re.match(
            r"^(?:warning|note|info|remark|help|required from|In )\b", said, re.IGNORECASE
        ):
            return bool(said)
        if not re.search(r"\.\w{1,6}$", found[1]) or re.match(r"^\d", said):
            return False
        trace = self._begin(is_compiler=True)
        self._frame(trace, found[1], found[2] or found[3], self._function)
        self._say(trace, said)
        is_error = re.match(r"^(?:fatal )?error\b", said)
        if is_error or found[1].endswith(".go"):
            self.is_unloaded |= not found[1].endswith((".py", ".pyi"))
        self._function = None if found[1].endswith(".go") else self._function
        if said == "Failure":  # GoogleTest: what was expected is on the next lines
            trace.message, trace.is_compiler = [], False
            self._open = trace
        elif found[1].endswith(".go") or is_error:
            self._end()
        return True
