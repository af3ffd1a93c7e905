"""The command line, which alone prints and exits.

A mistake a user can mend is one line on stderr and exit code 2; nothing is half written.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import nullcontext, suppress
from types import FrameType
from typing import cast

from ensue.data.temporary import TEMPORARY
from ensue.errors import EnsueError
from ensue.interruption import signals_heard
from ensue.lines import printable_message

os.environ.setdefault("GOMP_SPINCOUNT", "2000")  # longer slows a busy machine, shorter an idle one
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # a process that forks after encoding would be warned


def _stop(number: int, frame: FrameType | None) -> None:
    """End the program by a signal: what is half written and what is temporary goes, as it would after an error."""
    with suppress(OSError, RuntimeError):  # the terminal has gone, or something is being written just now
        sys.stderr.write(f"ensue: stopped ({signal.Signals(number).name})\n")
    sys.exit(128 + number)


def main() -> None:
    """Run the command line."""
    from typer import Abort, BadParameter

    from ensue.cli.commands import make_app

    misuse = cast("type[BadParameter]", BadParameter.__mro__[1])  # Typer's own UsageError; before 0.29 it was click's
    app = make_app(*sys.argv[1:2])  # to build the options of all commands takes longer than to answer
    # The service ends its workers by signals, and answers what has been asked before it ends itself.
    ends = nullcontext() if sys.argv[1:2] == ["serve"] else signals_heard(_stop)
    try:
        with ends, TEMPORARY:
            code = app(prog_name="ensue", standalone_mode=False)
    except EnsueError as error:
        sys.stderr.write(f"ensue: {printable_message(str(error))}\n")
        sys.exit(2)
    except misuse as error:
        if len(sys.argv) < 2:
            error.show()  # the help
            sys.exit(2)
        command = [sys.argv[1]] if len(app.registered_commands) == 1 else []
        message = " ".join(error.format_message().split()).rstrip(".")
        sys.stderr.write(f"ensue: {printable_message(message)}; see `{' '.join(['ensue', *command, '--help'])}`\n")
        sys.exit(2)
    except Abort:
        sys.exit(1)
    except BrokenPipeError:  # the reader of a pipe has gone, as in `ensue … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    sys.exit(code if isinstance(code, int) else 0)
