"""The command `warpwright`, in this process. It imports neither NumPy nor the rest of the package."""

from __future__ import annotations

import signal
import sys


def main() -> int:
    """Runs the command with the words of the command line. Returns the exit status."""
    from ._warpwright import main

    # Ctrl-C ends the process, or is handled by the verb, as in the program without Python.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.stdout.flush()
    return main(["warpwright", *sys.argv[1:]])
