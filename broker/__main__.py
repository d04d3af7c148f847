"""The program `evermq`, which is also `python -m broker`."""

import signal
import sys


def main() -> None:
    """Load the command line and run it. Ctrl-C ends it quietly from the start, while it loads too."""
    interruptible = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # and not told to ignore it
    if interruptible:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from broker.cli import main as program
    from broker.cli.terminal.terminal import show_traceback

    sys.excepthook = show_traceback
    if interruptible:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    program()


if __name__ == "__main__":
    main()
