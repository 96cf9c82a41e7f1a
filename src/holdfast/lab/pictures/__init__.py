"""Pictures of what happened: a history as a timeline, in the terminal and as SVG.

lanes.py      what is shown: spans and marks in seconds, a lane for each client, register and node
chart.py      draws it in characters
text.py       the chart with its legend and what was found, and events as they happen
svg.py        the chart as a file
sentences.py  an event in words
"""

from holdfast.lab.pictures.svg import as_svg
from holdfast.lab.pictures.text import as_text

__all__ = ["as_svg", "as_text"]
