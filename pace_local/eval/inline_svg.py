"""A plot as SVG that stands inline in a page, in the page's own font and colours."""

from __future__ import annotations

import io
import re

from matplotlib.figure import Figure

from pace_local.eval.chart import Chart
from pace_local.eval.plot_style import INK, PALETTE, style
from pace_local.eval.plots import draw


def inline_svg(chart: Chart) -> str:
    """A chart as an ``svg`` element that refers to nothing outside itself; equal charts give equal text."""
    return _inline(_document(draw(chart)), chart.name)


def _document(figure: Figure) -> str:
    """A document of its own, with matplotlib's metadata but for the date."""
    text = io.StringIO()
    with style():
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    return text.getvalue()


def _inline(document: str, name: str) -> str:
    """The element alone, with identifiers of its own, sized and coloured by the page."""
    text = document[document.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>|<style\b.*?</style>", "", text, flags=re.DOTALL)
    root, rest = text.split(">", 1)
    box = re.search(r'viewBox="[^"]*"', root)
    assert box is not None
    used = set(re.findall(r'(?:xlink:href="|url\()#([^")]+)', rest))

    def identifier(found: re.Match[str]) -> str:
        return f' id="{name}-{found[1]}"' if found[1] in used else ""

    def tag(found: re.Match[str]) -> str:
        text = re.sub(r' id="([^"]*)"', identifier, found[0])
        text = re.sub(r'xlink:href="#', f'href="#{name}-', text).replace("url(#", f"url(#{name}-")
        text = re.sub(r"font-family:[^;\"]*(?:; )?", "", text)
        text = re.sub(r"(\d+\.\d\d)\d+", r"\1", text).replace(INK, "currentColor")
        for number, colour in enumerate(PALETTE):
            text = text.replace(colour, f"var(--c{number}, {colour})")
        return re.sub(r"\s+", " ", text)

    body = re.sub(r"<[^>]+>", tag, rest)
    body = re.sub(r"\n\s*", "\n", body).strip()
    return f"<svg {box[0]}>{body}"
