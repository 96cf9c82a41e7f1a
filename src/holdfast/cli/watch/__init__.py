"""`holdfast watch`: a live view of the locks, in the terminal. Here are the command, and its view:
what it asks, what it shows above the table, and its keys."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import click
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Footer, Input, Static

from holdfast import Client, LeaseInfo, LockError
from holdfast.breaking import Audit, break_held, operator
from holdfast.cli import console
from holdfast.cli.console import Output, duration
from holdfast.cli.options import (
    audit_log_option,
    bad_arguments_are_usage_errors,
    complete_name,
    describe_holder,
    open_audit,
    open_client,
    positive_seconds,
    url_option,
)
from holdfast.cli.watch.screens import BreakDialog, LockPage, Servers
from holdfast.cli.watch.table import LockTable, Row
from holdfast.monitor import Monitor
from holdfast.options import printable

T = TypeVar("T")


@click.command("watch")
@click.argument("prefix", default="", shell_complete=complete_name)
@click.option(
    "--every",
    type=positive_seconds,
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="How often to look.",
)
@audit_log_option
@url_option
def watch(prefix: str, every: float, audit_log: Path | None, url: str | None) -> None:
    """Watch the locks that are held: all, or those whose names begin with PREFIX.

    Holders, time left, waiters and contention, live; with keys to filter, to sort, to look at one
    lock, and to break it.
    """
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        raise click.UsageError("watch needs a terminal. For programs: holdfast ls --json")
    audit, output = open_audit(audit_log), Output(quiet=True)
    with open_client(url, output) as client:
        with bad_arguments_are_usage_errors():
            client.leases(prefix)  # asks nothing yet
        view = View(client, prefix, every, audit)
        view.run()
        view.finish_breaks()
        for line in view.broken:
            output.error(line)
        # It holds nothing, and closing would wait for an engine that may be frozen.
        console.leave_at_once(view.return_code or 0)


class View(App[None]):
    """The locks of one engine. It is asked in threads of their own, one look at a time: an engine
    that does not answer does not delay the keys."""

    TITLE = "holdfast watch"
    ENABLE_COMMAND_PALETTE = False
    AUTO_FOCUS = "LockTable, VerticalScroll"
    CSS = """
    #head { height: 2; padding: 0 1; background: $panel;
            text-wrap: nowrap; text-overflow: ellipsis; }
    #error { display: none; height: auto; max-height: 4; padding: 0 1; color: $text-error; }
    #filter { display: none; border: none; height: 1; padding: 0 1; background: $boost; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("b", "break", "Break"),
        Binding("e", "examine", "Examine"),
        Binding("q", "quit", "Quit"),
        Binding("escape", "show_all", "Show all"),
        Binding("ctrl+c", "quit", "Quit", show=False, priority=True),
    ]

    def __init__(self, client: Client, prefix: str, every: float, audit: Audit) -> None:
        super().__init__()
        self.client = client
        self._audit = audit
        self.broken: list[str] = []
        """What was broken, for the operator's records."""
        self._breaks: list[threading.Thread] = []
        self._monitor = Monitor()
        self._prefix, self._every = prefix, every
        self._looking = False
        self._failure = ""
        self._answered_at = self._took = 0.0
        self._rows: list[Row] = []
        self._text = ""
        self._head = Static(id="head", markup=False)
        self._error = Static(id="error", markup=False)
        self._filter = Input(placeholder="part of a name or a holder", id="filter")
        self._table = LockTable()

    def compose(self) -> ComposeResult:
        yield from (self._head, self._error, self._filter, self._table, Footer())

    def on_mount(self) -> None:
        self.set_interval(self._every, self.look_now)
        self.look_now()

    def look_now(self) -> None:
        """Ask the engine, unless it is being asked. What is on the screen grows older."""
        if self._looking or self._failure:
            self._show()
        if not self._looking:
            self._looking, began = True, time.monotonic()
            self._in_thread(
                lambda: list(self.client.leases(self._prefix)),
                lambda found: self._seen(found, time.monotonic() - began),
            )

    def _seen(self, found: list[LeaseInfo] | Exception, took: float) -> None:
        self._looking = False
        if isinstance(found, Exception):
            self._failure = printable(str(found) or type(found).__name__)
        else:
            self._failure, self._took, self._answered_at = "", took, time.time()
            self._monitor.look(found, self._answered_at)
            self._rows = [
                Row(lock, lock.info, member, lock.holders[member.holder])
                for lock in self._monitor.held()
                if lock.info
                for member in lock.info.members
            ]
        self._error.update(Text(self._failure))
        self._error.display = bool(self._failure)
        self._show()

    def finish_breaks(self) -> None:
        """Wait for what the operator has confirmed, until it is written down."""
        for thread in self._breaks:
            thread.join()

    def _in_thread(
        self, work: Callable[[], T], then: Callable[[T | Exception], None]
    ) -> threading.Thread:
        def run() -> None:
            result: T | Exception
            try:
                result = work()
            except Exception as error:  # noqa: BLE001 - it is shown
                result = error
            with suppress(RuntimeError):  # the view has ended
                self.call_later(then, result)

        thread = threading.Thread(target=run, daemon=True, name="holdfast watch")
        thread.start()
        return thread

    def _show(self) -> None:
        text = self._text.casefold()
        self._table.show(row for row in self._rows if row.has(text))
        for screen in self.screen_stack:
            if isinstance(screen, LockPage) and screen.is_mounted:
                screen.show_facts()
        self._show_head()

    def _show_head(self) -> None:
        ago = duration(max(0.0, time.time() - self._answered_at))
        text = Text.assemble((printable(self.client.url), "bold"), "  ")
        if self._failure:
            since = f", last answer {ago} ago" if self._answered_at else ""
            text.append("unreachable", style="bold white on red")
            text.append(f"{since}; trying again")
        elif self._answered_at:
            text.append(f"answered {ago} ago, in {self._took * 1000:.0f} ms", style="green")
        else:
            text.append("asking …", style="dim")
        holders, shown = len(self._rows), len(self._table.held)
        text.append(f"\n{len(self._monitor.held())} locks, {holders} holders")
        if self._text:
            text.append(f", {shown} shown (filter: {printable(self._text)})")
        if not shown and self._answered_at:
            nothing = "no lock matches the filter" if holders else "no lock is held"
            text.append(f": {nothing}", style="dim")
        self._head.update(text, layout=False)

    def action_filter(self) -> None:
        self._filter.display = True
        self.screen.set_focus(self._filter)  # at once: the next key is text, not a command

    def action_show_all(self) -> None:
        self._filter.value, self._filter.display = "", False
        self._table.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        if event.input is self._filter:
            self._text = event.value
            self._show()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.input.display = bool(event.value)
        self._table.focus()

    def action_open(self) -> None:
        if row := self._table.selected:
            self.push_screen(LockPage(row))

    def action_examine(self) -> None:
        """Show what `holdfast doctor` finds, and how each server answers."""
        page = Servers()
        self.push_screen(page)
        self._in_thread(lambda: (self.client.nodes(), self.client.diagnose()), page.show)

    def action_break(self) -> None:
        """Ask whether to break the lock that is open, or under the cursor."""
        row = self.screen.row if isinstance(self.screen, LockPage) else self._table.selected
        if row is None:
            return

        def answered(reason: str | None) -> None:
            if reason:
                self._breaks.append(self._in_thread(lambda: self._break(row, reason), tell))

        def tell(result: tuple[bool, str] | Exception) -> None:
            broken, why = (False, str(result)) if isinstance(result, Exception) else result
            self.notify(
                f"{row.name}: {printable(why)}",
                severity="information" if broken else "error",
                timeout=10,
                markup=False,
            )
            self.look_now()

        self.push_screen(BreakDialog(row), answered)

    def _break(self, row: Row, reason: str) -> tuple[bool, str]:
        name, holder = row.key
        record: Any = {"audit": self._audit, "who": operator(), "reason": reason}
        at = time.strftime("%Y-%m-%d %H:%M:%S")
        try:
            broken, why = break_held(self.client, name, holders=[holder], **record)
        except LockError as error:
            self.broken.append(f"{at}: tried to break {row.name}: {printable(str(error))}")
            raise
        if broken:
            held = f"held by {describe_holder(holder)}, fence {row.info.fence}"
            self.broken.append(f"{at}: broke {row.name}, {held}")
        return broken, why
