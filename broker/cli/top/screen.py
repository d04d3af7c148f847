"""The program of `evermq top` on the terminal, by Textual."""

from __future__ import annotations

from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar, Final

from rich.text import Text
from textual.app import App
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import DataTable, Footer, Input, Static

from broker.cli.top.tables import HANDLERS, ORDERS, QUEUES, UNITS, handler_rows, queue_rows, title, unit_rows
from broker.mqi import MQError
from broker.presentation.escaping import escaped
from broker.presentation.rates import UPDATE_SECONDS, Observation, Rates

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from broker import Connection

ROWS_MAX: Final = 500
"""The rows of a table: what is beyond them is reached by another order, or by a filter."""

_NAME_WIDTH: Final = 27
_WIDTHS: Final = {"oldest": 9, "depth": 9, "change/s": 8, "getters": 7}
_WIDTH: Final = 7


async def run(connection: Connection, order: str, pattern: str) -> None:
    """Run the program until somebody quits. Raises MQError when the connection has ended."""
    top = Top(connection, order, pattern)
    await top.run_async()
    if top.error is not None:
        raise top.error


class Top(App[None]):
    """Queues, handlers and units of work, as they are twice a second."""

    TITLE = "evermq top"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #title { height: 1; text-style: bold; }
    #queues { height: 1fr; }
    #handlers { height: auto; max-height: 25%; }
    #units { height: auto; max-height: 25%; }
    #filter { height: 1; border: none; padding: 0; }
    DataTable { background: $background; scrollbar-size: 1 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        ("s", "sort", "Sort"),
        ("slash", "filter", "Filter"),
        ("p", "pause", "Pause"),
        ("e", "explain", "Explain"),
        ("q", "quit", "Quit"),
    ]

    def __init__(self, connection: Connection, order: str, pattern: str) -> None:
        super().__init__()
        self.connection = connection
        self.order = order
        self.pattern = pattern
        self.paused = False
        self.error: MQError | None = None
        self._rates: Rates | None = None
        self._looking = False

    def compose(self) -> ComposeResult:
        """The tables, below a line about the whole."""
        yield Static(id="title", markup=False)
        for name in ("queues", "handlers", "units"):
            yield DataTable(id=name, cursor_type="row" if name == "queues" else "none", cell_padding=0)
        yield Input(self.pattern, placeholder="queues with this in their names, or like ORDERS.*", id="filter")
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Begin to look."""
        for name, heads in ("queues", QUEUES), ("handlers", HANDLERS), ("units", UNITS):
            table = self._table(name)
            for number, head in enumerate(heads):
                label = Text(head, justify="right" if number else "left")
                table.add_column(label, key=head, width=_WIDTHS.get(head, _WIDTH) + 1 if number else _NAME_WIDTH)
        self.query_one(Input).display = bool(self.pattern)
        self._table("queues").focus()
        self.set_interval(UPDATE_SECONDS, self._look)
        self._look()

    def action_sort(self) -> None:
        """The next order."""
        self.order = ORDERS[(ORDERS.index(self.order) + 1) % len(ORDERS)]
        self._show()

    def action_filter(self) -> None:
        """Let the user type what names are to have."""
        typed = self.query_one(Input)
        typed.display = True
        self.set_focus(typed)  # now: the next key is for it

    def on_input_changed(self, event: Input.Changed) -> None:
        """Show what has the text in its name, while it is typed."""
        self.pattern = event.value
        self._show()

    def on_input_submitted(self) -> None:
        """The text is complete."""
        self.query_one(Input).display = bool(self.pattern)
        self._table("queues").focus()

    def action_pause(self) -> None:
        """Observation no more, or again."""
        self.paused = not self.paused
        self._show()

    async def action_explain(self) -> None:
        """Tell why messages of the chosen queue are not delivered."""
        if (q_name := self._chosen()) is None:
            return
        try:
            findings = (await self.connection.explain(q_name)).findings
            text = "\n\n".join(f"{each.code}: {each.text}" for each in findings) or "nothing to tell"
        except MQError as error:
            text = str(error)
        await self.push_screen(Explained(f"{q_name}\n\n{text}"))

    def _look(self) -> None:
        if not self.paused and not self._looking:  # one that takes long is not overtaken
            self._looking = True
            self.run_worker(self._take_status())

    async def _take_status(self) -> None:
        try:
            look = Observation(monotonic(), await self.connection.status())
        except MQError as error:
            self.error = error
            self.exit()
            return
        finally:
            self._looking = False
        if self.is_running:  # somebody may have quit meanwhile
            self._rates = Rates(None if self._rates is None else self._rates.now, look)
            self._show()

    def _show(self) -> None:
        """Write all tables; the cursor stays with its queue."""
        rates, chosen = self._rates, self._chosen()
        if rates is None:
            return
        state = "  PAUSED" if self.paused else ""
        words = f"{title(rates, f'{datetime.now(UTC):%H:%M:%S} UTC')}  by {self.order}{state}"
        self.query_one("#title", Static).update(escaped(words))
        rows = queue_rows(rates, self.order, self.pattern)[:ROWS_MAX]
        self._fill("queues", rows, [row[0] for row in rows])
        self._fill("handlers", handler_rows(rates)[:ROWS_MAX])
        self._fill("units", unit_rows(rates)[:ROWS_MAX])
        if chosen is not None and chosen in (names := [row[0] for row in rows]):
            self._table("queues").move_cursor(row=names.index(chosen), animate=False)

    def _fill(self, name: str, rows: Iterable[Sequence[str]], keys: Sequence[str] = ()) -> None:
        table = self._table(name)
        table.display = bool(rows) or name == "queues"
        table.clear()
        for number, row in enumerate(rows):
            first, *rest = (escaped(cell) for cell in row)
            cells = [Text(first, no_wrap=True, overflow="ellipsis"), *(Text(each, justify="right") for each in rest)]
            table.add_row(*cells, key=keys[number] if keys else None)

    def _chosen(self) -> str | None:
        """The name of the queue that the cursor is on."""
        table = self._table("queues")
        if not table.row_count:
            return None
        return table.coordinate_to_cell_key(table.cursor_coordinate).row_key.value

    def _table(self, name: str) -> DataTable[Any]:
        return self.screen_stack[0].query_one(f"#{name}", DataTable)


class Explained(ModalScreen[None]):
    """The findings about a queue, until a key is pressed."""

    CSS = "Explained { align: center middle; } #text { width: 90%; height: 80%; border: solid $accent; padding: 0 1; }"
    BINDINGS: ClassVar[list[BindingType]] = [("escape,e,q", "dismiss", "Back")]

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def compose(self) -> ComposeResult:
        """The text, which may be longer than the screen."""
        with VerticalScroll(id="text"):
            yield Static(escaped(self.text, keep="\n"), markup=False)
        yield Footer(show_command_palette=False)
