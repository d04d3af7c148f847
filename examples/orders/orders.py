"""A triggered handler: the daemon starts it for every order that arrives. See `broker.toml` beside it."""

import logging

from broker import Connection
from broker.mqi import MQOO, MQRC, MQError
from triggers import TriggerMessage, process

logger = logging.getLogger(__name__)


@process("SHIPPING")
async def ship(trigger: TriggerMessage, connection: Connection) -> None:
    """Take one order, and put what was shipped or what is no order.

    The trigger says for which queue the handler was started; it is not the message. The connection is the handler's,
    and handlers run beside each other. When one raises, its unit of work is backed out and the error is logged.
    """
    # One unit of work: the order is gone and its result is there, or neither.
    async with connection.open(trigger.q_name, MQOO.INPUT_SHARED) as orders, connection.unit_of_work():
        try:
            order = await orders.get()
        except MQError as error:
            if error.reason == MQRC.NO_MSG_AVAILABLE:
                return  # another program has taken it: a handler must bear an empty queue
            raise
        number, _, goods = order.data.decode(errors="replace").partition(" ")
        if number.isdecimal() and goods:
            await connection.put1(trigger.user_data, f"{number} {goods} shipped, {trigger.trigger_data}")
            logger.info("shipped %s %s", number, goods)
        else:
            # Raising would leave the order on the queue. What can never succeed goes elsewhere, as it came.
            await connection.put1(trigger.env_data, order.data, order.md)
            logger.warning("rejected %r", order.data[:40])
