"""The largest window that fits where the reserve depends on the window: releases that profile all of it in one step."""

import msgspec

from service.capacity.deployment import Deployment, deploy
from service.capacity.largest_window import largest_window
from service.capacity.question import Basis, Question
from service.capacity.reserve_rules import Profiled


def largest_of_all(question: Question, deployment: Deployment, users: int, basis: Basis) -> int | str:
    """Find the largest window in which so many users fit; a reason where there is none.

    Windows past the last one that is profiled whole are profiled in steps, and keep back as much whatever their
    length: one of them may fit where a shorter one doesn't. Below, what is kept back grows with the window.
    """
    whole, limit = _profiled_whole(question), question.model.spec.max_position_embeddings.value
    if not whole:
        return largest_window(question, deployment, users, basis)
    if limit > whole:
        found = _at(question, limit, users, basis)
        if isinstance(found, int) and found > whole:
            return found
    fits, too_long, reason = 0, min(whole, limit) + 1, ""
    while too_long - fits > 1:
        middle = (fits + too_long) // 2
        found = _at(question, middle, users, basis)
        if isinstance(found, int) and found >= middle:
            fits = middle
        else:
            too_long, reason = middle, found if isinstance(found, str) else reason
    return fits or reason or "one token for each user takes more than there is"


def _profiled_whole(question: Question) -> int:
    """Windows of up to so many tokens change what is kept back; 0: none does."""
    rule, levers = question.engine.spec.reserve_rule, question.levers
    return rule.whole_windows_up_to if isinstance(rule, Profiled) and levers.reserve_bytes is None else 0


def _at(question: Question, window: int, users: int, basis: Basis) -> int | str:
    """The largest window with what is kept back for one of so many tokens."""
    levers = msgspec.structs.replace(question.levers, max_model_len=window)
    other = msgspec.structs.replace(question, levers=levers)
    return largest_window(other, deploy(other), users, basis)
