"""The page of an SVG picture: how high everything is, from top to bottom."""

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.lab.pictures.lanes import Role
from holdfast.lab.pictures.sheet import Board, Stripe

PAD = 24.0
TITLE = 24.0
"""Of one line of the title."""
FLAG = 20.0
HEADING = 22.0
TAG = 18.0
CUT = 16.0
_SPACE = 9.0
_BAR = {Role.CLIENT: 24.0, Role.NODE: 17.0, Role.REGISTER: 0.0, Role.RUN: 0.0}
_BETWEEN_BARS = 4.0


@dataclass(frozen=True, slots=True)
class Shelf:
    """Where a lane is."""

    stripe: Stripe
    heading: str
    """What the lanes from here on are, if that is new."""
    top: float

    @property
    def bar_height(self) -> float:
        """Of one row of bars."""
        return _BAR[self.stripe.lane.role]

    def bar_top(self, row: int) -> float:
        """Where a row of bars begins."""
        return self.top + _SPACE + row * (self.bar_height + _BETWEEN_BARS)

    @property
    def bars_bottom(self) -> float:
        """Where the last row of bars ends. There is one, even if it is empty."""
        return self.bar_top(max(1, len(self.stripe.bars)) - 1) + self.bar_height

    @property
    def middle(self) -> float:
        """Of the first row: where the name stands."""
        if not self.bar_height:
            return self.tag_middle(0)
        return self.bar_top(0) + self.bar_height / 2

    def tag_middle(self, row: int) -> float:
        """The middle of a row of tags."""
        gap = 3 if self.bar_height else 0
        return self.bars_bottom + gap + (row + 0.5) * TAG

    def cut_middle(self, row: int) -> float:
        """The middle of a row of cuts."""
        return self.tag_middle(len(self.stripe.tags)) - TAG / 2 + (row + 0.5) * CUT

    @property
    def bottom(self) -> float:
        """Where the next lane begins."""
        return self.cut_middle(len(self.stripe.cuts)) - CUT / 2 + _SPACE - 3


def shelves(board: Board, top: float) -> Iterator[Shelf]:
    """Every lane, from here down."""
    role = None
    for stripe in board.stripes:
        new = stripe.lane.role is not role and stripe.lane.role is not Role.RUN
        role = stripe.lane.role
        shelf = Shelf(stripe, role.value if new else "", top + (HEADING if new else 0))
        yield shelf
        top = shelf.bottom
