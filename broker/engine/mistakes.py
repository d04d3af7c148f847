"""Exceptions that are none of MQ's: mistakes of ours. Each ends one call and nothing else."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from broker.mqi.errors import MQError
from broker.mqi.exception_text import log_exception
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)


def mistake(error: BaseException, what: str) -> MQError:
    """Log the exception that `what` ended with, with its traceback. What to answer the call with:
    UNEXPECTED_ERROR (2195).
    """
    log_exception(
        logger,
        logging.ERROR,
        error,
        "%s failed by a mistake of the queue manager",
        what,
        extra={"event": "internal_error"},
    )
    return MQError(MQRC.UNEXPECTED_ERROR, f"{type(error).__name__} in the queue manager, see its log")


def contained(step: Callable[..., None], *arguments: Any) -> None:
    """Take a step whose caller has others to take: an exception of it is logged, and that is all."""
    try:
        step(*arguments)
    except Exception as error:
        mistake(error, "a step")
