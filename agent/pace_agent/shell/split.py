"""A shell command split into every simple command that running it could run.

The grammar is tree-sitter's for bash. It forgives much, so that nothing is believed that it had to guess:
between two pieces there is white space alone, each word is read a second time (:mod:`.shell_words`), and a
kind of node that is not named here is unclear. What is unclear is reported, and is never harmless; commands
that were seen all the same are listed, so that a forbidden one is still found.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

import tree_sitter
import tree_sitter_bash

from pace_agent.shell.reader import DEEPEST, Reader
from pace_agent.shell.source import MARKS, is_blank, operands_of, short
from pace_agent.shell.variables import EVALUATED, means_something
from pace_agent.shell.words import SimpleCommand, Word, literal, names
from pace_agent.shell.wrappers import Nested, unwrap

LONGEST_COMMAND = 16 * 1024
"""Characters of a command that are looked at; a longer one is unclear."""

_MOST_NESTED = 8
_MOST_COMMANDS = 500
_LANGUAGE = tree_sitter.Language(tree_sitter_bash.language())

_CONTAINERS = names(
    "program list compound_statement subshell if_statement elif_clause else_clause while_statement do_group"
    " negated_command"
)
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_RESERVED = names(
    "! { } ( ) ]] if then elif else fi for while until do done case esac in function select coproc repeat"
    " foreach end nocorrect noglob"
)
_EVALUATING = names(
    "printf test [ [[ let read unset declare typeset local readonly export mapfile readarray wait getopts"
)
"""Builtins that may evaluate an argument with an index in it, such as ``a[$(command)]``."""

_READING = names("read mapfile readarray getopts")
"""Builtins that set the variables that they name to what they read."""

_CHANGES_MEANING = names("alias unalias hash enable shopt source . bind complete fc set emulate setopt")
"""Builtins after which words may mean something else, or that run text from elsewhere."""


@dataclass(frozen=True)
class Split:
    """What a shell command would run."""

    commands: tuple[SimpleCommand, ...]
    """Every simple command, in the order of their text; also those that run under a condition."""

    unclear: tuple[str, ...] = ()
    """What could not be understood, as phrases for people; then ``commands`` may lack some."""

    self_calling: tuple[str, ...] = ()
    """Functions that start themselves again, in a pipe or in the background."""

    values: tuple[tuple[str, Word | None], ...] = ()
    """What variables are set to, but for a single command, in the order of the text; None: what is read."""

    @property
    def is_clear(self) -> bool:
        """Whether everything was understood."""
        return not self.unclear


def split_command(text: str) -> Split:
    """Split a command of a Bourne shell (bash, zsh, ksh, dash) into simple commands. Raises nothing."""
    walk = _Walk()
    try:
        walk.script(text, (), 0)
    except RecursionError:
        walk.unclear.append("it is nested too deeply")
    return Split(
        tuple(walk.commands),
        tuple(dict.fromkeys(walk.unclear)),
        tuple(walk.self_calling),
        tuple(walk.values),
    )


def _for_the_grammar(source: bytes) -> bytes:
    """The same text, byte for byte as long, with nothing in it beyond the first 256 characters.

    The scanner of tree-sitter-bash calls ``isdigit`` with whatever comes next, which reads outside the table
    of the C library (and ends the process) for characters far enough from ASCII. All of them are parts of
    words for a shell, so any letter that begins no variable's name can stand in.
    """
    if source.isascii():
        return source
    stand_ins = {2: "é".encode(), 3: "ée".encode(), 4: "éé".encode()}
    return b"".join(
        stand_ins.get(len(raw), raw) for raw in (c.encode() for c in source.decode(errors="replace"))
    )


class _Walk(Reader):
    """Collects the commands of one text and of the texts nested in it."""

    def __init__(self) -> None:
        super().__init__()
        self.self_calling: list[str] = []
        self.values: list[tuple[str, Word | None]] = []
        self.shell = os.path.basename(os.environ.get("SHELL", ""))
        """The shell that reads the text at hand, as far as that is known."""

    def script(self, text: str, via: tuple[str, ...], nesting: int) -> list[int]:
        """Add the commands of a whole script; returns their numbers."""
        if nesting > _MOST_NESTED or len(text) > LONGEST_COMMAND:
            self.unclear.append("it is nested too deeply" if nesting > _MOST_NESTED else "it is too long")
            return []
        if bad := next((c for c in text if (c < " " and c not in "\t\n") or c == "\x7f"), None):
            self.unclear.append(f"the control character {bad!r}")
        try:
            source = text.encode()
        except UnicodeEncodeError:
            self.unclear.append("characters that are no text")
            source = text.encode(errors="replace")
        tree = tree_sitter.Parser(_LANGUAGE).parse(_for_the_grammar(source))
        if tree.root_node.has_error:
            self.unclear.append("the syntax")
        before = self.nesting, self.source, self.depth, self.shell
        self.nesting, self.source, self.depth = nesting, source, 0
        if via and via[-1].endswith(" -c"):
            self.shell = via[-1].removesuffix(" -c")
        start = len(self.commands)
        root = tree.root_node
        if not is_blank(source[: root.start_byte]) or not is_blank(source[root.end_byte :]):
            self.unclear.append("the syntax")
        self.visit(root)
        self.nesting, self.source, self.depth, self.shell = before
        numbers = list(range(start, len(self.commands)))
        for number in numbers:
            command = self.commands[number]
            self.commands[number] = replace(command, via=(*via, *command.via))
        return numbers

    def visit(self, node: tree_sitter.Node) -> list[int]:
        """Add the commands of a node; returns their numbers."""
        self.depth += 1
        start = len(self.commands)
        if self.depth > DEEPEST:
            self.unclear.append("it is nested too deeply")
        else:
            self._statement(node)
        self.depth -= 1
        return list(range(start, len(self.commands)))

    def _statement(self, node: tree_sitter.Node) -> None:
        kind = node.type
        if kind in _CONTAINERS:
            self._container(node)
        elif kind == "pipeline":
            self._pipeline(node)
        elif kind == "command":
            self._simple(node, ())
        elif kind == "redirected_statement":
            self._redirected(node)
        elif kind in ("declaration_command", "unset_command", "test_command"):
            self._builtin(node)
        elif kind in ("variable_assignment", "variable_assignments"):
            self._assignments_alone(node)
        elif kind == "for_statement" and node.children[0].type == "for":
            self._for(node)
        elif kind == "case_statement":
            self._case(node)
        elif kind == "function_definition":
            self._function(node)
        elif kind == "comment":
            self.check_comment(node)
        else:
            self.unclear.append(f"the part {short(self.raw(node))!r}")
            for child in node.children:
                if child.is_named:
                    self.visit(child)

    # Statements made of others.

    def _container(self, node: tree_sitter.Node) -> None:
        self.check_gaps(node)
        for child in node.children:
            if child.is_named:
                self.visit(child)
            elif child.type.strip(" \t") not in MARKS or self.is_bare_mark(child):
                self.unclear.append(f"the part {short(self.raw(node))!r}")

    def _pipeline(self, node: tree_sitter.Node) -> None:
        self.check_gaps(node)
        self.stages(node, [])

    def stages(self, node: tree_sitter.Node, earlier: list[int]) -> None:
        """Add the commands of a pipeline's parts, each fed by those before it."""
        for child in node.children:
            if not child.is_named:
                if child.type not in ("|", "|&"):
                    self.unclear.append("a pipe")
                continue
            stage = self.visit(child)
            for number in stage:
                self._feed(number, earlier)
            earlier = earlier + stage

    def _redirected(self, node: tree_sitter.Node) -> None:
        self.check_gaps(node, in_line=True)
        body = node.child_by_field_name("body")
        redirects = [child for child in node.children if child != body]
        if body is not None and any(redirect.end_byte == body.start_byte for redirect in redirects):
            self.unclear.append("a redirection")
        if body is not None and body.type == "command":
            self._simple(body, redirects)
        else:
            start = len(self.commands)
            if body is not None:
                self.visit(body)
            inside = list(range(start, len(self.commands)))
            redirections, extra, fed = self.redirections(redirects)
            if extra:
                self.unclear.append("words after a redirection")
            for number in inside:
                self._feed(number, fed)
            self._add_before_pipe(SimpleCommand((), redirections=redirections), [*fed, *inside])

    def _for(self, node: tree_sitter.Node) -> None:
        self.check_gaps(node)
        name = node.child_by_field_name("variable")
        for child in node.children:
            if child.type == "do_group":
                if name is not None and node.child_by_field_name("value") is None:
                    self.values.append((self.raw(name), None))
                self.visit(child)
            elif child.type == "variable_name":
                if EVALUATED.fullmatch(self.raw(child)):
                    self.unclear.append(f"a loop that sets {self.raw(child)}")
                elif means_something(self.raw(child), self.shell):
                    self.add(SimpleCommand((), (self.raw(child),)), [])
            elif child.is_named:
                word, _ = self.word(child)
                if name is not None:
                    self.values.append((self.raw(name), word))
            elif child.type not in MARKS:
                self.unclear.append("a loop")

    def _case(self, node: tree_sitter.Node) -> None:
        self.check_gaps(node)
        for child in node.children:
            if child.type == "case_item":
                self.check_gaps(child)
                values = child.children_by_field_name("value")
                for part in child.children:
                    if part in values:
                        self.word(part)
                    elif part.is_named:
                        self.visit(part)
                    elif part.type not in ("(", ")", "|", ";;", ";", "&", "\n"):
                        self.unclear.append("a case")  # ;& runs on into the next, and not in every shell
            elif child.is_named:
                self.word(child)
            elif child.type not in MARKS:
                self.unclear.append("a case")

    def _function(self, node: tree_sitter.Node) -> None:
        self.check_gaps(node)
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is None or body is None or node.child_by_field_name("redirect") is not None:
            self.unclear.append("a function")
            for child in node.children:
                if child.is_named:
                    self.visit(child)
            return
        inside, raw = self.visit(body), self.raw(body)
        own = self.raw(name)
        if any(self.commands[number].name == own for number in inside) and re.search(r"[|&]", raw):
            self.self_calling.append(own)

    # Simple commands.

    def _simple(self, node: tree_sitter.Node, redirects: Iterable[tree_sitter.Node]) -> None:
        self.check_gaps(node, in_line=True)
        words: list[Word] = []
        names: list[str] = []
        fed: list[int] = []
        own: list[tree_sitter.Node] = []
        previous: tree_sitter.Node | None = None
        for child in node.children:
            if child.type in ("file_redirect", "herestring_redirect", "heredoc_redirect"):
                own.append(child)
                previous = child
                continue
            if previous is not None and previous.end_byte == child.start_byte:
                self.unclear.append(f"the words {short(self.raw(node))!r}")
            previous = child
            if child.type == "variable_assignment":
                name, inside = self._assignment(child, lasts=False)
                names.append(name)
                fed += inside
            elif child.type == "command_name" or child.is_named or child.type in ("$", "==", "=~"):
                inner = child.children[0] if child.type == "command_name" and child.children else child
                word, inside = self.word(inner)
                words.append(word)
                fed += inside
            else:
                self.unclear.append(f"the word {short(self.raw(child))!r}")
        redirections, extra, more = self.redirections([*own, *redirects])
        command = SimpleCommand((*words, *extra), tuple(names), redirections)
        self._add_before_pipe(command, fed + more)

    def _builtin(self, node: tree_sitter.Node) -> None:
        """``export A=1``, ``[ … ]``, ``[[ … ]]``: words, though the grammar sees more in them."""
        self.check_gaps(node, in_line=True)
        words: list[Word] = []
        fed: list[int] = []
        at, in_brackets = node.start_byte, node.children[0].type == "[["
        for leaf in operands_of(node):
            gap = self.source[at : leaf.start_byte]
            if not is_blank(gap) or b"\n" in gap.replace(b"\\\n", b"") or (words and not gap):
                self.unclear.append(f"the part {short(self.raw(node))!r}")
            at = leaf.end_byte
            if not leaf.is_named and re.search(r"[&|<>;()]", leaf.type) and not in_brackets:
                self.unclear.append(f"the part {short(self.raw(node))!r}")
            if leaf.type == "variable_assignment":
                _, inside = self._assignment(leaf)
                words.append(Word(self.raw(leaf), None))
            elif leaf.is_named or leaf.type in ("$",):
                word, inside = self.word(leaf)
                words.append(word)
            else:
                inside = []
                words.append(literal(self.raw(leaf)))
            fed += inside
        self.add(SimpleCommand(tuple(words)), fed)

    def _assignments_alone(self, node: tree_sitter.Node) -> None:
        self.check_gaps(node)
        parts = node.children if node.type == "variable_assignments" else [node]
        read = [self._assignment(part) for part in parts]
        self.add(
            SimpleCommand((), tuple(name for name, _ in read)), [n for _, inside in read for n in inside]
        )

    def _assignment(self, node: tree_sitter.Node, *, lasts: bool = True) -> tuple[str, list[int]]:
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        inside: list[int] = []
        if EVALUATED.fullmatch(self.raw(name) if name is not None else "") and re.search(
            r"\[.*[$`]", self.raw(node), re.DOTALL
        ):
            self.unclear.append(f"an index in {short(self.raw(node))!r}")
        if name is None or name.type != "variable_name" or not _ASSIGNMENT.match(self.raw(node)):
            self.unclear.append(f"the assignment {short(self.raw(node))!r}")
            inside += [number for child in node.children for number in self.expansions(child)]
            return (self.raw(name) if name is not None else "?"), inside
        if value is not None and value.type == "array":
            self.check_gaps(value)
            for child in value.children:
                if child.is_named:
                    inside += self.word(child)[1]
        else:
            word, inside = self.word(value) if value is not None else (literal(""), [])
            if lasts:
                is_whole = node.children[1].type == "="
                self.values.append((self.raw(name), word if is_whole else None))
        return self.raw(name), inside

    def _add_before_pipe(self, command: SimpleCommand, fed: list[int]) -> None:
        """Add a command; a here-document's pipe, which the grammar gives first, takes what it writes."""
        behind, self.behind = self.behind, []
        start = len(self.commands)
        self.add(command, fed)
        for number in behind:
            self._feed(number, [*fed, *range(start, len(self.commands))])

    def add(self, command: SimpleCommand, fed: list[int]) -> None:
        """Add a command, or what it runs in its place."""
        if len(self.commands) >= _MOST_COMMANDS:
            self.unclear.append(f"it has more than {_MOST_COMMANDS} commands")
            return
        command = replace(command, inputs=tuple(sorted(set(fed))))
        if command.words and command.name is None:
            self.unclear.append(f"which command {short(command.words[0].raw)!r} is")
        if command.name in _CHANGES_MEANING:
            self.unclear.append(f"what {command.name} changes")
        if command.name in _READING:
            named = [word.text for word in command.words[1:] if word.text and word.text.isidentifier()]
            self.values += [(name, None) for name in named]
        if command.name in _EVALUATING and any(
            "[" in w.raw and re.search(r"[$`]", w.raw) for w in command.words[1:]
        ):
            self.unclear.append(f"an index in an argument of {command.name}")
        found = unwrap(command)
        self.unclear += found.unclear
        for each in found.runs:
            if isinstance(each, Nested):
                numbers = self.script(each.script, each.via, self.nesting + 1)
                for number in numbers:
                    inner = self.commands[number]
                    self.commands[number] = replace(
                        inner, assignments=(*command.assignments, *inner.assignments)
                    )
                    self._feed(number, list(command.inputs))
                if command.redirections:
                    self.commands.append(SimpleCommand((), redirections=command.redirections))
            else:
                if each.name in _RESERVED:
                    # The grammar took a word of the syntax for a command; what follows is one.
                    self.unclear.append(f"the part {short(each.shown)!r}")
                    self.add(replace(each, words=each.words[1:]), fed)
                    continue
                self.commands.append(each)

    def _feed(self, number: int, inputs: list[int]) -> None:
        command = self.commands[number]
        self.commands[number] = replace(command, inputs=tuple(sorted({*command.inputs, *inputs} - {number})))
