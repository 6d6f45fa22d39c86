"""What is asked about a function between definitions and their use, and answers read from its syntax tree."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Excerpt:
    """One function of a file, lines ``first`` to ``last`` (inclusive, from 1)."""

    path: str
    first: int
    last: int
    owner: str | None
    """The class that it is a method of."""

    node: ast.FunctionDef | ast.AsyncFunctionDef

    @property
    def name(self) -> str:
        """As file segments are named."""
        return f"{self.path}:{self.first}-{self.last}"

    @property
    def function(self) -> str:
        """With its class."""
        return self.node.name if self.owner is None else f"{self.owner}.{self.node.name}"


Form = Callable[[Excerpt], tuple[str, str] | None]
"""Makes a prompt and an answer; None where it does not suit the function."""

_MOST_LISTED = 8
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def arguments(excerpt: Excerpt) -> tuple[str, str]:
    """What it takes and what it gives back."""
    prompt = (
        f"Here is `{excerpt.function}` from {excerpt.path}. "
        "Explain its arguments and their defaults, and say what it returns."
    )
    return prompt, _sentences(
        _takes(excerpt), _defaults(excerpt), _purpose(excerpt), _returns(excerpt), _size(excerpt)
    )


def failures(excerpt: Excerpt) -> tuple[str, str]:
    """What it raises, catches and calls."""
    prompt = (
        f"I am reading {excerpt.path}. Which exceptions can `{excerpt.function}` raise by itself, which does "
        "it handle, and what else does it call?"
    )
    return prompt, _sentences(
        _raises(excerpt), _catches(excerpt), _calls(excerpt), _returns(excerpt), _size(excerpt)
    )


def branches(excerpt: Excerpt) -> tuple[str, str]:
    """Its conditions and loops."""
    prompt = f"Walk me through the control flow of `{excerpt.function}`: conditions, loops, exits."
    tests = [_source(node.test) for node in _nodes(excerpt) if isinstance(node, ast.If | ast.IfExp)]
    loops = [
        f"`for {ast.unparse(node.target)} in {ast.unparse(node.iter)}`"
        for node in _nodes(excerpt)
        if isinstance(node, ast.For | ast.AsyncFor)
    ]
    loops += [f"`while {ast.unparse(node.test)}`" for node in _nodes(excerpt) if isinstance(node, ast.While)]
    conditions = (
        f"It tests {_count(tests, 'condition')}: {_listed(tests)}."
        if tests
        else "There is no condition in it; every call runs the same statements."
    )
    looping = f"It has {_count(loops, 'loop')}: {_listed(loops)}." if loops else "It does not loop."
    return prompt, _sentences(
        f"`{excerpt.function}` starts at line {excerpt.first} of the file.",
        conditions, looping, _returns(excerpt), _raises(excerpt),
    )  # fmt: skip


def types(excerpt: Excerpt) -> tuple[str, str] | None:
    """The function again, with the types that its defaults tell."""
    known = {
        argument.arg: kind
        for argument, default in _with_defaults(excerpt.node)
        if argument.annotation is None and (kind := _kind_of(default)) is not None
    }
    if not known:
        return None
    prompt = f"Add type annotations to `{excerpt.function}` as far as its defaults tell them."
    typed = copy.deepcopy(excerpt.node)
    for argument in _all_arguments(typed):
        if argument.arg in known:
            argument.annotation = ast.Name(known[argument.arg])
    told = _listed(f"`{name}` is `{kind}`" for name, kind in known.items())
    return prompt, "\n\n".join(
        (
            f"This is `{excerpt.function}` from {excerpt.path} with the types added:",
            f"```python\n{ast.unparse(ast.fix_missing_locations(typed))}\n```",
            f"The defaults tell {_count(list(known), 'type')}: {told}. Callers need no change.",
        )
    )


def docstring(excerpt: Excerpt) -> tuple[str, str]:
    """A docstring that lists arguments, result and exceptions."""
    prompt = f"Write a docstring for `{excerpt.function}` that a new colleague can understand."
    names = [argument.arg for argument in _arguments(excerpt)]
    defaults = {argument.arg: default for argument, default in _with_defaults(excerpt.node)}
    words = excerpt.node.name.strip("_").replace("_", " ") or excerpt.node.name
    where = f" of class {excerpt.owner}" if excerpt.owner else ""
    lines = [f'"""{words.capitalize()}{where}; see {excerpt.path}, line {excerpt.first}.', ""]
    if names:
        lines.append("Args:")
        for name in names:
            known = f"{ast.unparse(defaults[name])} if it is not given" if name in defaults else "required"
            lines.append(f"    {name}: {known}.")
        lines.append("")
    lines += ["Returns:", f"    {_plain(_returns(excerpt)).removeprefix('It returns ')}"]
    raised = _raised(excerpt)
    if raised:
        lines += ["", "Raises:", *(f"    {_plain(name)}: see the conditions in the body." for name in raised)]
    lines.append('"""')
    body = "\n".join(lines)
    return prompt, "\n\n".join(
        (
            f"Here is a docstring for `{excerpt.function}`. It says what a caller has to know and leaves out "
            "how the function works inside:",
            f"```python\n{body}\n```",
            _sentences(_calls(excerpt), _size(excerpt)),
        )
    )


FORMS: tuple[Form, ...] = (arguments, failures, branches, types, docstring)


def _sentences(*parts: str) -> str:
    return " ".join(part for part in parts if part)


def _nodes(excerpt: Excerpt) -> Iterator[ast.AST]:
    """All nodes of the function in the order of its text; not those of functions inside it."""
    waiting: list[ast.AST] = [excerpt.node]
    while waiting:
        node = waiting.pop()
        yield node
        inner = [] if isinstance(node, ast.Lambda | ast.ClassDef) else list(ast.iter_child_nodes(node))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node is not excerpt.node:
            inner = []
        waiting.extend(reversed(inner))


def _all_arguments(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.arg]:
    rest = [argument for argument in (node.args.vararg, node.args.kwarg) if argument is not None]
    return [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, *rest]


def _arguments(excerpt: Excerpt) -> list[ast.arg]:
    """Without the object that a method is called on."""
    found = _all_arguments(excerpt.node)
    return found[1:] if excerpt.owner and found and found[0].arg in ("self", "cls") else found


def _with_defaults(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[tuple[ast.arg, ast.expr]]:
    positional = [*node.args.posonlyargs, *node.args.args]
    defaulted = positional[len(positional) - len(node.args.defaults) :]
    pairs = list(zip(defaulted, node.args.defaults, strict=True))
    pairs += [
        (argument, default)
        for argument, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
        if default is not None
    ]
    return pairs


def _kind_of(default: ast.expr) -> str | None:
    if isinstance(default, ast.Constant) and default.value is not None and default.value is not ...:
        return type(default.value).__name__
    return {ast.Tuple: "tuple", ast.List: "list", ast.Dict: "dict"}.get(type(default))


def _takes(excerpt: Excerpt) -> str:
    names = [f"`{argument.arg}`" for argument in _arguments(excerpt)]
    if not names:
        beside = " beside the object itself" if excerpt.owner else ""
        return f"`{excerpt.function}` takes no arguments{beside}."
    return f"`{excerpt.function}` takes {_count(names, 'argument')}: {_listed(names)}."


def _defaults(excerpt: Excerpt) -> str:
    pairs = _with_defaults(excerpt.node)
    if not pairs:
        return "None of them has a default." if _arguments(excerpt) else ""
    return (
        "Not all of them must be given: "
        + _listed(f"`{argument.arg}` is {_source(default)}" for argument, default in pairs)
        + " by default."
    )


def _purpose(excerpt: Excerpt) -> str:
    said = ast.get_docstring(excerpt.node)
    if not said:
        return "It has no docstring, so its purpose has to be read from the body."
    first = " ".join(said.split("\n\n")[0].split()).rstrip(".")
    return f"Its docstring sums it up: {first[:240]}."


def _returns(excerpt: Excerpt) -> str:
    nodes = list(_nodes(excerpt))
    if any(isinstance(node, ast.Yield | ast.YieldFrom) for node in nodes):
        return "It is a generator: its values come one by one as the caller asks for them."
    values = _distinct(
        _source(node.value) for node in nodes if isinstance(node, ast.Return) and node.value is not None
    )
    if not values:
        return "It returns nothing of its own; what it does is its effect on the objects that it touches."
    if len(values) == 1:
        return f"It returns {values[0]}."
    return f"What it returns depends on the path taken: {_listed(values)}."


def _raised(excerpt: Excerpt) -> list[str]:
    raised = []
    for node in _nodes(excerpt):
        if isinstance(node, ast.Raise) and node.exc is not None:
            raised.append(_source(node.exc.func if isinstance(node.exc, ast.Call) else node.exc))
    return _distinct(raised)


def _raises(excerpt: Excerpt) -> str:
    raised = _raised(excerpt)
    if raised:
        return f"By itself it raises {_listed(raised)}."
    return "It raises no exception by itself, but whatever it calls may do so."


def _catches(excerpt: Excerpt) -> str:
    caught = _distinct(
        _source(node.type)
        for node in _nodes(excerpt)
        if isinstance(node, ast.ExceptHandler) and node.type is not None
    )
    if caught:
        return f"It handles {_listed(caught)}."
    return "It handles none: every exception reaches the caller."


def _calls(excerpt: Excerpt) -> str:
    called = _distinct(_source(node.func) for node in _nodes(excerpt) if isinstance(node, ast.Call))
    if not called:
        return "It calls nothing else."
    return f"It makes use of {_listed(called)}."


def _size(excerpt: Excerpt) -> str:
    lines = excerpt.last - excerpt.first + 1
    return f"With its header it is {lines} lines long, from line {excerpt.first} to line {excerpt.last}."


def _source(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return f"`{text}`" if len(text) <= 80 else f"`{text[:76].rstrip()} ...`"


def _plain(text: str) -> str:
    return text.replace("`", "").replace('"""', "'''")


def _distinct(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))


def _count(things: list[str], noun: str) -> str:
    number = len(things)
    word = _NUMBERS[number] if number < len(_NUMBERS) else str(number)
    return f"{word} {noun}" if number == 1 else f"{word} {noun}s"


def _listed(texts: Iterable[str]) -> str:
    items = list(texts)
    rest = len(items) - _MOST_LISTED
    if rest > 1:
        items = [*items[:_MOST_LISTED], f"{rest} more"]
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"
