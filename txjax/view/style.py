"""The one style of all figures: colours that the colour-blind tell apart, text as text, lines in the page's own ink."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

# Okabe and Ito's colours, which people with any of the common colour blindnesses tell apart; readable on white and on
# near-black. Markers differ too, for print.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a6d5c", "#7f7f7f")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "h")
INK = "#1f2328"  # becomes the colour of the text around the figure
WIDTH = 4.6  # inches: on a phone, a point of it is a pixel
ROOT = re.compile(r"<svg\b[^>]*>")

_SETTINGS = {
    "svg.fonttype": "none",  # text stays text: it can be found, copied and read aloud
    "svg.hashsalt": "txjax",  # the same figure is the same file
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "text.parse_math": False,  # a dollar in a name is a dollar
    "axes.formatter.use_mathtext": False,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": INK,
    "grid.alpha": 0.12,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.linewidth": 1.6,
    "lines.markersize": 5,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
}


@contextmanager
def sheet(height: float, rows: int = 1, columns: int = 1, **grid: Any) -> Iterator[tuple[Any, list[Any]]]:
    """A figure and its axes, row by row, in the house's style."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_SETTINGS):  # type: ignore[arg-type]
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        yield figure, list(figure.subplots(rows, columns, squeeze=False, **grid).flat)


def svg(figure: Any, name: str) -> str:
    """The figure as an <svg> element to stand in a page: no prologue, ids that start with its name, ink of the page."""
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = file.getvalue()
    text = text[text.index("<svg") :].strip()
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'(\bid="|url\(#|xlink:href="#)', rf"\g<1>{name}-", text)
    text = text.replace("'DejaVu Sans'", "system-ui, Helvetica, Arial, 'DejaVu Sans', sans-serif")
    text = text.replace(INK, "currentColor")
    width, height = (re.search(rf'\b{side}="([\d.]+)pt"', text) for side in ("width", "height"))
    assert width and height
    size = f'viewBox="0 0 {width[1]} {height[1]}"'
    return ROOT.sub(
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" {size} role="img">',
        text,
        count=1,
    )


def standalone(element: str) -> str:
    """The element as a file: on a ground of its own, since it cannot know where it will be shown."""
    root = ROOT.match(element)
    assert root is not None
    size = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', root[0])
    assert size is not None
    ground = '<rect width="100%" height="100%" rx="6" fill="#ffffff"/>'
    opened = root[0][:-1] + f' width="{size[1]}pt" height="{size[2]}pt" color="{INK}">'
    return f'<?xml version="1.0" encoding="utf-8"?>\n{opened}\n{ground}{element[root.end() :]}\n'


def log_scale(axes: Any) -> None:
    """A logarithmic y axis with ticks in plain figures: powers would be set as mathematics, which is off."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    axes.set_yscale("log")
    low, high = axes.get_ylim()
    plain = FuncFormatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_major_formatter(plain)
    axes.yaxis.set_minor_formatter(NullFormatter())
    if high < 3 * low:
        axes.yaxis.set_major_locator(MaxNLocator(5))
    elif high < 100 * low:  # hardly two powers of ten
        axes.yaxis.set_minor_locator(LogLocator(subs=(2.0, 5.0)))
        axes.yaxis.set_minor_formatter(plain)


def colour(index: int) -> str:
    return COLOURS[index % len(COLOURS)]


def marker(index: int) -> str:
    return MARKERS[index % len(MARKERS)]


def shortened(text: str, length: int) -> str:
    """On one line, and not longer; the middle goes, since names differ at both ends."""
    text = " ".join(text.split())
    if len(text) <= length:
        return text
    head = (length - 1) * 2 // 3
    return f"{text[:head]}…{text[-(length - 1 - head) :]}"


def finite(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None and math.isfinite(value)]


def legend(figure: Any, axes: Any, columns: int = 2) -> None:
    """Under the axes, where it covers nothing."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        figure.legend(handles, [shortened(label, 34) for label in labels], loc="outside lower left", ncols=columns)
