"""A Celery task module moved over. Above each handler stands what it was; `docs/how-to/celery.md` goes through it.

Run it with `python examples/mail_tasks.py`. It needs no daemon and leaves nothing behind.
"""

import asyncio
import tempfile

from triggers import App, Attempt, Retry

# app = Celery("mail", broker="amqp://", backend="redis://")
folder = tempfile.TemporaryDirectory()
app = App(folder.name, name="mail")  # or App("mq://...") where a daemon and workers run


class ServerBusyError(Exception):
    """A mail server that wants us to come again later."""


# @app.task(bind=True, autoretry_for=(ServerBusyError,), max_retries=3, retry_backoff=True, acks_late=True,
#           reject_on_worker_lost=True, time_limit=10)
# def send(self, to, subject): ...
@app.handler("MAIL.SEND", retry=Retry(3, backoff=(0.05, 600), on=(ServerBusyError,)), timeout=10)
async def send(mail: dict[str, str], attempt: Attempt) -> None:
    """Send a mail; a server that is busy is tried three times more."""
    if attempt.number == 1:
        raise ServerBusyError(mail["to"])
    print(f"sent to {mail['to']}: {mail['subject']}")


# @app.task
# def welcome(name): send.delay(...); remind.apply_async(args=[name], countdown=86400)
@app.handler("MAIL.WELCOME")
async def welcome(name: str) -> None:
    """Put two messages more. Both are there when this has returned; when it raises, neither is."""
    await app.put("MAIL.SEND", {"to": name, "subject": "welcome"})
    await app.put("MAIL.REMIND", name, delay=0.2)


# @app.task
# def remind(name): ...
@app.handler("MAIL.REMIND")
async def remind(name: str) -> None:
    """Say it once more."""
    print(f"{name} is reminded")


async def main() -> None:
    """Welcome somebody."""
    async with app.running():
        await app.put("MAIL.WELCOME", "ann")  # welcome.delay("ann")
        await asyncio.sleep(0.6)


if __name__ == "__main__":
    asyncio.run(main())
    folder.cleanup()
