"""What a legend must explain: only what occurs in the picture."""

from holdfast.lab.pictures.lanes import Look, Symbol
from holdfast.lab.pictures.sheet import Board


def looks_in(board: Board) -> list[Look]:
    """The sorts of spans that occur."""
    found = {
        bar.span.look
        for stripe in board.stripes
        for bars in (*stripe.bars, stripe.veils, *stripe.cuts)
        for bar in bars
    }
    return [look for look in Look if look in found]


def symbols_in(board: Board) -> list[Symbol]:
    """The sorts of marks that occur, except for what a span explains already."""
    tags = (tag for stripe in board.stripes for row in stripe.tags for tag in row)
    found = {tag.mark.symbol for tag in tags}
    explained = {look.value for look in looks_in(board)}
    return [symbol for symbol in Symbol if symbol in found and symbol.value not in explained]


def are_extended(board: Board) -> bool:
    """Whether anything was extended."""
    bars = (bar for stripe in board.stripes for row in stripe.bars for bar in row)
    return any(bar.notches for bar in bars)
