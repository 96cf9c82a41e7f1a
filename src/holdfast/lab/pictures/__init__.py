"""Pictures of what happened: a history as a timeline, in SVG and in the terminal."""

from holdfast.lab.pictures.svg import as_svg
from holdfast.lab.pictures.text import as_text

__all__ = ["as_svg", "as_text"]
