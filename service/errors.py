"""Every error that Headcount raises on purpose, in one tree, with the HTTP problem that each becomes.

    HeadcountError
    ├── Refused                     422 validation                 understood, and can't be answered as asked
    │   ├── UnsupportedCombination  422 unsupported-combination    the parts don't go together
    │   └── NotPlannedYet           422 not-planned-yet            known, and a part of it isn't planned yet
    ├── UnknownKey                  422 unknown-model, -gpu, -engine, -workload; 404 in a path
    ├── MalformedJson               400 malformed-json             not JSON, or JSON that is ambiguous
    ├── InvalidDocument             422 validation                 JSON of another shape than asked for
    ├── InvalidParameters           400 invalid-parameters         query parameters that can't be read
    ├── NotStored                   404 not-found                  no such plan or decision
    ├── StoreUnavailable            503 unavailable                PostgreSQL doesn't answer; try again
    └── SetUpError                  none: one line and exit status 1 on the command line

The first three are raised by the arithmetic and defined in `service/capacity/errors.py`. The mapping to HTTP is
made in one place, `service/api/problems.py`.
"""

from service.capacity.errors import Fault, HeadcountError, NotPlannedYet, Refused, UnsupportedCombination

__all__ = [
    "Fault",
    "HeadcountError",
    "InvalidDocument",
    "InvalidParameters",
    "MalformedJson",
    "NotPlannedYet",
    "NotStored",
    "Refused",
    "SetUpError",
    "StoreUnavailable",
    "UnknownKey",
    "UnsupportedCombination",
]


class UnknownKey(Refused):
    """A catalog key, or a version of it, that doesn't exist; names the nearest keys that do."""

    def __init__(self, kind: str, key: str, nearest: tuple[str, ...], fault: Fault) -> None:
        """Keep what was asked for and the keys nearest to it, best first."""
        super().__init__(fault)
        self.kind = kind
        self.key = key
        self.nearest = nearest


class MalformedJson(HeadcountError):
    """Bytes that are not JSON, or that two readers would read differently (duplicate keys, NaN)."""

    def __init__(self, fault: Fault) -> None:
        """Keep where it went wrong."""
        super().__init__(fault.detail)
        self.fault = fault


class InvalidDocument(Refused):
    """Well-formed JSON that doesn't have the shape asked for: a wrong type, bound or field name."""


class InvalidParameters(HeadcountError):
    """Query parameters that are unknown, repeated or unreadable."""

    def __init__(self, *faults: tuple[str, str]) -> None:
        """Keep (parameter name, what is wrong with it) pairs."""
        super().__init__("; ".join(f"{name}: {detail}" for name, detail in faults))
        self.faults = faults


class NotStored(HeadcountError):
    """A stored thing that was asked for by id and isn't there."""


class StoreUnavailable(HeadcountError):
    """PostgreSQL can't be reached or didn't answer in time. Asking again is safe: it is the same plan."""


class SetUpError(HeadcountError):
    """Something about the machine or the settings stops a command: one readable line, exit status 1."""
