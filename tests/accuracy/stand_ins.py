"""What stands in where no start-up tells what a kind of deployment keeps back: one rule, bundled and cross-validated.

A figure that is carried over from another release is less sure than one that was measured, and by more than chance:
constants move by 1 to 3 GiB between releases without a trend. So the most likely value is the nearest release's, and
the range goes as far as those of all other releases do, whichever is left of them. CUDA graphs are no part of what is
carried: whether they are in a release's constant is known, so they are taken off and put back on.

A plain kind, of any card, cache, model and format, is carried over for as many ranks. Another number of ranks says
nothing: NCCL and its buffers come with the second. A special kind is carried over as what it keeps beyond the plain
one: what its kernels take more is the kind's, and the rest is the release's.
"""

from collections.abc import Mapping, Sequence

import msgspec

from service.capacity.reserve_rules import Overhead

SOURCE = "start-ups of other releases: no start-up of this kind is known"


class Release(msgspec.Struct, frozen=True, kw_only=True):
    """Releases that share all of their overheads, and those that were measured."""

    minors: tuple[int, int]
    """From one minor version to another."""
    rule: str
    """Which rule they have, alone or with others that keep something else back of some kind."""
    graphs: int
    """Bytes of CUDA graphs that are part of each overhead."""
    measured: Mapping[Overhead, Overhead]
    """By kind."""

    def distance(self, minor: int) -> int:
        """How many minor versions a release is away."""
        first, last = self.minors
        return max(first - minor, minor - last, 0)


def kind_of(overhead: Overhead) -> Overhead:
    """Keep what says of which deployments it is, without what was measured."""
    return msgspec.structs.replace(overhead, low=0, best=0, high=0, logs=0, source="")


def release_of(minor: int, releases: Sequence[Release]) -> Release:
    """The one that a minor version is of."""
    return next(one for one in releases if one.distance(minor) == 0)


def stand_in(kind: Overhead, minor: int, releases: Sequence[Release]) -> Overhead | None:
    """What is expected of a kind that wasn't measured in a release; None where no release with another rule knows it.

    Releases that share a rule are told apart only where something is known to have changed between them, so one of
    them says nothing of another.
    """
    own = release_of(minor, releases)
    others = [one for one in _one_per_rule(minor, releases) if one.rule != own.rule and kind in one.measured]
    if is_plain(kind):
        return _over([_shifted(one.measured[kind], own.graphs - one.graphs) for one in others])
    plain = _plain(kind, minor, releases)
    beside = [_plain(kind, one.minors[0], releases) for one in others]
    more = _over(
        [_shifted(one.measured[kind], -its.best) for one, its in zip(others, beside, strict=True) if its is not None]
    )
    if plain is None or more is None:
        return None
    return msgspec.structs.replace(
        more, low=plain.low + more.low, best=plain.best + more.best, high=plain.high + more.high
    )


def is_plain(overhead: Overhead) -> bool:
    """Whether it is of any card, cache, model and format, at some number of ranks."""
    return not (overhead.cards or overhead.caches or overhead.weights) and overhead.experts is None


def _one_per_rule(minor: int, releases: Sequence[Release]) -> list[Release]:
    """The nearest of each rule, the nearest of all first."""
    nearest: dict[str, Release] = {}
    for one in sorted(releases, key=lambda one: one.distance(minor)):
        nearest.setdefault(one.rule, one)
    return list(nearest.values())


def _plain(kind: Overhead, minor: int, releases: Sequence[Release]) -> Overhead | None:
    """The plain kind of the fewest ranks that a special one is of, in the range of all that it is of."""
    fewest, most = kind.tensor_parallel
    plains = {one for release in releases for one in release.measured if is_plain(one)}
    within = [one for one in plains if one.tensor_parallel[0] <= most and fewest <= one.tensor_parallel[1]]
    measured = release_of(minor, releases).measured
    found = [
        measured.get(one) or stand_in(one, minor, releases)
        for one in sorted(within, key=lambda one: one.tensor_parallel)
    ]
    return _over([one for one in found if one is not None])


def _over(found: Sequence[Overhead]) -> Overhead | None:
    """The first one's middle, in the range of all."""
    if not found:
        return None
    return msgspec.structs.replace(
        found[0],
        low=min(one.low for one in found),
        high=max(one.high for one in found),
        logs=0,
        source=SOURCE,
    )


def _shifted(overhead: Overhead, amount: int) -> Overhead:
    return msgspec.structs.replace(
        overhead, low=overhead.low + amount, best=overhead.best + amount, high=overhead.high + amount
    )
