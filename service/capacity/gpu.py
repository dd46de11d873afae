"""What a GPU is to the planner."""

from typing import Literal

import msgspec

from service.capacity.figures import Certainty, Figure


class ReportedMemory(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The memory of one device as its driver reports it, in bytes.

    `certainty` is `measured` when a real card printed the figure, `assumed` when it was derived from the
    vendor's nominal size.
    """

    bytes: Figure[int]
    reader: str
    certainty: Certainty


class VisibleMemory(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The memory of one device as CUDA or ROCm shows it to a process, in bytes: what engines take their share of.

    It is what the driver reports less what firmware and driver keep for themselves. Cards of one name differ a little,
    by driver and by board: from `low` to `high`.
    """

    bytes: Figure[int]
    low: int
    high: int
    certainty: Certainty


class Gpu(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One GPU model (identity: name, memory and form factor). Rates are dense, per GPU, in the named unit."""

    name: str
    vendor: Literal["NVIDIA", "AMD", "Intel", "Google", "AWS"]
    architecture: str
    compute_capability: str | None
    nominal_memory_gb: Figure[int]
    reported_memory: ReportedMemory | None
    """Null when no source says what the driver shows and the nominal sizes conflict: such a GPU can't be planned."""
    visible_memory: VisibleMemory | None = None
    """Null where `reported_memory` is: nobody says what either would be. Versions stored before there was this field
    lack it, and are still read."""
    devices_per_package: int
    """Devices that software sees per package; the memory is one device's."""
    memory_type: str | None
    memory_bandwidth_gb_s: Figure[float] | None
    dense_bf16_tflops: Figure[float] | None
    dense_fp8_tflops: Figure[float] | None
    dense_fp4_tflops: Figure[float] | None
    dense_int8_tops: Figure[float] | None
    fp8_native: bool | None
    fp4_native: bool | None
    interconnect: str | None
    interconnect_bidirectional_gb_s: Figure[float] | None
    tdp_w: Figure[int] | None
    typical_gpus_per_node: int | None
    notes: str | None


def compute_capability(gpu: Gpu) -> tuple[int, int] | None:
    """The card's compute capability as (major, minor); null for those that have none."""
    if gpu.compute_capability is None:
        return None
    major, minor = gpu.compute_capability.split(".")
    return int(major), int(minor)


def is_one_of(gpu: Gpu, words: tuple[str, ...]) -> bool:
    """Whether one of the words is the card's vendor or in its architecture; without words every card is meant."""
    return not words or any(word in (gpu.vendor, *gpu.architecture.split()) for word in words)
