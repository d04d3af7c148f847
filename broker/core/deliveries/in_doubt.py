"""Deliveries that end with a prepared branch: their way into it, and what becomes of them by its decision (transactions
rule 3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from broker.core.deliveries import ending
from broker.core.deliveries.delivery import Delivery, DeliveryWorker
from broker.core.deliveries.service import Service
from broker.core.deliveries.steps import Ending, judge, undo_rest
from broker.core.queues.handles import Hconn
from broker.core.queues.unit import Unit
from broker.mqi.delivery_fields import Outcome

if TYPE_CHECKING:
    from broker.core.deliveries.steps import Step
    from broker.core.manager import Manager
    from broker.core.moment import Moment
    from broker.core.prepared.branch_delivery import BranchDelivery
    from broker.core.prepared.branches import PreparedBranch
    from broker.mqi.delivery_fields import Settlement


class Preparation(NamedTuple):
    """The end of a delivery that is to be prepared, whose one step is the commit of its unit, frozen; None where all
    its messages have failed. `failing` is the end of those that have failed alone, which have left it.
    """

    prepared: Ending | None
    failing: Ending | None

    @property
    def step(self) -> Step:
        """The commit."""
        assert self.prepared is not None
        (step,) = self.prepared.steps
        return step


def prepare(manager: Manager, delivery: Delivery, settlement: Settlement, moment: Moment) -> Preparation:
    """A handler has returned: freeze what it has done. Bodies that a dead letter or a report needs are in memory."""
    if not settlement.failed:
        return Preparation(ending.done(manager, delivery, settlement, moment), None)
    pieces = delivery.pieces()
    failing = ending.charge_failing(delivery, settlement, moment)
    delivery.service.counts.running -= len(failing)
    apart = Unit()
    for entry in failing:
        delivery.unit.pass_on(entry, apart)
    left = [piece for piece in pieces if piece[0] not in failing]
    if not left:
        gone = Ending(delivery)
        judge(manager, gone, failing, moment, apart)
        undo_rest(gone, delivery.unit)
        delivery.pending = len(gone.steps)
        return Preparation(None, gone)
    delivery.entries = [entry for piece in left for entry in piece]
    delivery.parts = None if len(delivery.entries) == len(left) else [len(piece) for piece in left]
    alone = Delivery(manager.deliveries.next_id(), delivery.service, delivery.worker, [failing], apart)
    alone_end = Ending(alone)
    judge(manager, alone_end, failing, moment, apart)
    return Preparation(ending.done(manager, delivery, settlement._replace(failed=()), moment), alone_end)


def entered(manager: Manager, branch: PreparedBranch) -> None:
    """The branch of a delivery is durable."""
    held = branch.delivery
    if held is not None and held.delivery is not None:
        held.order_value, held.delivery.order_value = held.delivery.order_value, None
        manager.deliveries.set_apart(held.delivery)


def let_go(manager: Manager, branch: PreparedBranch) -> None:
    """Its worker will not decide it any more."""
    if branch.delivery is not None and branch.delivery.delivery is not None:
        manager.deliveries.let_go(branch.delivery.delivery)


def loaded(manager: Manager, branch: PreparedBranch) -> None:
    """The branch was loaded: its delivery is under way, as far as figures tell."""
    held = branch.delivery
    if held is not None and held.queue is not None:
        counts = manager.deliveries.counts_of(held.queue.name, held.options.handler)
        counts.started += len(held.entries)
        counts.running += len(held.entries)


def committed(manager: Manager, branch: PreparedBranch) -> None:
    """A branch has settled, committed: count its delivery, which has succeeded."""
    delivery = delivery_of(manager, branch)
    if delivery is None or branch.delivery is None:
        return
    counts, refusals = delivery.service.counts, delivery.service.refusals
    counts.running -= len(delivery.entries)
    counts.succeeded += len(delivery.entries)
    if not branch.loaded:
        counts.ran.add(branch.delivery.ran)
    if refusals:
        for entry in delivery.entries:
            refusals.pop(entry.key, None)
    over(manager, branch.delivery)
    manager.deliveries.over(delivery)


def backed_out(
    manager: Manager, branch: PreparedBranch, delivery: Delivery, settlement: Settlement | None, moment: Moment
) -> Ending:
    """The steps with which the delivery of a branch ends that is backed out: as its settlement says, else as the loss
    of its worker is judged, with what is known of it alone (handlers rule 1.4).
    """
    assert branch.delivery is not None
    if settlement is None or settlement.outcome == Outcome.DONE:
        suspect, alone = branch.delivery.suspect, branch.delivery.alone
        return ending.lost(manager, delivery, moment, charged=suspect, alone=alone)
    return ending.end(manager, delivery, settlement._replace(id=delivery.id, failed=()), moment)


def over(manager: Manager, held: BranchDelivery) -> None:
    """Its key is free."""
    service = None if held.queue is None else manager.deliveries.find(held.queue)  # type: ignore[arg-type]
    if service is not None:
        service.free(held.order_value)
    held.order_value = None


def delivery_of(manager: Manager, branch: PreparedBranch) -> Delivery | None:
    """Return the delivery of a branch: made anew where an earlier run of the queue manager has handed it out; None
    without one, or where its messages are gone, which were not persistent.
    """
    held = branch.delivery
    if held is None or held.queue is None:
        return None
    if held.delivery is None:
        counts = manager.deliveries.counts_of(held.queue.name, held.options.handler)
        service = Service(held.queue, held.options, counts)  # type: ignore[arg-type]  # deliveries are of local queues
        worker = DeliveryWorker(Hconn())
        worker.hconn.appl_name = held.worker
        pieces = [[entry] for entry in held.entries]
        held.delivery = Delivery(manager.deliveries.next_id(), service, worker, pieces, branch.unit)
        held.delivery.quarantined = held.suspect
    return held.delivery
