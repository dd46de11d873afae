"""The header that offers an observed reserve beside an answer, whose bytes it leaves as they are."""

import re

from service.capacity.question import ObservedReserve
from service.capacity.units import Estimate

NAME = "Headcount-Offered-Reserve"

OFFER_HEADER = (
    NAME,
    (
        "What start-ups of the same deployment kept back, in bytes of one GPU, where some are recorded and the question"
        " leaves the reserve to the engine: `reserve=observed, start-ups=3, low=..., best=..., high=...,"
        ' on="2026-11-30", newest="obs_..."`. The first is what to ask with; the answer itself is without it.'
    ),
)

_FORM = re.compile(
    r"reserve=observed, start-ups=(?P<start_ups>\d{1,9}), low=(?P<low>-?\d{1,15}), best=(?P<best>-?\d{1,15}),"
    r' high=(?P<high>-?\d{1,15}), on="(?P<on>\d{4}-\d\d-\d\d)", newest="(?P<newest>obs_[0-9a-f]{64})"',
    re.ASCII,
)


def headers_of(offer: ObservedReserve | None) -> dict[str, str]:
    """The header with an offer, a dictionary of structured fields (RFC 9651); nothing without one."""
    if offer is None:
        return {}
    amount = offer.bytes
    text = (
        f"reserve=observed, start-ups={offer.start_ups}, low={amount.low}, best={amount.best}, high={amount.high},"
        f' on="{offer.on}", newest="{offer.observation}"'
    )
    return {NAME: text}


def offer_in(header: str) -> ObservedReserve | None:
    """Read the header of an answer; null for a text of another form."""
    found = _FORM.fullmatch(header)
    if found is None:
        return None
    return ObservedReserve(
        observation=found["newest"],
        on=found["on"],
        start_ups=int(found["start_ups"]),
        bytes=Estimate(int(found["low"]), int(found["best"]), int(found["high"])),
    )
