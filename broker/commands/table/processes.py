"""The attributes of process definitions, in the order in which DISPLAY prints them."""

from __future__ import annotations

from broker.commands.table.forms import Integer, Name, Text
from broker.commands.table.queues import QSGDISP
from broker.commands.table.row import Acts, Attribute, Origin
from broker.mqi.constants.attributes import MQCA, MQIA
from broker.mqi.constants.descriptor import MQAT

# TPF comes before DEF: both are the same number, and DISPLAY prints the first word. By default handlers written in
# Python serve a process, as on TPF; only an explicit UNIX asks for a command, and only by way of an initiation queue.
APPLICATION_TYPES = {
    "CICS": MQAT.CICS.value,
    "DOS": MQAT.DOS.value,
    "IMS": MQAT.IMS.value,
    "MVS": MQAT.MVS.value,
    "NOTESAGENT": MQAT.NOTES_AGENT.value,
    "NSK": MQAT.NSK.value,
    "OPENVMS": MQAT.VMS.value,
    "OS2": MQAT.OS2.value,
    "OS400": MQAT.OS400.value,
    "TPF": MQAT.TPF.value,
    "UNIX": MQAT.UNIX.value,
    "WINDOWS": MQAT.WINDOWS.value,
    "WINDOWSNT": MQAT.WINDOWS_NT.value,
    "WLM": MQAT.WLM.value,
    "DEF": MQAT.TPF.value,
}

PROCESS = (
    Attribute("PROCESS", MQCA.PROCESS_NAME, Name(), origin=Origin.NAME),
    Attribute("ALTDATE", MQCA.ALTERATION_DATE, Text(12), origin=Origin.KEPT),
    Attribute("ALTTIME", MQCA.ALTERATION_TIME, Text(8), origin=Origin.KEPT),
    Attribute("APPLICID", MQCA.APPL_ID, Text(256)),
    Attribute("APPLTYPE", MQIA.APPL_TYPE, Integer(0, 999999999, APPLICATION_TYPES), MQAT.TPF.value),
    Attribute("DESCR", MQCA.PROCESS_DESC, Text(64), acts=Acts.PROGRAMS),
    Attribute("ENVRDATA", MQCA.ENV_DATA, Text(128)),
    QSGDISP,
    Attribute("USERDATA", MQCA.USER_DATA, Text(128)),
)
