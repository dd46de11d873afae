"""What an answer says unasked of the lengths that it was given."""

from math import ceil

from service.capacity.answer import Caveat
from service.capacity.occupancy.crowd import Crowd
from service.capacity.question import Question
from service.capacity.units import exact
from service.capacity.workload import Marginals, Mean, Rows, Total

ROWS_TIMES_RISK = 10
"""Below ten rows beyond the risk, the tail that decides is a handful of requests."""
_FEW_USERS = 20
_WINDOWS = 5
"""A pool of fewer full windows is full of a few requests, if they are long."""


def workload_caveats(question: Question, crowd: Crowd | None, window_blocks: int) -> list[Caveat]:
    """List the caveats of a question's workload; `window_blocks` are those of one full window."""
    if question.workload is None:
        return []
    return [
        *_of_counts(crowd),
        *length_caveats(question),
        *([] if crowd is None else _of_giants(crowd, window_blocks)),
        *_of_prefix_and_sessions(question),
    ]


def _of_counts(crowd: Crowd | None) -> list[Caveat]:
    found = [
        Caveat(
            "paged_is_an_observation",
            "The paged count is the mean fit: what runs when users hold the average. It is the throughput ceiling,"
            " not a guarantee: about half of the time the cache would need more, and requests queue or are"
            " preempted.",
        )
    ]
    if crowd is not None:
        found.append(
            Caveat(
                "risk_is_of_steps",
                "A risk is the share of steps at which that many running requests would need more blocks than there"
                " are, not the share of requests: an overflow queues or preempts, it doesn't fail. Requests are taken"
                " as independent; occupancy.with_drift says what is left where their mean wanders.",
            )
        )
    return found


def length_caveats(question: Question) -> list[Caveat]:
    """List what is weak about the lengths of a question, whatever is counted by them."""
    workload, found = question.workload, []
    match workload:
        case Total():
            found.append(
                Caveat(
                    "total_lengths_only",
                    "Total lengths say how long requests get, not how long they run, so counts can be off both ways"
                    " (0.9x to 4.4x on real traces): occupancy.bracket says between what. Give a joint histogram of"
                    " prompt and output lengths.",
                )
            )
        case Mean():
            found.append(
                Caveat(
                    "mean_length_only",
                    "One mean says nothing about the spread, so no users at a risk are counted, and the mean of final"
                    " lengths is not the mean held (0.47x to 1.69x on real traces). Give rows or a joint histogram.",
                )
            )
        case Marginals():
            known = workload.mean_held_tokens is not None
            found.append(
                Caveat(
                    "marginals_only",
                    "Which prompt had which output isn't known: counts pair them by chance"
                    + (", stretched to the mean held that was measured" if known else "")
                    + ", and occupancy.bracket says between what they lie. Give a joint histogram"
                    + ("." if known else ", or the mean held by running requests (KV use and running count)."),
                )
            )
            found += [Caveat(one.code, one.text) for one in workload.found]
        case Rows() if len(workload.rows) * question.risk < ROWS_TIMES_RISK:
            found.append(
                Caveat(
                    "few_rows",
                    f"{len(workload.rows):,} rows say little about rare long requests: give"
                    f" {ceil(ROWS_TIMES_RISK / exact(question.risk)):,} or more for a risk of {question.risk:g}.",
                )
            )
        case _:
            pass
    named = question.named_workload
    if named is not None:
        found += [Caveat(one.code, f"{named.key}: {one.text}") for one in named.spec.caveats]
    return found


def _of_giants(crowd: Crowd, window_blocks: int) -> list[Caveat]:
    found = []
    if crowd.users.best < _FEW_USERS and window_blocks * _WINDOWS > crowd.blocks:
        found.append(
            Caveat(
                "few_long_requests_decide",
                f"The pool holds fewer than {_WINDOWS} full windows and {crowd.users.best:,} users at the risk: whether"
                " it overflows is decided by single long requests.",
            )
        )
    if crowd.contradicted is not None:
        low, high = crowd.contradicted
        found.append(
            Caveat(
                "mean_held_contradicts_lengths",
                f"These lengths hold {low:,.0f} to {high:,.0f} tokens on average, however prompts and outputs go"
                " together, and the mean that was measured lies outside: a prefix was shared, or the figures are of"
                " other requests. Less than they hold is not counted on.",
            )
        )
    if crowd.lacking_prefix > 0:
        found.append(
            Caveat(
                "some_prompts_lack_the_prefix",
                f"{crowd.lacking_prefix:.3g} of the prompts are shorter than the shared prefix and can't begin with it;"
                " they are counted as if they did.",
            )
        )
    if crowd.beyond > 0:
        found.append(
            Caveat(
                "some_requests_never_fit",
                f"At {crowd.beyond:.3g} of all steps one request alone would hold more than the whole pool: it can't"
                " finish, whatever else runs. A shorter max_model_len keeps it out.",
            )
        )
    return found


def _of_prefix_and_sessions(question: Question) -> list[Caveat]:
    found = []
    if question.levers.shared_prefix_tokens:
        found.append(
            Caveat(
                "prefix_is_shared_while_all_run",
                "The prefix counts once because all running requests have it at the same time; the worst case counts"
                " it for each. A hit rate alone saves prefill, not blocks.",
            )
        )
    if question.sessions is not None:
        found += [
            Caveat(
                "prefix_cache_is_evictable",
                "Idle conversations stay in blocks that nobody needs and are evicted first: reuse never lowers the"
                " number of running users, and is not counted on.",
            ),
            Caveat(
                "hit_rate_falls_at_the_cap",
                "With as many users as are admitted few blocks are left for idle conversations: the hit rate that was"
                " measured at low load falls there, and prefill takes longer.",
            ),
        ]
    return found
