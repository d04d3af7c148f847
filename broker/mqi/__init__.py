"""The vocabulary of the message queue interface: MQ's constants, structures, errors and byte layouts.

Numbers and names are IBM MQ's; nothing here does anything.

A name is loaded when it is first used: there are some 3,000 constants here, and few programs need them all.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.mqi.access import Access as Access
    from broker.mqi.access import AccessStep as AccessStep
    from broker.mqi.constants.attribute_values import MQBND as MQBND
    from broker.mqi.constants.attribute_values import MQCLWL as MQCLWL
    from broker.mqi.constants.attribute_values import MQDL as MQDL
    from broker.mqi.constants.attribute_values import MQDSB as MQDSB
    from broker.mqi.constants.attribute_values import MQDSE as MQDSE
    from broker.mqi.constants.attribute_values import MQEXPI as MQEXPI
    from broker.mqi.constants.attribute_values import MQIAV as MQIAV
    from broker.mqi.constants.attribute_values import MQIT as MQIT
    from broker.mqi.constants.attribute_values import MQMDS as MQMDS
    from broker.mqi.constants.attribute_values import MQMMBI as MQMMBI
    from broker.mqi.constants.attribute_values import MQMON as MQMON
    from broker.mqi.constants.attribute_values import MQNC as MQNC
    from broker.mqi.constants.attribute_values import MQNPM as MQNPM
    from broker.mqi.constants.attribute_values import MQPROP as MQPROP
    from broker.mqi.constants.attribute_values import MQPRT as MQPRT
    from broker.mqi.constants.attribute_values import MQQA as MQQA
    from broker.mqi.constants.attribute_values import MQREADA as MQREADA
    from broker.mqi.constants.attribute_values import MQRL as MQRL
    from broker.mqi.constants.attribute_values import MQSP as MQSP
    from broker.mqi.constants.attribute_values import MQSQQM as MQSQQM
    from broker.mqi.constants.attribute_values import MQTC as MQTC
    from broker.mqi.constants.attribute_values import MQTT as MQTT
    from broker.mqi.constants.attribute_values import MQUS as MQUS
    from broker.mqi.constants.attribute_values import MQUSEDLQ as MQUSEDLQ
    from broker.mqi.constants.attributes import MQCA as MQCA
    from broker.mqi.constants.attributes import MQIA as MQIA
    from broker.mqi.constants.connections import MQCNO as MQCNO
    from broker.mqi.constants.connections import MQCSP as MQCSP
    from broker.mqi.constants.connections import MQRD as MQRD
    from broker.mqi.constants.connections import MQSCO as MQSCO
    from broker.mqi.constants.connections import MQSTAT as MQSTAT
    from broker.mqi.constants.consumers import MQCBCF as MQCBCF
    from broker.mqi.constants.consumers import MQCBCT as MQCBCT
    from broker.mqi.constants.consumers import MQCBD as MQCBD
    from broker.mqi.constants.consumers import MQCBDO as MQCBDO
    from broker.mqi.constants.consumers import MQCBT as MQCBT
    from broker.mqi.constants.consumers import MQCS as MQCS
    from broker.mqi.constants.consumers import MQCTLO as MQCTLO
    from broker.mqi.constants.consumers import MQEC as MQEC
    from broker.mqi.constants.consumers import MQOP as MQOP
    from broker.mqi.constants.descriptor import MQAN as MQAN
    from broker.mqi.constants.descriptor import MQAT as MQAT
    from broker.mqi.constants.descriptor import MQAT_USER_FIRST as MQAT_USER_FIRST
    from broker.mqi.constants.descriptor import MQAT_USER_LAST as MQAT_USER_LAST
    from broker.mqi.constants.descriptor import MQCCSI as MQCCSI
    from broker.mqi.constants.descriptor import MQEI as MQEI
    from broker.mqi.constants.descriptor import MQENC as MQENC
    from broker.mqi.constants.descriptor import MQFB as MQFB
    from broker.mqi.constants.descriptor import MQFB_APPL_FIRST as MQFB_APPL_FIRST
    from broker.mqi.constants.descriptor import MQFB_APPL_LAST as MQFB_APPL_LAST
    from broker.mqi.constants.descriptor import MQFB_SYSTEM_FIRST as MQFB_SYSTEM_FIRST
    from broker.mqi.constants.descriptor import MQFB_SYSTEM_LAST as MQFB_SYSTEM_LAST
    from broker.mqi.constants.descriptor import MQFMT as MQFMT
    from broker.mqi.constants.descriptor import MQGS as MQGS
    from broker.mqi.constants.descriptor import MQIAUT as MQIAUT
    from broker.mqi.constants.descriptor import MQMF as MQMF
    from broker.mqi.constants.descriptor import MQMF_ACCEPT_UNSUP_IF_XMIT_MASK as MQMF_ACCEPT_UNSUP_IF_XMIT_MASK
    from broker.mqi.constants.descriptor import MQMF_ACCEPT_UNSUP_MASK as MQMF_ACCEPT_UNSUP_MASK
    from broker.mqi.constants.descriptor import MQMF_REJECT_UNSUP_MASK as MQMF_REJECT_UNSUP_MASK
    from broker.mqi.constants.descriptor import MQMT as MQMT
    from broker.mqi.constants.descriptor import MQMT_APPL_FIRST as MQMT_APPL_FIRST
    from broker.mqi.constants.descriptor import MQMT_APPL_LAST as MQMT_APPL_LAST
    from broker.mqi.constants.descriptor import MQMT_SYSTEM_FIRST as MQMT_SYSTEM_FIRST
    from broker.mqi.constants.descriptor import MQMT_SYSTEM_LAST as MQMT_SYSTEM_LAST
    from broker.mqi.constants.descriptor import MQOL as MQOL
    from broker.mqi.constants.descriptor import MQPER as MQPER
    from broker.mqi.constants.descriptor import MQPRI as MQPRI
    from broker.mqi.constants.descriptor import MQRO as MQRO
    from broker.mqi.constants.descriptor import MQRO_ACCEPT_UNSUP_IF_XMIT_MASK as MQRO_ACCEPT_UNSUP_IF_XMIT_MASK
    from broker.mqi.constants.descriptor import MQRO_ACCEPT_UNSUP_MASK as MQRO_ACCEPT_UNSUP_MASK
    from broker.mqi.constants.descriptor import MQRO_REJECT_UNSUP_MASK as MQRO_REJECT_UNSUP_MASK
    from broker.mqi.constants.descriptor import MQSEG as MQSEG
    from broker.mqi.constants.descriptor import MQSS as MQSS
    from broker.mqi.constants.identifiers import MQACT_NONE as MQACT_NONE
    from broker.mqi.constants.identifiers import MQACTT as MQACTT
    from broker.mqi.constants.identifiers import MQCI_NEW_SESSION as MQCI_NEW_SESSION
    from broker.mqi.constants.identifiers import MQCI_NONE as MQCI_NONE
    from broker.mqi.constants.identifiers import MQCONNID_NONE as MQCONNID_NONE
    from broker.mqi.constants.identifiers import MQCT_NONE as MQCT_NONE
    from broker.mqi.constants.identifiers import MQGI_NONE as MQGI_NONE
    from broker.mqi.constants.identifiers import MQMI_NONE as MQMI_NONE
    from broker.mqi.constants.identifiers import MQMTOK_NONE as MQMTOK_NONE
    from broker.mqi.constants.identifiers import MQSID_NONE as MQSID_NONE
    from broker.mqi.constants.identifiers import MQSIDT as MQSIDT
    from broker.mqi.constants.objects import MQCQT as MQCQT
    from broker.mqi.constants.objects import MQHC as MQHC
    from broker.mqi.constants.objects import MQHM as MQHM
    from broker.mqi.constants.objects import MQHO as MQHO
    from broker.mqi.constants.objects import MQOT as MQOT
    from broker.mqi.constants.objects import MQQDT as MQQDT
    from broker.mqi.constants.objects import MQQT as MQQT
    from broker.mqi.constants.options import MQBO as MQBO
    from broker.mqi.constants.options import MQCO as MQCO
    from broker.mqi.constants.options import MQDHF as MQDHF
    from broker.mqi.constants.options import MQGMO as MQGMO
    from broker.mqi.constants.options import MQMO as MQMO
    from broker.mqi.constants.options import MQOO as MQOO
    from broker.mqi.constants.options import MQPMO as MQPMO
    from broker.mqi.constants.options import MQPMRF as MQPMRF
    from broker.mqi.constants.options import MQWI as MQWI
    from broker.mqi.constants.properties import MQBMHO as MQBMHO
    from broker.mqi.constants.properties import MQCMHO as MQCMHO
    from broker.mqi.constants.properties import MQCOPY as MQCOPY
    from broker.mqi.constants.properties import MQDMHO as MQDMHO
    from broker.mqi.constants.properties import MQDMPO as MQDMPO
    from broker.mqi.constants.properties import MQIMPO as MQIMPO
    from broker.mqi.constants.properties import MQMHBO as MQMHBO
    from broker.mqi.constants.properties import MQPD as MQPD
    from broker.mqi.constants.properties import MQRFH as MQRFH
    from broker.mqi.constants.properties import MQSMPO as MQSMPO
    from broker.mqi.constants.properties import MQTYPE as MQTYPE
    from broker.mqi.constants.properties import MQVL as MQVL
    from broker.mqi.constants.properties import MQVS as MQVS
    from broker.mqi.constants.subscriptions import MQMC as MQMC
    from broker.mqi.constants.subscriptions import MQSCOPE as MQSCOPE
    from broker.mqi.constants.subscriptions import MQSO as MQSO
    from broker.mqi.constants.subscriptions import MQSR as MQSR
    from broker.mqi.constants.subscriptions import MQSRO as MQSRO
    from broker.mqi.constants.subscriptions import MQSUB as MQSUB
    from broker.mqi.delivery_fields import Became as Became
    from broker.mqi.delivery_fields import Failure as Failure
    from broker.mqi.delivery_fields import Outcome as Outcome
    from broker.mqi.delivery_fields import PutExtras as PutExtras
    from broker.mqi.delivery_fields import Returned as Returned
    from broker.mqi.delivery_fields import ServiceOptions as ServiceOptions
    from broker.mqi.delivery_fields import Settled as Settled
    from broker.mqi.delivery_fields import Settlement as Settlement
    from broker.mqi.delivery_fields import check_seconds as check_seconds
    from broker.mqi.delivery_fields import dead_q_name as dead_q_name
    from broker.mqi.errors import CommandFailedError as CommandFailedError
    from broker.mqi.errors import MQError as MQError
    from broker.mqi.exception_text import log_exception as log_exception
    from broker.mqi.exception_text import tail as tail
    from broker.mqi.exception_text import text_of as text_of
    from broker.mqi.exception_text import traceback_of as traceback_of
    from broker.mqi.explanations import Cause as Cause
    from broker.mqi.explanations import Explanation as Explanation
    from broker.mqi.explanations import Finding as Finding
    from broker.mqi.history import HistoryRecord as HistoryRecord
    from broker.mqi.history import history_q_name as history_q_name
    from broker.mqi.history import read_record as read_record
    from broker.mqi.layouts.code_pages import characters as characters
    from broker.mqi.layouts.layouts import MQDLH as MQDLH
    from broker.mqi.layouts.layouts import MQTM as MQTM
    from broker.mqi.layouts.layouts import MQTMC2 as MQTMC2
    from broker.mqi.layouts.layouts import MQXQH as MQXQH
    from broker.mqi.layouts.rfh2 import MQRFH2 as MQRFH2
    from broker.mqi.reasons import MQCC as MQCC
    from broker.mqi.reasons import MQRC as MQRC
    from broker.mqi.replies import CommandReply as CommandReply
    from broker.mqi.step_fields import STEPS_MAX as STEPS_MAX
    from broker.mqi.step_fields import check_step_name as check_step_name
    from broker.mqi.structures import GetMessageOptions as GetMessageOptions
    from broker.mqi.structures import MessageDescriptor as MessageDescriptor
    from broker.mqi.structures import ObjectDescriptor as ObjectDescriptor
    from broker.mqi.structures import ObjectRecord as ObjectRecord
    from broker.mqi.structures import PutMessageOptions as PutMessageOptions
    from broker.mqi.structures import PutMessageRecord as PutMessageRecord
    from broker.mqi.structures import ResponseRecord as ResponseRecord

_NAMES = {
    "access": (
        "Access",
        "AccessStep",
    ),
    "constants.attribute_values": (
        "MQBND",
        "MQCLWL",
        "MQDL",
        "MQDSB",
        "MQDSE",
        "MQEXPI",
        "MQIAV",
        "MQIT",
        "MQMDS",
        "MQMMBI",
        "MQMON",
        "MQNC",
        "MQNPM",
        "MQPROP",
        "MQPRT",
        "MQQA",
        "MQREADA",
        "MQRL",
        "MQSP",
        "MQSQQM",
        "MQTC",
        "MQTT",
        "MQUS",
        "MQUSEDLQ",
    ),
    "constants.attributes": (
        "MQCA",
        "MQIA",
    ),
    "layouts.code_pages": ("characters",),
    "constants.connections": (
        "MQCNO",
        "MQCSP",
        "MQRD",
        "MQSCO",
        "MQSTAT",
    ),
    "constants.consumers": (
        "MQCBCF",
        "MQCBCT",
        "MQCBD",
        "MQCBDO",
        "MQCBT",
        "MQCS",
        "MQCTLO",
        "MQEC",
        "MQOP",
    ),
    "constants.descriptor": (
        "MQAN",
        "MQAT",
        "MQAT_USER_FIRST",
        "MQAT_USER_LAST",
        "MQCCSI",
        "MQEI",
        "MQENC",
        "MQFB",
        "MQFB_APPL_FIRST",
        "MQFB_APPL_LAST",
        "MQFB_SYSTEM_FIRST",
        "MQFB_SYSTEM_LAST",
        "MQFMT",
        "MQGS",
        "MQIAUT",
        "MQMF",
        "MQMF_ACCEPT_UNSUP_IF_XMIT_MASK",
        "MQMF_ACCEPT_UNSUP_MASK",
        "MQMF_REJECT_UNSUP_MASK",
        "MQMT",
        "MQMT_APPL_FIRST",
        "MQMT_APPL_LAST",
        "MQMT_SYSTEM_FIRST",
        "MQMT_SYSTEM_LAST",
        "MQOL",
        "MQPER",
        "MQPRI",
        "MQRO",
        "MQRO_ACCEPT_UNSUP_IF_XMIT_MASK",
        "MQRO_ACCEPT_UNSUP_MASK",
        "MQRO_REJECT_UNSUP_MASK",
        "MQSEG",
        "MQSS",
    ),
    "errors": (
        "CommandFailedError",
        "MQError",
    ),
    "exception_text": (
        "log_exception",
        "tail",
        "text_of",
        "traceback_of",
    ),
    "explanations": (
        "Cause",
        "Explanation",
        "Finding",
    ),
    "delivery_fields": (
        "Became",
        "Failure",
        "Outcome",
        "PutExtras",
        "Returned",
        "ServiceOptions",
        "Settled",
        "Settlement",
        "check_seconds",
        "dead_q_name",
    ),
    "history": (
        "HistoryRecord",
        "history_q_name",
        "read_record",
    ),
    "constants.identifiers": (
        "MQACT_NONE",
        "MQACTT",
        "MQCI_NEW_SESSION",
        "MQCI_NONE",
        "MQCONNID_NONE",
        "MQCT_NONE",
        "MQGI_NONE",
        "MQMI_NONE",
        "MQMTOK_NONE",
        "MQSID_NONE",
        "MQSIDT",
    ),
    "layouts.layouts": (
        "MQDLH",
        "MQTM",
        "MQTMC2",
        "MQXQH",
    ),
    "constants.objects": (
        "MQCQT",
        "MQHC",
        "MQHM",
        "MQHO",
        "MQOT",
        "MQQDT",
        "MQQT",
    ),
    "constants.options": (
        "MQBO",
        "MQCO",
        "MQDHF",
        "MQGMO",
        "MQMO",
        "MQOO",
        "MQPMO",
        "MQPMRF",
        "MQWI",
    ),
    "constants.properties": (
        "MQBMHO",
        "MQCMHO",
        "MQCOPY",
        "MQDMHO",
        "MQDMPO",
        "MQIMPO",
        "MQMHBO",
        "MQPD",
        "MQRFH",
        "MQSMPO",
        "MQTYPE",
        "MQVL",
        "MQVS",
    ),
    "reasons": (
        "MQCC",
        "MQRC",
    ),
    "replies": ("CommandReply",),
    "layouts.rfh2": ("MQRFH2",),
    "step_fields": ("STEPS_MAX", "check_step_name"),
    "structures": (
        "GetMessageOptions",
        "MessageDescriptor",
        "ObjectDescriptor",
        "ObjectRecord",
        "PutMessageOptions",
        "PutMessageRecord",
        "ResponseRecord",
    ),
    "constants.subscriptions": (
        "MQMC",
        "MQSCOPE",
        "MQSO",
        "MQSR",
        "MQSRO",
        "MQSUB",
    ),
}
"""The public names, by the modules that have them."""

_MODULES = {name: module for module, names in _NAMES.items() for name in names}

_RENAMED = {"HandlingTerms": "ServiceOptions", "PutTerms": "PutExtras"}
"""Old names, which warn until they go."""

__all__ = sorted(_MODULES)


if not TYPE_CHECKING:  # type checkers would take it that any name is there

    def __getattr__(name: str) -> object:
        if name in _RENAMED:
            from broker.deprecated import warn  # seldom used

            warn(name, name := _RENAMED[name])
        module = _MODULES.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{module}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
