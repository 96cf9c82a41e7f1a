"""Pictures of what happened: a history as a timeline, in the terminal and as SVG.

lanes.py      what is shown: spans and marks in seconds, a lane for each client, register and node
layout.py     where it goes, in columns; `sheet.py` has the axis and the pieces
text.py       draws it in characters; `svg.py` makes one file of these
sentences.py  an event in words
"""

from holdfast.lab.pictures.svg import as_svg
from holdfast.lab.pictures.text import as_text

__all__ = ["as_svg", "as_text"]
