"""Words, redirections and here-documents of a parsed shell command, and what runs inside of them."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable

import tree_sitter

from pace_agent.shell.source import EXPANSIONS, MARKS, Source, short, spans_in
from pace_agent.shell.words import Redirection, SimpleCommand, UnclearError, Word, literal, read_word

DEEPEST = 60
"""Levels of nesting that are followed."""

_PLAIN_EXPANSION = re.compile(
    r"\$\{(?:#?(?:[A-Za-z_]\w*|[0-9]+|[@*#?$!-])|[A-Za-z_]\w*(?::?[-+?]|%%?|##?|//?|\^\^?|,,?).*)\}",
    re.ASCII | re.DOTALL,
)
"""Of ``${…}`` what gives a variable's value, or its absence, and evaluates nothing."""

_PLAIN_VALUE = re.compile(
    r"(?:[^'\"`$\\{}(]|\\[^'\"`$\\{}\n]|(?<=[\s+-])\((?=[A-Za-z0-9])|'[^'\"`$\\{}(]*'|\"[^'\"`$\\{}(]*\"|\$(?=[/\s]))*"
)
"""What may stand in ``${…}`` beside expansions that the grammar shows.

It sees none in a pattern, nor backquotes anywhere, and it may take quotes in ``"${…}"`` for others than the
shell does. So there are only quotes that end where all readings say, and nothing that could begin a command.
"""

_HIDDEN = re.compile(r"[$<>=]\(([^()]*)\)|`([^`]*)`")
"""Text that may run, where the grammar shows no command."""

_PLAIN_NAME = re.compile(r"[\w./+-]+", re.ASCII)
_NAMED_DESCRIPTOR = re.compile(rb"(?:^|[\s;|&()<>`])\{[^\s{}]*\}$")

_PLAIN_VARIABLE = re.compile(r"\$(?:[A-Za-z_]\w*|[0-9@*#?!$-])", re.ASCII)
_PLAIN_ARITHMETIC = re.compile(r"\$\(\([0-9\s+*/%()<>=!&|^~-]*\)\)")


class Reader(Source, ABC):
    """Reads the pieces of simple commands. Commands inside are added to :attr:`commands` first."""

    def __init__(self) -> None:
        super().__init__()
        self.commands: list[SimpleCommand] = []
        self.nesting = 0
        """How many texts the current one is nested in."""
        self.depth = 0
        self.behind: list[int] = []
        """Commands that read what the command with the last here-document writes."""

    @abstractmethod
    def script(self, text: str, via: tuple[str, ...], nesting: int) -> list[int]:
        """Add the commands of a whole script; returns their numbers."""

    @abstractmethod
    def visit(self, node: tree_sitter.Node) -> list[int]:
        """Add the commands of a node; returns their numbers."""

    @abstractmethod
    def stages(self, node: tree_sitter.Node, earlier: list[int]) -> None:
        """Add the commands of a pipeline's parts, each fed by those before it."""

    @abstractmethod
    def add(self, command: SimpleCommand, fed: list[int]) -> None:
        """Add a command, or what it runs in its place."""

    def redirections(
        self, nodes: Iterable[tree_sitter.Node]
    ) -> tuple[tuple[Redirection, ...], list[Word], list[int]]:
        """What redirections say: themselves, words of the command that stand behind, commands in them."""
        found: list[Redirection] = []
        extra: list[Word] = []
        fed: list[int] = []
        for node in nodes:
            if node.type == "heredoc_redirect":
                more, inside = self._heredoc(node)
                found += more
                fed += inside
                continue
            self.check_gaps(node, in_line=True)
            if node.type not in ("file_redirect", "herestring_redirect"):
                self.unclear.append(f"the redirection {short(self.raw(node))!r}")
                continue
            operator = ""
            targets: list[tree_sitter.Node] = []
            if _NAMED_DESCRIPTOR.search(self.source[max(0, node.start_byte - 200) : node.start_byte]):
                self.unclear.append("a redirection")  # {name}> sets a variable
            for child in node.children:
                if child.type == "file_descriptor":
                    before = self.source[max(0, child.start_byte - 1) : child.start_byte]
                    digits = self.raw(child)
                    if not re.fullmatch(r"[0-9]", digits) or (before and before not in b" \t\n;|&()"):
                        self.unclear.append("a redirection")  # its number is the end of a word
                    continue
                if not child.is_named and not operator:
                    operator = child.type
                    continue
                if targets and targets[-1].end_byte == child.start_byte:
                    self.unclear.append("a redirection")
                targets.append(child)
            if operator in (">&-", "<&-") and not targets:
                continue
            if not targets or operator not in ("<", ">", ">>", ">|", "&>", "&>>", ">&", "<&", "<<<"):
                self.unclear.append(f"the redirection {short(self.raw(node))!r}")
                continue
            if operator in (">&", "<&") and not _PLAIN_NAME.fullmatch(self.raw(targets[0])):
                # bash expands such a target twice, so that $(…) in quotes runs
                self.unclear.append(f"the redirection {short(self.raw(node))!r}")
            for number, target in enumerate(targets):
                word, inside = self.word(target)
                fed += inside
                if number:
                    extra.append(word)
                else:
                    found.append(Redirection(operator, word))
        return tuple(found), extra, fed

    def _heredoc(self, node: tree_sitter.Node) -> tuple[list[Redirection], list[int]]:
        parts = {child.type: child for child in node.children}
        start, body, end = (parts.get(f"heredoc_{name}") for name in ("start", "body", "end"))
        fed: list[int] = []
        found: list[Redirection] = []
        for child in node.children:
            if child.type == "pipeline":
                self.check_gaps(child)
                first = len(self.commands)
                self.stages(child, [])
                self.behind += range(first, len(self.commands))
            elif child.type == "file_redirect":
                more, extra, inside = self.redirections([child])
                found += more
                fed += inside
                if extra:
                    self.unclear.append("words after a redirection")
            elif child.is_named and not child.type.startswith("heredoc_"):
                self.visit(child)
            elif child.type not in ("<<", "<<-", "&&", "||") and not child.is_named:
                self.unclear.append("a here-document")
        if start is None or end is None:
            self.unclear.append("a here-document without an end")
            return found, fed
        raw = self.raw(start)
        if not re.fullmatch(r"\w+|'\w+'|\"\w+\"|\\\w+", raw, re.ASCII):
            self.unclear.append(f"the end mark {raw!r} of a here-document")
            return found, fed
        mark = raw.strip("'\"\\")
        self.check_heredoc_end(node, start, end, mark, tabs="<<-" in parts)
        if raw == mark and body is not None:
            fed += self._heredoc_expansions(body, end)
        found.append(Redirection("<<", literal(mark)))
        return found, fed

    def _heredoc_expansions(self, body: tree_sitter.Node, end: tree_sitter.Node) -> list[int]:
        inside: list[int] = []
        covered = bytearray(self.source[body.start_byte : end.start_byte])
        for child in body.children:
            if child.type in EXPANSIONS:
                inside += self.expansions(child)
                a, b = child.start_byte - body.start_byte, child.end_byte - body.start_byte
                covered[a:b] = b" " * (b - a)
        if re.search(rb"`|\$[({\[]|\\", bytes(covered)):
            self.unclear.append("what a here-document runs")
        return inside

    def word(self, node: tree_sitter.Node) -> tuple[Word, list[int]]:
        """Read a word; returns it and the numbers of the commands whose output is in it."""
        inside = self.expansions(node)
        start = node.start_byte
        raw = self.raw(node)
        spans = {
            len(self.source[start:a].decode(errors="replace")): len(
                self.source[start:b].decode(errors="replace")
            )
            for a, b in spans_in(node)
        }
        try:
            return read_word(raw, spans), inside
        except UnclearError as error:
            self.unclear.append(str(error))
            return Word(raw, None), inside

    def expansions(self, node: tree_sitter.Node) -> list[int]:
        """Add the commands that an expansion runs; returns their numbers."""
        raw, start = self.raw(node), len(self.commands)
        if node.type in ("command_substitution", "process_substitution"):
            if raw.lstrip().startswith("`"):
                self._backquoted(node, raw)
            else:
                self._substitution(node)
            return list(range(start, len(self.commands)))
        known = {"expansion": _PLAIN_EXPANSION, "simple_expansion": _PLAIN_VARIABLE}.get(node.type)
        if known is not None and not known.fullmatch(raw):
            self.unclear.append(f"what {short(raw)!r} stands for")
        elif node.type == "arithmetic_expansion" and not _PLAIN_ARITHMETIC.fullmatch(raw):
            self.unclear.append(f"what {short(raw)!r} stands for")  # a variable in it may hold a command
        self.depth += 1
        if self.depth > DEEPEST:
            self.unclear.append("it is nested too deeply")
        else:
            for child in node.children:
                self.expansions(child)
            if node.type == "expansion":
                self._check_rest(node, raw)
        self.depth -= 1
        return list(range(start, len(self.commands)))

    def _check_rest(self, node: tree_sitter.Node, raw: str) -> None:
        """Beside the expansions in ``${…}`` there must be nothing that may be another."""
        rest = bytearray(self.source[node.start_byte : node.end_byte])
        for child in node.children:
            for a, b in spans_in(child):
                rest[a - node.start_byte : b - node.start_byte] = b" " * (b - a)
        text = rest.decode(errors="replace")
        if not _PLAIN_VALUE.fullmatch(text[2:-1]):
            self.unclear.append(f"what {short(raw)!r} stands for")
            for match in _HIDDEN.finditer(text):
                self.script(match[1] or match[2] or "", (), self.nesting + 1)

    def _substitution(self, node: tree_sitter.Node) -> None:
        self.check_gaps(node)
        for child in node.children:
            if child.type in ("file_redirect", "heredoc_redirect"):  # $(<file)
                redirections, extra, fed = self.redirections([child])
                if extra:
                    self.unclear.append("words after a redirection")
                self.add(SimpleCommand((), redirections=redirections), fed)
            elif child.is_named:
                self.visit(child)
            elif child.type.strip(" \t") not in ("$(", "<(", ">(", ")", *MARKS):
                self.unclear.append(f"what {short(self.raw(node))!r} runs")

    def _backquoted(self, node: tree_sitter.Node, raw: str) -> None:
        """In backquotes a backslash takes a level of quoting away, which the grammar does not know."""
        inner = raw.strip()[1:-1]
        if re.search(r"(?<!\\)`", inner) or re.search(r'\\[\\"]', inner):
            self.unclear.append(f"what {short(raw)!r} runs")
        self.script(re.sub(r"\\([`$])", r"\1", inner), (), self.nesting + 1)
