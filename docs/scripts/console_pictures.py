"""Takes pictures of the console: `python docs/scripts/console_pictures.py` those of the page `docs/how-to/console.md`,
with a folder those of each page, light and dark, wide and narrow, with nothing, with something of everything, with very
many queues and messages.

Needs the extra `full`, Debian's packages chromium and chromium-driver, and takes some minutes.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.to_thread
from selenium import webdriver
from selenium.webdriver.common.by import By

from broker import QueueManager
from broker.config import Config, HttpConfig
from broker.engine.security.passwords import hash_of
from broker.mqi import MQMF, MQPMO, MQRC, MessageDescriptor
from broker.mqi.layouts.layouts import MQDLH
from broker.server.http_serving import http_serving
from triggers import App, Attempt, Reject, Retry

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from broker import Connection

PAGE: Final = Path(__file__).parents[1] / "how-to" / "console"
PASSWORD: Final = "only for pictures"
WIDTHS: Final = (1440, 390)
HEIGHT_MAX: Final = 1800
SECONDS_OF_FIGURES: Final = 300
"""So long there is traffic before pictures are taken: lines of figures have some length then."""

OPTIONS: Final = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


@asynccontextmanager
async def served(manager: QueueManager) -> AsyncIterator[str]:
    """The console of a queue manager, with the user alice; its URL."""
    async with manager.connect() as owner:
        await owner.mqsc(f"DEFINE USER('alice') GROUPS('mqm') PASSWORD('{hash_of(PASSWORD)}')", check=True)
    async with http_serving(Config(http=HttpConfig(listen="127.0.0.1:0")))(manager) as server:
        server.started()
        yield f"{server.addresses[0]}/console"


def shop(manager: QueueManager) -> App:
    """An app whose handlers do their work, fail, try again and give up."""
    app = App(manager, name="shop")

    async def ship(order: dict[str, Any], attempt: Attempt) -> None:
        if order["count"] < 1:
            raise Reject(f"{order['count']} of {order['item']}: nothing to ship")
        if order["item"] == "fog":
            raise ConnectionError("the warehouse does not answer")
        await app.put("SHOP.INVOICES", {"customer": order["customer"], "text": f"{order['count']} x {order['item']}"})

    async def invoice(invoice: dict[str, Any]) -> None:
        await asyncio.sleep(0.05)

    for each in (ship, invoice):
        each.__module__, each.__qualname__ = "shop", each.__name__  # as if it stood in a module shop.py
    app.handler("SHOP.ORDERS", retry=Retry(3, backoff=(1, 8)), dead_letter="SHOP.ORDERS.DEAD")(ship)
    app.handler("SHOP.INVOICES", order_by="customer")(invoice)
    return app


async def order(connection: Connection, number: int) -> None:
    """Put the next order."""
    item = ("lamp", "chair", "desk", "fog" if number % 60 == 7 else "shelf")[number % 4]
    count = 0 if number % 90 == 50 else number % 5 + 1
    body = f'{{"item": "{item}", "count": {count}, "customer": "c{number % 17}", "note": "nach Möglichkeit früh"}}'
    await connection.put1("SHOP.ORDERS", body, properties={"region": ("north", "south")[number % 2], "n": number})


async def something(connection: Connection) -> None:
    """Something of everything, beside the shop."""
    await connection.mqsc(
        "DEFINE QLOCAL(PAYMENTS) DESCR('Payments of the bank')\nDEFINE QLOCAL(REMINDERS)\nDEFINE QLOCAL(ARCHIVE)\n"
        "DEFINE QLOCAL(AUDIT)\nDEFINE QLOCAL(PRICES) MAXDEPTH(3)", check=True,
    )  # fmt: skip
    for number in (1, 2, 4):
        md = MessageDescriptor(group_id=b"batch of payments 17".ljust(24), msg_seq_number=number)
        md.msg_flags = MQMF.MSG_IN_GROUP
        await connection.put1("PAYMENTS", f"payment {number}", md)
    for number in (1, 2, 3):
        md = MessageDescriptor(group_id=b"batch of payments 18".ljust(24), msg_seq_number=number)
        md.msg_flags = MQMF.LAST_MSG_IN_GROUP if number == 3 else MQMF.MSG_IN_GROUP
        await connection.put1("PAYMENTS", f"payment {number}", md)
    for number in range(6):
        await connection.put1("REMINDERS", f"remind c{number}", delay=600 + 900 * number)
    await connection.put1("AUDIT", "in a unit of work", options=MQPMO.SYNCPOINT)
    for number in range(3):
        await connection.put1("PRICES", bytes(range(0x80, 0xC0)) * (number + 1))


async def very_many(connection: Connection) -> None:
    """10,000 queues' worth of rows: 2,000 queues, and 10,000 messages on one of them."""
    for first in range(0, 2000, 100):
        names = (f"BULK.{number:05}" for number in range(first, first + 100))
        await connection.mqsc("\n".join(f"DEFINE QLOCAL({name}) MAXDEPTH(100000)" for name in names))
    for number in range(600):
        await connection.put1(f"BULK.{number * 3:05}", "x" * number)
    async with connection.open("BULK.00000", 16) as queue:
        await queue.put_many([f"line {number} of a long list" for number in range(10_000)])
    await connection.mqsc("DEFINE QLOCAL(BULK.DEAD) MAXDEPTH(100000)\nALTER QMGR DEADQ(BULK.DEAD)", check=True)
    header = MQDLH(reason=MQRC.Q_FULL, dest_q_name="BULK.00001", dest_q_mgr_name="QM1", format="MQSTR", encoding=546)
    async with connection.open("BULK.DEAD", 16) as queue:
        await queue.put_many([header.to_bytes() + b"an order"] * 10_000, MessageDescriptor(format="MQDEAD"))


async def very_many_at_work(connection: Connection, stack: AsyncExitStack) -> None:
    """10,000 units of work, a hundred consumers, many handlers."""
    for number in range(10_000):
        program = await stack.enter_async_context(await connection.connect(f"program {number % 700}"))
        await program.put1("BULK.00003", "x", options=MQPMO.SYNCPOINT)


class Camera:
    """A browser that takes pictures."""

    def __init__(self, url: str) -> None:
        chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
        if chromium is None or driver is None:
            sys.exit("it takes chromium and chromedriver: apt install chromium chromium-driver")
        self.url = url
        self._profile = TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
        options = webdriver.ChromeOptions()
        options.binary_location = chromium
        for each in (*OPTIONS, f"--user-data-dir={self._profile.name}"):
            options.add_argument(each)
        self.driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
        self.driver.implicitly_wait(10)

    def close(self) -> None:
        self.driver.quit()
        self._profile.cleanup()

    def log_in(self) -> None:
        """Come in as alice."""
        self.driver.get(f"{self.url}/login")
        self.driver.find_element(By.NAME, "user").send_keys("alice")
        self.driver.find_element(By.NAME, "password").send_keys(PASSWORD)
        self.driver.find_element(By.CSS_SELECTOR, "button.act").click()
        self.driver.find_element(By.CSS_SELECTOR, "header.bar")

    def take(self, path: str, to: Path, *, width: int = 1440, dark: bool = False, height: int = 0) -> None:
        """Take a picture of a page, as high as it is, or as `height` says."""
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
        self._resize(width, 900)
        self.driver.get(f"{self.url}{path}")
        self.driver.find_element(By.TAG_NAME, "h1")
        if self.driver.find_elements(By.CSS_SELECTOR, "main[data-stream]"):
            self.driver.find_element(By.CSS_SELECTOR, "#live.on")
        whole = self.driver.execute_script("return document.documentElement.scrollHeight")
        self._resize(width, height or min(max(int(whole), 500), HEIGHT_MAX))
        to.parent.mkdir(parents=True, exist_ok=True)
        self.driver.save_screenshot(str(to))

    def link(self, path: str, selector: str) -> str:
        """The path, below the console, of the first link like this on a page."""
        self.driver.get(f"{self.url}{path}")
        found: str = self.driver.find_element(By.CSS_SELECTOR, selector).get_attribute("href") or ""
        return found.removeprefix(self.url)

    def _resize(self, width: int, height: int) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def pages(camera: Camera, queue: str, dead: str = "") -> Iterator[tuple[str, str]]:
    """The pages by their names in the folder."""
    yield "overview", "/"
    yield "queues", "/queues"
    yield "queue", f"/queues/{queue}"
    yield "messages", f"/queues/{queue}/messages"
    yield "dead-letters", "/dead-letters"
    yield "handlers", "/handlers"
    yield "units", "/units"
    yield "group", "/group"
    yield "objects", "/objects"
    yield "object", f"/objects/QLOCAL/{queue}"
    yield "change", f"/objects/QLOCAL/{queue}?edit=1"
    yield "access", f"/objects/access?explain=open&name={queue}&for=put&as=nobody"
    yield "commands", "/commands"
    yield "log", "/log"
    if dead:
        yield "held", "/queues/AUDIT/messages"
        yield "letters", camera.link("/dead-letters", "tbody tr a")
        yield "dead-letter", camera.link(camera.link("/dead-letters", "tbody tr a"), "tbody tr a")
        yield "groups", "/queues/PAYMENTS/messages"
        yield "message", camera.link("/queues/REMINDERS/messages", "tbody tr a")
        yield "data", camera.link("/queues/PRICES/messages", "tbody tr a")
        yield "letter", camera.link(f"/queues/{dead}/messages", "tbody tr a")


def each_picture(camera: Camera, folder: Path, queue: str, dead: str = "") -> None:
    """Take pictures of all pages, in both widths, light and dark."""
    camera.log_in()
    for name, path in list(pages(camera, queue, dead)):
        for width in WIDTHS:
            for dark in (False, True):
                camera.take(path, folder / f"{name}-{width}-{'dark' if dark else 'light'}.png", width=width, dark=dark)


def of_the_page(camera: Camera) -> None:
    """Take the four pictures of the page."""
    camera.log_in()
    camera.take("/", PAGE / "overview.png", width=1280, height=900)
    camera.take("/queues/SHOP.ORDERS", PAGE / "queue.png", width=1280, dark=True, height=900)
    camera.take("/queues/PAYMENTS/messages", PAGE / "groups.png", width=1280, height=760)
    letter = camera.link("/queues/SHOP.ORDERS.DEAD/messages", "tbody tr a")
    camera.take(letter, PAGE / "letter.png", width=1280, height=1000)


async def pictures(take: Callable[[Camera], None], url: str) -> None:
    """Open a browser, and take pictures in a thread."""

    def work() -> None:
        camera = Camera(url)
        try:
            take(camera)
        finally:
            camera.close()

    await anyio.to_thread.run_sync(work)


async def of_the_shop(take: Callable[[Camera], None]) -> None:
    """Pictures with something of everything."""
    async with QueueManager.open(name="QM1") as manager, manager.connect("shop web") as connection:
        app = shop(manager)
        async with app.running(), served(manager) as url, anyio.create_task_group() as tasks:

            async def traffic() -> None:
                for number in range(1_000_000):
                    await order(connection, number)
                    await asyncio.sleep(0.04 + 0.03 * (number // 50 % 3))

            async with manager.connect("batch") as batch:
                await something(batch)
                tasks.start_soon(traffic)
                await pictures(Camera.log_in, url)  # figures are kept from the first visit on
                await asyncio.sleep(SECONDS_OF_FIGURES)
                await pictures(take, url)
            tasks.cancel_scope.cancel()


async def main(folder: Path | None) -> None:
    if folder is None:
        await of_the_shop(of_the_page)
        return
    async with QueueManager.open(name="QM1") as manager, served(manager) as url:
        await pictures(lambda camera: each_picture(camera, folder / "nothing", "SYSTEM.DEFAULT.LOCAL.QUEUE"), url)
    await of_the_shop(lambda camera: each_picture(camera, folder / "demo", "SHOP.ORDERS", "SHOP.ORDERS.DEAD"))
    async with (
        QueueManager.open(name="QM1") as manager,
        manager.connect("bulk") as connection,
        served(manager) as url,
        AsyncExitStack() as stack,
    ):
        await very_many(connection)
        await very_many_at_work(connection, stack)
        await pictures(lambda camera: each_picture(camera, folder / "many", "BULK.00000"), url)


if __name__ == "__main__":
    logging.disable()  # handlers fail on purpose
    asyncio.run(main(Path(sys.argv[1]) if len(sys.argv) > 1 else None))
