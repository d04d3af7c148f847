"""The handlers of the workers in compose.yaml: each message of DEV.TASKS leaves an answer on DEV.TASKS.DONE."""

from triggers import App

app = App("mqs://evermq:1415", name="tasks")


@app.handler("DEV.TASKS")
async def answer(text: str) -> None:
    """Answer a message. The answer is there when its message is gone, or neither is."""
    await app.put("DEV.TASKS.DONE", f"done: {text}")
