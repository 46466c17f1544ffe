"""A plot as SVG text: lines over seconds, one panel below the other, nothing to install."""

from collections.abc import Mapping, Sequence
from html import escape

WIDTH, HEIGHT, LEFT, TOP, GAP = 900, 150, 70, 30, 45
COLOURS = ("#1b6ca8", "#c0392b", "#2e8b57", "#8e44ad")

Series = Mapping[str, Sequence[tuple[float, float]]]
"""Points (second, value) by name."""


def svg(title: str, panels: Mapping[str, Series], marks: Mapping[float, str]) -> str:
    """Draw each panel's series; `marks` names moments, drawn through all panels."""
    whole = TOP + len(panels) * (HEIGHT + GAP)
    lines = [line for panel in panels.values() for line in panel.values()]
    last = max((x for line in lines for x, _ in line), default=1)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH + LEFT + 20} {whole}"'
        ' font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{LEFT}" y="18">{escape(title)}</text>',
    ]
    for place, (name, series) in enumerate(panels.items()):
        parts += _panel(name, series, TOP + 15 + place * (HEIGHT + GAP), last or 1)
    for number, (second, label) in enumerate(sorted(marks.items())):
        x = LEFT + second / (last or 1) * WIDTH
        parts.append(
            f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{whole - 20}" stroke="#bbb"/>'
            f'<text x="{x + 2:.1f}" y="{whole - 18 + 10 * (number % 2)}" font-size="9">'
            f"{escape(label)}</text>"
        )
    return "\n".join([*parts, "</svg>\n"])


def _panel(name: str, series: Series, top: float, last: float) -> list[str]:
    highest = max((y for line in series.values() for _, y in line), default=1) or 1
    bottom = top + HEIGHT
    parts = [
        f'<line x1="{LEFT}" y1="{bottom}" x2="{LEFT + WIDTH}" y2="{bottom}" stroke="#333"/>',
        f'<text x="{LEFT - 6}" y="{top + 10}" text-anchor="end">{highest:g}</text>',
        f'<text x="{LEFT - 6}" y="{bottom}" text-anchor="end">0</text>',
        f'<text x="{LEFT + WIDTH}" y="{bottom + 13}" text-anchor="end">{last:g} s</text>',
    ]
    x = LEFT + 4.0
    for colour, (label, line) in zip(COLOURS, series.items(), strict=False):
        points = " ".join(
            f"{LEFT + second / last * WIDTH:.1f},{bottom - value / highest * HEIGHT:.1f}"
            for second, value in line
        )
        text = f"{name}: {label}" if label else name
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}"/>')
        parts.append(f'<text x="{x:.0f}" y="{top - 3}" fill="{colour}">{escape(text)}</text>')
        x += 8 * len(text) + 16
    return parts
