"""What an answer about a split says unasked, under stable codes."""

from math import ceil

from service.capacity.answer import Caveat
from service.capacity.split.halves import Halves, Traffic
from service.capacity.units import exact
from service.capacity.workload import Rows
from service.capacity.workload_caveats import ROWS_TIMES_RISK, length_caveats

_FEW_USERS = 20


def caveats_of(traffic: Traffic, halves: Halves | None) -> tuple[Caveat, ...]:
    """List the caveats of a split, the one of its routing first."""
    found = [] if halves is None else [*_of_routing(traffic, halves), *_of_pair(traffic, halves)]
    if traffic.rejected:
        text = (
            f"The prompts of {100 * traffic.rejected:.3g}% of the requests leave no room in a window of"
            f" {traffic.question.levers.max_model_len:,} tokens: they are in neither pool, nor in the mixed one."
        )
        found.append(Caveat("some_requests_are_rejected", text))
    return (*found, *length_caveats(traffic.question))


def _of_routing(traffic: Traffic, halves: Halves) -> list[Caveat]:
    if traffic.route_by == "total":
        text = (
            "A router knows a request's prompt, not its output: by the total it can only route by max_tokens, or by a"
            " guess. route_by prompt says what the prompt alone buys."
        )
        return [Caveat("outputs_are_not_known_when_routing", text)]
    if halves.short is None:
        return []
    text = (
        f"The window of the short pool, {halves.short.question.levers.max_model_len:,} tokens, leaves room for the"
        " longest output that comes after a short prompt here; a longer one would be cut."
    )
    return [Caveat("short_window_leaves_room_for_outputs", text)]


def _of_pair(traffic: Traffic, halves: Halves) -> list[Caveat]:
    if halves.pair is None:
        return []
    found = [
        Caveat(
            "shares_of_traffic_wander",
            "The GPUs are divided by the shares of this workload. With more long requests in flight than"
            " split.long_share_borne their pool is full while the other one idles, and mixed pools would hold more.",
        ),
        Caveat(
            "two_pools_queue_apart",
            "Room that is free in one pool is of no use to the other: where requests arrive at random, a part of the"
            " gain is lost, the larger the fewer GPUs there are.",
        ),
        Caveat(
            "steps_count_as_equally_long",
            "Shares in flight are of steps. A step over long requests reads more and may take longer: then more of them"
            " run at a time than counted here.",
        ),
    ]
    if 0 < halves.pair.long < _FEW_USERS:
        text = (
            f"A long pool holds {halves.pair.long:,} users, and whole ones only: a little more memory, or requests that"
            " are slightly longer, may change the gain by as much as it is."
        )
        found.append(Caveat("few_long_requests_decide", text))
    question, lengths = traffic.question, traffic.lengths
    if isinstance(lengths, Rows) and halves.long is not None:
        long = round(halves.long.of_requests * len(lengths.rows))
        if long * question.risk < ROWS_TIMES_RISK:
            text = (
                f"{long:,} rows are long, and say little about the rarest of them: give"
                f" {ceil(ROWS_TIMES_RISK / exact(question.risk)):,} or more for a risk of {question.risk:g}."
            )
            found.append(Caveat("few_long_rows", text))
    return found
