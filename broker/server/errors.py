"""The errors of a daemon, written for the operator who reads its log: those that end it, and that of a reload."""


class StartError(Exception):
    """The daemon cannot start; the text says what to change. Lines to write for that, if there are some, are a note."""

    def __init__(self, text: str, lines: str = "") -> None:
        super().__init__(text)
        if lines:
            self.add_note(lines)


class ReloadError(Exception):
    """The configuration cannot be used by a daemon that runs; the text says why. Nothing has changed."""


class StoreLostError(Exception):
    """The store has failed while the daemon ran. What was acknowledged is in it; a restart finds out the rest."""
