"""The plan that the machine makes where a model writes none, or none that can be used.

It looks at what a prompt is about and at what the repository holds: a renaming is one step for each place; a
failing test is worked on where its traceback leads; a new option where others are declared, then where they
are used; all else is one step with what the prompt names.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pace_agent.checking.failures import FailurePlace
from pace_agent.editing.new_files import new_files
from pace_agent.planning.intent import (
    is_about_failures,
    is_about_option,
    is_question,
    is_repair,
    options_in,
    rename_in,
)
from pace_agent.planning.planned_step import PlannedStep
from pace_agent.repository.file_facts import Place, is_code
from pace_agent.repository.index import RepositoryIndex
from pace_agent.repository.option_places import option_places
from pace_agent.repository.path_names import is_test
from pace_agent.repository.references import References, references, without_data
from pace_agent.repository.rename_places import rename_places
from pace_agent.repository.used_definitions import used_by

_MOST_RENAMED = 24
"""Steps of a renaming; if it takes more, there is one for each file."""
_MOST_REPAIRS = 3
_MOST_READS = 6


def machine_plan(
    prompt: str, index: RepositoryIndex, failures: Sequence[FailurePlace] = ()
) -> tuple[PlannedStep, ...]:
    """Steps for a task.

    Args:
        prompt: what the user asked for.
        index: of the repository.
        failures: what the check says is wrong now, failure by failure, each from the outermost call to the
            innermost.

    Returns:
        At least one step.
    """
    with index.within():
        named = references(prompt, index)
        plain = without_data(prompt)
        if is_question(plain):
            return (_plain(prompt, named, index, edits=False),)
        steps = _renaming(plain, index)
        if not steps and (failures or named.lines or named.tests) and is_about_failures(plain):
            steps = _repairs(named, failures, index)
        if not steps and is_about_option(plain):
            steps = _option(plain, named, index)
        asked = [one for one in named.symbols if not _is_on_line(one, named)]
        if not steps and not asked and (failures or named.lines) and is_repair(plain):
            steps = _repairs(named, failures, index)
        return tuple(steps) or (_plain(prompt, named, index, edits=True),)


def _is_on_line(place: Place, named: References) -> bool:
    """Whether a definition was found by a line that was named, as those of a traceback are."""
    return any(path == place.path and place.first <= line <= place.last for path, line in named.lines)


def _plain(prompt: str, named: References, index: RepositoryIndex, *, edits: bool) -> PlannedStep:
    """One step with what the prompt names; what only serves as an example is read and not changed."""
    if not edits:
        return PlannedStep(prompt.strip(), named.paths, _names(named.symbols), edits=False)
    own = [one for one in named.symbols if not is_test(one.path)] or list(named.symbols or named.likely)
    inside = {one.path for one in own}
    files = [path for path in named.paths if path not in inside]
    if own:  # a file beside a definition is changed if it is code, unless it is a test of it
        reads = [path for path in files if is_test(path) or not is_code(path, "")]
    else:
        code = [path for path in files if is_code(path, "")]
        reads = [path for path in files if code and path not in code]
    others = [one.name for one in named.symbols if one not in own]
    made = new_files(prompt, index)
    return PlannedStep(
        prompt.strip(),
        (*dict.fromkeys(one.path for one in own), *(path for path in files if path not in reads), *made),
        _names(own),
        reads=tuple(dict.fromkeys([*reads, *others]))[:_MOST_READS],
        at_lines=_at_lines(own, index),
    )


def _names(places: Sequence[Place]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.name for one in places if one.symbol))


def _at_lines(places: Sequence[Place], index: RepositoryIndex) -> tuple[tuple[str, int], ...]:
    """First lines of places that are one of several definitions of their name in their file."""
    found = []
    for name in _names(places):
        meant = [one for one in places if one.name == name]
        facts = index.facts_of(meant[0].path)
        there = [one for one in facts.definitions if one.symbol == meant[0].symbol] if facts else []
        if len(meant) == 1 and len(there) > 1:
            found.append((name, meant[0].first))
    return tuple(found)


# Renaming


def _renaming(prompt: str, index: RepositoryIndex) -> list[PlannedStep]:
    """One step for the definition, one for each other that uses it, one for the other lines of each file."""
    rename = rename_in(prompt)
    found = rename_places(rename, index) if rename else None
    if rename is None or found is None:
        return []
    old, new = found.old, rename.new
    steps = [
        PlannedStep(
            f"Rename `{one.symbol}` to `{new}` where it is defined, in {one.path}, and in its own text",
            (one.path,),
            (one.name,),
        )
        for one in found.definitions
    ]
    lines: dict[str, list[Place]] = {}
    for user in found.users:
        if user.symbol:
            text = f"Use `{new}` in the place of `{old}` in `{user.symbol}`, in {user.path}"
            at_lines = _at_lines([user], index)
            steps.append(PlannedStep(text, (user.path,), (user.name,), old_name=old, at_lines=at_lines))
        else:
            lines.setdefault(user.path, []).append(user)
    for path, places in lines.items():
        text = f"Use `{new}` in the place of `{old}` in {path}, outside of its definitions"
        reads = tuple(f"{path}:{one.first}-{one.last}" for one in places)
        steps.append(PlannedStep(text, (path,), reads=reads, old_name=old))
    steps = list(dict.fromkeys(steps))
    if len(steps) <= _MOST_RENAMED:
        return steps
    own = {one.name for one in found.definitions}
    definitions = [step for step in steps if own & set(step.symbols)]
    by_file = dict.fromkeys(path for step in steps if step not in definitions for path in step.files)
    return [
        *definitions,
        *(
            PlannedStep(f"Use `{new}` in the place of `{old}` everywhere in {path}", (path,), old_name=old)
            for path in by_file
        ),
    ]


# Failures


def _repairs(
    named: References, failures: Sequence[FailurePlace], index: RepositoryIndex
) -> list[PlannedStep]:
    """One step for each place that is likely at fault, the innermost of each failure outside of tests."""
    groups = _by_failure(failures) or _by_failure(
        [FailurePlace(path, line, None, "") for path, line in named.lines]
    )
    tests = [place for test in named.tests for place in _test_definition(test, index)]
    if tests and not groups:
        groups = [[FailurePlace(one.path, one.first, one.symbol, "") for one in tests[:1]]]
    steps: dict[str, PlannedStep] = {}
    for group in groups:
        suspects, around = _suspects(group, index)
        message = next((one.message for one in reversed(group) if one.message), "")
        for place in suspects[:1]:
            test = next((one.symbol for one in around if one.symbol), "")
            what = f"Make `{test}` pass" if test else "Put right what fails"
            said = f": {message}" if message else ""
            reads = (*_names(around), *_names(suspects[1:]))
            where = (
                f"`{place.symbol}`, in {place.path}"
                if place.symbol
                else f"line {place.first} of {place.path}"
            )
            text = f"{what}{said}. The likely place is {where}"
            step = PlannedStep(
                text,
                (place.path,),
                _names([place]),
                reads=tuple(dict.fromkeys(reads)),
                at_lines=_at_lines([place], index),
            )
            steps.setdefault(place.name, step)
    found = list(steps.values())
    return found[:_MOST_REPAIRS]


def _by_failure(places: Sequence[FailurePlace]) -> list[list[FailurePlace]]:
    """Places of each failure: the one with a message is the last of it."""
    groups: list[list[FailurePlace]] = [[]]
    for place in places:
        groups[-1].append(place)
        if place.message:
            groups.append([])
    return [group for group in groups if group]


def _test_definition(test: str, index: RepositoryIndex) -> tuple[Place, ...]:
    path, _, name = test.partition("::")
    return index.definitions_of(f"{path}:{name.partition('[')[0].replace('::', '.')}")


def _suspects(group: Sequence[FailurePlace], index: RepositoryIndex) -> tuple[list[Place], list[Place]]:
    """Definitions that may be at fault, the likeliest first, and those of tests around the failure.

    Where all of a failure lies in tests, as it does where a result is wrong, it is what the test uses.
    """
    inner: list[Place] = []
    tests: list[Place] = []
    for one in reversed(group):
        if one.path not in index:
            continue
        place = index.definition_at(one.path, one.line) or Place(one.path, "", one.line, one.line, "lines")
        (tests if is_test(one.path) else inner).append(place)
    if not inner:
        used = used_by([place for place in tests if place.symbol], index, 4 * _MOST_READS)
        inner = [
            use.place
            for use in sorted(used, key=lambda use: use.place.kind != "function")
            if not is_test(use.place.path) and use.place.kind in ("function", "type")
        ]
    return list(dict.fromkeys(inner))[:_MOST_READS], list(dict.fromkeys(tests))


# Options


def _is_meant(name: str, prompt: str) -> bool:
    """Whether a prompt surely means code by a name, and not the thing that is called so."""
    marked = rf"[`'\"]{re.escape(name)}[`'\"(]|\b{re.escape(name)}\(|[.:]{re.escape(name)}\b"
    return not name.isalpha() or not name.islower() or re.search(marked, prompt) is not None


def _option(prompt: str, named: References, index: RepositoryIndex) -> list[PlannedStep]:
    """Where options are declared, then what uses them: what the prompt names, or the likeliest."""
    hints = [*named.paths, *(one.name for one in named.symbols), *(one.symbol for one in named.symbols)]
    hints += [one.path for one in named.symbols]
    hints += [word for word in named.quoted if word not in options_in(prompt)]
    found = option_places(index, hints)
    if found is None:
        return []
    option = next(iter(options_in(prompt)), "")
    called = f"the option `{option}`" if option else "the option"
    where = (
        f"`{found.declared.symbol}` in {found.declared.path}"
        if found.declared.symbol
        else found.declared.path
    )
    named_users = [
        one
        for one in named.symbols
        if one != found.declared
        and not is_test(one.path)
        and one.kind == "function"
        and _is_meant(one.leaf, prompt)
    ]
    users = named_users or list(found.used[:1])
    others = tuple(one.name for one in [*found.used, *found.others] if one.symbol and one not in users)
    first = PlannedStep(
        f"Declare {called} ({found.library}) in {where}",
        (found.declared.path,),
        _names([found.declared]),
        reads=_names(users),
    )
    steps = [
        PlannedStep(
            f"Use {called} in `{one.symbol}`, in {one.path}",
            (one.path,),
            (one.name,),
            reads=(*_names([found.declared]), *others[:2]),
        )
        for one in users
    ]
    return [first, *steps]
