"""Ctrl-C and its like while the embedded PostgreSQL starts and stops: late rather than at the wrong moment."""

import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

_NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def signals_held_back() -> Iterator[None]:
    """Let no handler of a signal that asks to stop run in here; those that came run at the end.

    Handlers raise, and between a process's or folder's making and the note of it that would leave it behind. Blocking
    the signals isn't enough: threads of libraries take them then. Signals that no Python code handles are left alone.
    """
    # Handlers run in the main thread only.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    with ExitStack() as stack:
        stack.callback(_raise_signals, came)
        for number in _NUMBERS:
            handler = signal.getsignal(number)
            if callable(handler):
                stack.callback(signal.signal, number, handler)
                signal.signal(number, lambda number, _: came.append(number))
        yield


def _raise_signals(came: list[int]) -> None:
    for number in dict.fromkeys(came):
        signal.raise_signal(number)
