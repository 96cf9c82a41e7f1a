"""SVG by hand: elements, the width of texts, colours, and the symbols."""

from html import escape

from holdfast.lab.pictures.lanes import Symbol

SIZE = 12.0
"""Of most texts, in pixels."""
NAME_SIZE, TITLE_SIZE = 13.0, 18.0

# As wide as in the widest of the fonts that may be taken, so that texts never meet.
_NARROW, _WIDE = frozenset(" .,:;'|!iljftIr()[]·"), frozenset("mwMW@%—→…")
_WIDTHS = {"narrow": 0.42, "usual": 0.64, "wide": 0.98, "full": 1.1}

TINTS = ("#2f6fde", "#b8620b", "#0f8a83", "#8250df", "#66761a", "#bf3989", "#1b7fa8", "#7a5c3e")
"""A colour for a client. Red is for what went wrong."""

STYLE = """
.timeline text{font:12px system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif;fill:#1f2328}
.timeline .title{font-size:18px;font-weight:650}
.timeline .group{font-size:10px;letter-spacing:.08em;fill:#818b98}
.timeline .who{font-size:13px;font-weight:600}
.timeline .soft{fill:#59636e}
.timeline .halo{paint-order:stroke;stroke:#fff;stroke-width:3px;stroke-linejoin:round}
.timeline .in{fill:#fff;font-weight:600}
.timeline .wrong{color:#d1242f;fill:#d1242f}
.timeline .card{fill:#fff;stroke:#d1d9e0}
.timeline .grid{stroke:#d1d9e0;stroke-opacity:.55}
.timeline .axis{stroke:#818b98}
.timeline .ink{color:#59636e}
.timeline .fill{fill:currentColor}
.timeline .line{fill:none;stroke:currentColor;stroke-width:2}
.timeline .line{stroke-linecap:round;stroke-linejoin:round}
.timeline .wait{opacity:.5}
.timeline .thin{stroke-width:1;opacity:.45}
.timeline .cut{stroke-width:1.5;stroke-dasharray:1 4}
.timeline .notch{stroke:#fff;stroke-opacity:.75;stroke-width:1.5}
.timeline .veil{fill:#fff;fill-opacity:.45}
.timeline .hatched{fill:url(#hatch)}
.timeline .hatch{stroke:#1f2328;stroke-opacity:.5;stroke-width:1.5}
.timeline .down{fill:#59636e;fill-opacity:.16;stroke:#59636e;stroke-opacity:.6;stroke-dasharray:3 3}
.timeline .band{fill:#d1242f;fill-opacity:.13}
.timeline .breach{stroke:#d1242f;stroke-opacity:.8;stroke-width:2}
.timeline .breached{fill:url(#breach)}
.timeline .edge{stroke:#d1242f;stroke-opacity:.7;stroke-dasharray:2 3}
""" + "".join(f".timeline .c{number}{{color:{tint}}}\n" for number, tint in enumerate(TINTS))

DARK = """
.timeline text{fill:#e6edf3}
.timeline .soft{fill:#9198a1}
.timeline .in{fill:#fff}
.timeline .halo{stroke:#0d1117}
.timeline .card{fill:#0d1117;stroke:#3d444d}
.timeline .grid{stroke:#3d444d}
.timeline .ink{color:#9198a1}
.timeline .wrong{color:#f85149;fill:#f85149}
.timeline .band{fill:#f85149;fill-opacity:.2}
.timeline .breach{stroke:#f85149}
.timeline .edge{stroke:#f85149}
.timeline .veil{fill:#0d1117}
.timeline .hatched{fill:url(#hatch)}
.timeline .hatch{stroke:#e6edf3}
"""

PATTERNS = (
    '<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" '
    'patternTransform="rotate(45)"><rect width="6" height="6" class="veil"/>'
    '<line x1="0" y1="0" x2="0" y2="6" class="hatch"/></pattern>'
    '<pattern id="breach" width="8" height="8" patternUnits="userSpaceOnUse" '
    'patternTransform="rotate(-45)"><rect width="8" height="8" class="band"/>'
    '<line x1="0" y1="0" x2="0" y2="8" class="breach"/></pattern></defs>'
)

_CIRCLE = "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0"
_SYMBOLS = {
    Symbol.REFUSED: ("line", "M-3.5 -3.5H3.5V3.5H-3.5Z"),
    Symbol.LOST: ("fill", "M0 -5.5L5.5 0L0 5.5L-5.5 0Z"),
    Symbol.WROTE: ("fill", _CIRCLE),
    Symbol.REJECTED: ("line", f"{_CIRCLE}M-3.2 3.2L3.2 -3.2"),
    Symbol.PAUSED: ("line", "M-2.5 -4V4M2.5 -4V4"),
    Symbol.CRASHED: ("line", "M-4 -4L4 4M4 -4L-4 4"),
    Symbol.STARTED: ("fill", "M-3.5 -5L5 0L-3.5 5Z"),
    Symbol.HEALED: ("line", "M-4.5 0L-1 3.5L4.5 -3.5"),
    Symbol.JUMPED: ("line", f"{_CIRCLE}M0 -2.5V0L2 1.5"),
    Symbol.NOTED: ("fill", "M-3 0a3 3 0 1 0 6 0a3 3 0 1 0 -6 0"),
}


def measure(text: str, size: float = SIZE) -> float:
    """The width of a text in pixels: rather too much than too little."""
    return size * sum(_WIDTHS[_sort(character)] for character in text)


def _sort(character: str) -> str:
    if character in _NARROW:
        return "narrow"
    if character in _WIDE:
        return "wide"
    return "usual" if character < "\u2e80" else "full"


def wrap(text: str, room: float, size: float = SIZE) -> list[str]:
    """A text in lines."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and measure(longer, size) > room:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def element(name: str, *content: str, **attributes: str | float) -> str:
    """An element. A trailing `_` of an attribute is dropped, other ones are hyphens."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_value(value))}"'
        for key, value in attributes.items()
    )
    inside = "".join(content)
    return f"<{name}{written}>{inside}</{name}>" if inside else f"<{name}{written}/>"


def _value(value: str | float) -> str:
    return value if isinstance(value, str) else f"{round(value, 1):g}"


def text(content: str, x: float, y: float, class_: str = "", **attributes: str | float) -> str:
    """A line of text, its base line at y."""
    dress = {"class_": class_} if class_ else {}
    return element("text", escape(content), x=x, y=y, **dress, **attributes)


def line(x: float, y: float, end: float, bottom: float, class_: str) -> str:
    """A line from x, y to end, bottom."""
    return element("line", x1=x, y1=y, x2=end, y2=bottom, class_=class_)


def box(
    x: float, y: float, end: float, bottom: float, class_: str, tip: str = "", rx: float = 0
) -> str:
    """A box from x, y to end, bottom, with a text that shows when it is pointed at."""
    inside = (element("title", escape(tip)),) if tip else ()
    size = {"width": end - x, "height": bottom - y}
    return element("rect", *inside, x=x, y=y, **size, rx=rx, class_=class_)


def symbol(which: Symbol, x: float, y: float, class_: str, tip: str = "") -> str:
    """A symbol around x, y."""
    dress, path = _SYMBOLS[which]
    inside = (element("title", escape(tip)),) if tip else ()
    place = f"translate({_value(x)} {_value(y)})"
    return element("path", *inside, d=path, transform=place, class_=f"{dress} {class_}")


def tint(number: int | None) -> str:
    """The class of a client's colour."""
    return "ink" if number is None else f"c{number % len(TINTS)}"
