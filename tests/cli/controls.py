"""Characters that end a line, or do something to a terminal: clients may not have them written there."""

CONTROLS = [
    "\x00",
    "\r",
    "\x1b",
    "\x7f",
    "\x85",
    "\x9b",
    "\u2028",
    "\u2029",
    "\u202e",
    "\u2066",
    "\ufeff",
    "\udc80",
]
