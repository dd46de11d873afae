"""What the arithmetic refuses. The whole error tree is drawn in `service/errors.py`."""

import msgspec


class Fault(msgspec.Struct, frozen=True):
    """One thing wrong with a question: where it is and what to do about it."""

    pointer: str
    """JSON Pointer into the question, for example `/levers/tensor_parallel`; empty for the whole."""
    detail: str


class HeadcountError(Exception):
    """Base of every error that Headcount raises on purpose."""


class Refused(HeadcountError):
    """A question that was understood and can't be answered as asked."""

    def __init__(self, *faults: Fault) -> None:
        """Keep the faults, at least one."""
        super().__init__("; ".join(fault.detail for fault in faults))
        self.faults = faults


class UnsupportedCombination(Refused):
    """The parts of the question are fine one by one, but not together."""


class NotPlannedYet(Refused):
    """A model or GPU that is known, but of which a part isn't planned, or a figure isn't known."""
