"""A page of HTML, and text of others in it: what a model wrote may not become markup, nor hide."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterable, Sequence

_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Kinds of characters that are not seen, that turn others around, or that no file in UTF-8 can hold."""

_STYLE = """\
:root { color-scheme: light dark; --ink: #1d2125; --paper: #fff; --soft: #5c6670; --rule: #d5dade;
  --c0: #0072b2; --c1: #c65500; --c2: #00825f; --c3: #b4528c; --c4: #b07900; --c5: #2c8cc4; --c6: #7d6030;
  --c7: #882255; --c8: #6a51c4 }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e7ea; --paper: #15181b; --soft: #9aa4ad; --rule: #3a4147;
    --c0: #4ba3dc; --c1: #f0813a; --c2: #2ec495; --c3: #dd92bb; --c4: #e9ad2c; --c5: #86caf0; --c6: #bf9d63;
    --c7: #d0679c; --c8: #a391ea } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0 auto;
  padding: 1rem 1.25rem 4rem; max-width: 62rem }
h1, h2, h3 { line-height: 1.25; text-wrap: balance }
h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--rule) }
figure { margin: 1.5rem 0 2rem }
figcaption, .note, summary small { color: var(--soft) }
figcaption strong { color: var(--ink) }
svg { display: block; width: 100%; height: auto; font-family: inherit }
svg * { stroke-linejoin: round; stroke-linecap: butt }
.wide { overflow-x: auto }
table { border-collapse: collapse; font-size: .875rem; margin: .75rem 0 }
th, td { padding: .25rem .6rem; border-bottom: 1px solid var(--rule); text-align: left; vertical-align: top;
  font-variant-numeric: tabular-nums }
thead th { vertical-align: bottom }
td small { color: var(--soft); white-space: nowrap }
details { margin: .4rem 0 }
details.probe { border: 1px solid var(--rule); border-radius: .4rem; padding: .4rem .8rem }
summary { cursor: pointer }
pre, code { font: .85em/1.45 ui-monospace, monospace; overflow-wrap: anywhere }
pre { border-left: 3px solid var(--rule); padding: .4rem .8rem; white-space: pre-wrap; tab-size: 4 }
"""


def page(title: str, body: Iterable[str]) -> str:
    """The whole page.

    Args:
        title: as HTML.
        body: its elements, line by line.
    """
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            # Nothing of what a model wrote can run or be loaded, even if it were taken for markup.
            '<meta http-equiv="Content-Security-Policy" '
            "content=\"default-src 'none'; style-src 'unsafe-inline'\">",
            f"<title>{title}</title>",
            f"<style>\n{_STYLE}</style>",
            "</head>",
            "<body>",
            *body,
            "</body>",
            "</html>",
            "",
        ]
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Of cells that are HTML already; the first of a row names it."""
    lines = ['<div class="wide"><table>', "<thead><tr>"]
    lines += [*(f'<th scope="col">{each}</th>' for each in head), "</tr></thead>", "<tbody>"]
    for first, *others in rows:
        cells = "".join(f"<td>{each}</td>" for each in others)
        lines.append(f'<tr><th scope="row">{first}</th>{cells}</tr>')
    return "\n".join([*lines, "</tbody>", "</table></div>"])


def without_empty(head: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[list[str], list[list[str]]]:
    """Without columns that no row has anything in."""
    kept = [number for number in range(len(head)) if any(row[number] for row in rows)]
    return [head[number] for number in kept], [[row[number] for number in kept] for row in rows]


def visible(text: str) -> str:
    r"""The text with escapes such as ``\x1b`` for characters that are not seen; lines and tabs stay."""
    return "".join(
        _escape(letter) if letter not in "\n\t" and unicodedata.category(letter) in _HIDDEN else letter
        for letter in text
    )


def escaped(value: object) -> str:
    """As text for a page, in an element or a quoted attribute."""
    return html.escape(visible(str(value)))


def from_markdown(line: str) -> str:
    """One line of our own Markdown: code in single backticks, and bold words outside of it."""
    parts = re.split(r"`([^`]*)`", line)
    return "".join(
        f"<code>{escaped(part)}</code>"
        if number % 2
        else re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", escaped(part))
        for number, part in enumerate(parts)
    )


def elements(markdown: Iterable[str]) -> list[str]:
    """Lines of our own Markdown: headings of level three, tables, items, and paragraphs of a line."""
    lines: list[str] = []
    rows: list[list[str]] = []
    for line in [*markdown, ""]:
        if line.startswith("|"):
            rows.append([from_markdown(cell.strip()) for cell in line.strip("|").split("|")])
            continue
        if rows:
            head, _, *others = rows
            lines.append(table(head, others))
            rows = []
        if line.startswith("### "):
            lines.append(f"<h3>{from_markdown(line[4:])}</h3>")
        elif line.startswith("- "):
            before = lines.pop().removesuffix("</ul>") if lines and lines[-1].endswith("</ul>") else "<ul>"
            lines.append(f"{before}<li>{from_markdown(line[2:])}</li></ul>")
        elif line:
            lines.append(f"<p>{from_markdown(line)}</p>")
    return lines


def _escape(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")
