"""What a release of a serving engine is to the planner."""

import msgspec

from service.capacity.figures import Figure


class Engine(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The defaults and rules of one engine release.

    `generic` is no real engine: a share of the driver-reported memory, one flat reserve, no groups, no null block.
    """

    gpu_memory_utilization: Figure[float]
    reserve_bytes: Figure[int]
    block_size: Figure[int]
    """Tokens of one block."""
    notes: str | None
