"""A queue manager inside an asyncio program: requests in a unit of work, and each reply found by its CorrelId.

Run it with `python examples/embedded.py`. It needs no daemon and leaves nothing behind.
"""

import asyncio

from broker import QueueManager
from broker.mqi import MQMT, MQOO, MessageDescriptor


async def serve(manager: QueueManager) -> None:
    """Answer requests until cancelled."""
    async with (
        manager.connect(appl_name="server") as connection,
        connection.open("REQUESTS", MQOO.INPUT_SHARED) as requests,
    ):
        while True:
            # One unit of work: the request is gone and its reply is there, or neither, whatever happens in between.
            async with connection.unit_of_work():
                request = await requests.get(wait=float("inf"))
                reply = MessageDescriptor(msg_type=MQMT.REPLY, correl_id=request.md.msg_id)
                await connection.put1(request.md.reply_to_q, request.data.decode().upper(), reply)


async def ask(manager: QueueManager, *questions: str) -> None:
    """Put requests, then get the reply to each."""
    async with manager.connect(appl_name="client") as connection:
        request = MessageDescriptor(msg_type=MQMT.REQUEST, reply_to_q="REPLIES")
        # One unit of work again: the server sees all of the requests or none.
        async with connection.unit_of_work():
            sent = [await connection.put1("REQUESTS", question, request) for question in questions]
        async with connection.open("REPLIES", MQOO.INPUT_SHARED) as replies:
            # A get takes the first message with the identifiers it names, so any order will do: here the last first.
            for question, put in reversed(list(zip(questions, sent, strict=True))):
                reply = await replies.get(MessageDescriptor(correl_id=put.md.msg_id), wait=5)
                print(f"{question} -> {reply.data.decode()}")


async def main() -> None:
    """Run the server and the client in one queue manager."""
    # This one lives in memory. With data="some-folder" its definitions and persistent messages survive a restart.
    async with QueueManager.open(name="QM1") as manager:
        async with manager.connect() as connection:
            for result in await connection.mqsc("DEFINE QLOCAL(REQUESTS)\nDEFINE QLOCAL(REPLIES)"):
                print(result.text)
        async with asyncio.TaskGroup() as tasks:
            server = tasks.create_task(serve(manager))
            await ask(manager, "one", "two", "three")
            server.cancel()  # it waits in a get, which takes no message with it


if __name__ == "__main__":
    asyncio.run(main())
