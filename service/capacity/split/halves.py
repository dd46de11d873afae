"""A workload parted at one length, and each part counted in pools of its own."""

import msgspec
import numpy as np

from service.capacity.lengths import cells_of
from service.capacity.occupancy.steps import Steps
from service.capacity.question import Question
from service.capacity.split.counting import Costs, Counted, costs_of, counted
from service.capacity.split.pair import Pair
from service.capacity.split.parting import Lengths, RouteBy, parts_of, short_window
from service.capacity.workload import Rows


class Traffic(msgspec.Struct, frozen=True, kw_only=True):
    """The requests of a question, and the mixed pools in which they all run."""

    question: Question
    lengths: Lengths
    route_by: RouteBy
    whole: Steps
    mixed: Counted
    tau: float
    costs: Costs

    @property
    def rejected(self) -> float:
        """The share of all requests whose prompt leaves no room in the window: they are in neither pool."""
        window = self.question.levers.max_model_len
        if isinstance(self.lengths, Rows):
            return sum(prompt >= window for prompt, _ in self.lengths.rows) / len(self.lengths.rows)
        first, last, _, _ = cells_of(self.lengths, window).T
        counts = np.array([count for *_, count in self.lengths.counts], dtype=np.float64)
        beyond = np.maximum(last - np.maximum(first, window - 1), 0) / (last - first)
        return float((counts * beyond).sum() / counts.sum())


class Half(msgspec.Struct, frozen=True, kw_only=True):
    """The short requests, or the long ones, in pools of their own."""

    question: Question
    """With the window of these pools."""
    counted: Counted
    of_requests: float
    in_flight: float
    """Share of the requests that run at a time."""
    of_kv: float
    """Share of the blocks that are held at a time."""


class Halves(msgspec.Struct, frozen=True, kw_only=True):
    """A split. A half without requests is null; then there is no pair."""

    split_at: int
    short: Half | None
    long: Half | None
    pair: Pair | None


def halves_of(traffic: Traffic, at: int) -> Halves:
    """Part the requests at a length and count both parts."""
    question, window = traffic.question, traffic.question.levers.max_model_len
    if at >= window:
        return Halves(split_at=at, short=_all_in(traffic, window), long=None, pair=None)
    route_by = traffic.route_by
    short, long = parts_of(traffic.lengths, at=at, window=window, route_by=route_by)
    if not short.beginning.any():
        return Halves(split_at=at, short=None, long=_all_in(traffic, window), pair=None)
    shorter = short_window(traffic.lengths, at=at, window=window, route_by=route_by)
    if not long.beginning.any():
        return Halves(split_at=at, short=_all_in(traffic, shorter), long=None, pair=None)
    questions = (_with_window(question, shorter), question)
    parts = list(zip(questions, (short, long), strict=True))
    counts = [counted(one, part, traffic.costs, traffic.tau) for one, part in parts]
    requests = _long_share(*(float(part.beginning.sum()) for _, part in parts))
    in_flight = _long_share(*(count.steps for count in counts))
    kv = _long_share(*(_held(traffic, part, count) for (_, part), count in zip(parts, counts, strict=True)))
    cap = question.levers.max_num_seqs
    return Halves(
        split_at=at,
        short=Half(
            question=questions[0], counted=counts[0], of_requests=1 - requests, in_flight=1 - in_flight, of_kv=1 - kv
        ),
        long=Half(question=question, counted=counts[1], of_requests=requests, in_flight=in_flight, of_kv=kv),
        pair=Pair(
            long_share=in_flight,
            mixed=traffic.mixed.admitted(cap),
            short=counts[0].admitted(cap),
            long=counts[1].admitted(cap),
        ),
    )


def _all_in(traffic: Traffic, window: int) -> Half:
    """All requests in one kind of pool."""
    question = _with_window(traffic.question, window)
    count = counted(question, traffic.whole, traffic.costs, traffic.tau)
    return Half(question=question, counted=count, of_requests=1.0, in_flight=1.0, of_kv=1.0)


def _with_window(question: Question, window: int) -> Question:
    levers = msgspec.structs.replace(question.levers, max_model_len=window)
    return msgspec.structs.replace(question, levers=levers)


def _held(traffic: Traffic, part: Steps, count: Counted) -> float:
    """Blocks that a part holds, on the fullest stage of the mixed pools."""
    weights = part.weights(count.running)
    return float((weights * costs_of(traffic.mixed.rank, len(weights), traffic.costs)).sum())


def _long_share(short: float, long: float) -> float:
    return long / (short + long)
