"""People in place of running requests: how many conversations the users of a deployment serve."""

from fractions import Fraction
from math import floor

from service.capacity.answer import People
from service.capacity.occupancy.crowd import Crowd
from service.capacity.occupancy_answer import METHOD
from service.capacity.question import Question, Sessions
from service.capacity.rungs import Number, Operand, number
from service.capacity.units import exact, rounded


def people_of(question: Question, crowds: tuple[Crowd, ...] | None, admitted: int) -> People | None:
    """Turn running users into people, and free blocks into warm conversations."""
    if question.sessions is None:
        return None
    share, said, operands = _active_share(question.sessions)
    running = Operand("users", admitted, "users", "users.admitted", "exact")
    return People(
        people=number(
            floor(admitted / share),
            "people",
            f"{admitted:,} users {said}",
            running,
            *operands,
            source="users.admitted and the question",
            certainty="exact",
        ),
        warm_sessions=None if crowds is None else _warm(question, crowds, running),
    )


def _warm(question: Question, crowds: tuple[Crowd, ...], running: Operand) -> Number:
    """Count idle conversations in what running requests leave free, on the stage that has room for fewest."""
    copies = question.levers.data_parallel
    users = int(running.value) // copies
    found = [floor(max(crowd.blocks - users * crowd.mean, 0) / crowd.final) for crowd in crowds]
    warm, crowd = min(zip(found, crowds, strict=True), key=lambda pair: pair[0])
    return number(
        copies * warm,
        "conversations",
        f"({crowd.blocks:,} blocks - {users:,} users x {rounded(crowd.mean):,g} held on average)"
        f" // {rounded(crowd.final):,g} of a whole conversation" + (f" x {copies} pools" if copies > 1 else ""),
        running,
        Operand("mean_held_blocks", rounded(crowd.mean), "blocks", METHOD, "measured"),
        Operand("mean_final_blocks", rounded(crowd.final), "blocks", "the workload", "measured"),
        source=METHOD,
        certainty="assumed",
    )


def _active_share(sessions: Sessions) -> tuple[Fraction, str, tuple[Operand, ...]]:
    think, turn = sessions.think_seconds, sessions.turn_seconds
    if think is not None and turn is not None:
        share = exact(turn) / (exact(think) + exact(turn))
        operands = tuple(
            Operand(name, seconds, "s", "the question", "exact")
            for name, seconds in (("think_seconds", think), ("turn_seconds", turn))
        )
        return share, f"x ({think:g} s of thinking + {turn:g} s of a turn) / {turn:g} s, rounded down", operands
    assert sessions.active_share is not None
    operand = Operand("active_share", sessions.active_share, "share of time", "the question", "exact")
    return exact(sessions.active_share), f"/ {sessions.active_share:g} of the time active, rounded down", (operand,)
