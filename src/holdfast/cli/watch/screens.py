"""What opens over the table: one lock, the servers, and the question before it is broken."""

from __future__ import annotations

import time
from math import inf
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Footer, Input, Static

from holdfast import Finding, NodeInfo
from holdfast.breaking import LIMITS, LONGEST_REASON
from holdfast.cli.console import duration, time_left
from holdfast.cli.operate import facts_of
from holdfast.cli.options import describe_holder
from holdfast.cli.watch.table import Row
from holdfast.monitor import Watched
from holdfast.options import printable

_FACT, _WARNING = "cyan", "bold yellow"
_SEVERITIES = {"critical": "red", "warning": "yellow", "note": "cyan"}


class Page(ModalScreen[None]):
    """A text over the table. Esc closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape,q", "dismiss", "Back")]
    DEFAULT_CSS = """
    Page { align: center middle; }
    Page > VerticalScroll { width: 90%; max-width: 120; height: 80%; border: round $primary;
                            padding: 0 1; background: $surface; }
    """

    def __init__(self, title: str, text: Text) -> None:
        super().__init__()
        self._title = title
        self.body = Static(text, markup=False)

    def compose(self) -> ComposeResult:
        with VerticalScroll() as frame:
            frame.border_title = Text(self._title)
            yield self.body
        yield Footer()


class LockPage(Page):
    """One lock: facts, and its holders as they came and went."""

    BINDINGS: ClassVar[list[BindingType]] = [("b", "app.break", "Break")]

    def __init__(self, row: Row) -> None:
        super().__init__(row.name, _facts(row.lock))
        self.row = row

    def show_facts(self) -> None:
        self.body.update(_facts(self.row.lock))


class Servers(Page):
    """How each server answers, and what `holdfast doctor` finds."""

    def __init__(self) -> None:
        super().__init__("the servers", Text("examining the servers, which takes some seconds …"))

    def show(self, found: tuple[list[NodeInfo], list[Finding]] | Exception) -> None:
        if isinstance(found, Exception):
            self.body.update(Text(printable(str(found) or type(found).__name__)))
            return
        nodes, findings = found
        text = Text()
        for node in nodes:
            text.append(f"{printable(node.name)}  ", style="bold")
            text.append(f"{_describe(node)}\n", style="red" if node.error else "")
        if nodes and (margin := nodes[0].margin) is not None:
            enough = f"{margin} more may fail" if margin >= 0 else f"{-margin} too few answer"
            text.append(f"{enough}\n", style="red" if margin < 0 else "")
        for each in findings:
            text.append(f"\n{each.severity:<8}  ", style=_SEVERITIES[each.severity])
            text.append(printable(f"{each.where}: {each.what}") + "\n")
            for mark, more in (("", each.why), ("-> ", each.mend)):
                if more:
                    text.append(f"          {mark}{printable(more)}\n")
        self.body.update(text)


def _describe(node: NodeInfo) -> str:
    if node.round_trip is None:
        return f"does not answer: {printable(node.error)}"
    text = f"{node.round_trip * 1000:.2f} ms"
    if node.offset is not None and node.uncertainty is not None:
        text += f", clock {node.offset * 1000:+.2f} ± {node.uncertainty * 1000:.2f} ms"
    if node.quarantine:
        wait = f"for {duration(node.quarantine)}" if node.quarantine < inf else "(named twice)"
        text += f", no vote {wait}"
    return text


class BreakDialog(ModalScreen[str]):
    """Asks for the name of the lock and the reason, which it gives. Esc leaves the lock alone."""

    AUTO_FOCUS = "Input"
    BINDINGS: ClassVar[list[BindingType]] = [("escape", "dismiss", "Leave it alone")]
    DEFAULT_CSS = """
    BreakDialog { align: center middle; }
    BreakDialog > VerticalScroll { width: 76; max-width: 100%; height: auto; max-height: 100%;
                                   border: thick $error; padding: 0 1; background: $surface; }
    """

    def __init__(self, row: Row) -> None:
        super().__init__()
        self.row = row
        self._typed = Input(placeholder="name of the lock", select_on_focus=False)
        self._reason = Input(placeholder="reason", max_length=LONGEST_REASON)
        self._why = Static("", markup=False)

    def compose(self) -> ComposeResult:
        row, others = self.row, len(self.row.info.members) - 1
        text = Text.assemble(
            ("Break ", "bold"), (row.name, "bold cyan"), ("?\n\n", "bold"),
            ("held by  ", _FACT), f"{describe_holder(row.member.holder)}\n",
            ("fence    ", _FACT), f"{row.info.fence}\n",
            ("left     ", _FACT), f"{time_left(row.left(time.time()))}\n\n",
            ("Breaking it does not stop the holder.", _WARNING),
            f" {LIMITS} If you can reach its host, stop the holder instead.\n",
        )  # fmt: skip
        if others > 0:
            text.append(f"\nIt is taken from this holder alone; {others} more keep it.\n")
        text.append("\nType the name of the lock and a reason to break it. Esc leaves it alone.")
        with VerticalScroll():
            yield Static(text, markup=False)
            yield from (self._typed, self._reason, self._why)
        yield Footer()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Only the name itself, with a reason, is a yes."""
        event.stop()
        name, reason = self.row.info.name, self._reason.value.strip()
        if self._typed.value not in (name, self.row.name):
            self._why.update(Text("That is not its name. Nothing was changed.", style=_WARNING))
            self._typed.focus()
        elif not reason:
            self._why.update(Text("And why? The reason is for the record.", style=_WARNING))
            self._reason.focus()
        else:
            self.dismiss(reason)


def _facts(lock: Watched) -> Text:
    text = Text()
    for fact, value in facts_of(lock.info) if lock.info else [("state", "free")]:
        text.append(f"{fact:<8}", style=_FACT).append(f"{value}\n")
    if lock.wait is not None:
        lasts = f"{lock.wait.mark}{duration(lock.wait.lasts(time.time()))} without a break\n"
        text.append(f"{'waited':<8}", style=_FACT).append(lasts)
    text.append("\nhistory, as far as it was seen\n", style="bold")
    for change in reversed(lock.changes):
        at = time.strftime("%H:%M:%S", time.localtime(change.at))
        text.append(f"{at}  ", style="dim")
        text.append(f"{change.what:<8}  {describe_holder(change.holder)}")
        text.append(f"  fence {change.fence}\n", style="dim")
    if not lock.changes:
        text.append("no change since this view began\n", style="dim")
    return text
