"""How far measured lengths can be believed: what contradicts itself is refused or said, and so is what is thin."""

from collections.abc import Sequence

from service.capacity.workload import Bin, Found, Marginal, Marginals
from service.errors import Fault, Refused
from service.readers.question import MOST

_FEW = 1_000
_MUCH_OPEN = 0.05
_TOO_MUCH_OPEN = 0.20
_SLIGHT = 0.01
"""The share by which figures that are not read at one instant may miss each other."""
_TOO_FAR = 0.10
_BLOCK = 256
"""Tokens by which the last block of a request may be larger than what is in it."""
_MOST_BINS = 512
"""Every bin of one side is paired with every bin of the other."""


def placed(pointer: str, place: str, bins: Sequence[Bin], tokens: int | None) -> tuple[int | None, list[Found]]:
    """Check that so many tokens can be those of these bins, and bring them between the least and the most.

    `pointer` leads to the sum, `place` says it to people. Raises `Refused` where the sum misses both by far: then it
    is not of the same requests.
    """
    if tokens is None or not bins:
        return tokens, []
    # Engines' first bins hold requests without a token too.
    never_less = sum(part.count * (part.lower + 1) for part in bins if part.lower)
    least = sum(part.count * (part.lower + 1) for part in bins)
    most = None if any(part.upper is None for part in bins) else sum(part.count * (part.upper or 0) for part in bins)
    between = f"{least:,} and {most:,}" if most is not None else f"{least:,} and more"
    if tokens < (1 - _SLIGHT) * never_less or (most is not None and tokens > (1 + _SLIGHT) * most):
        detail = f"{place}: {tokens:,} tokens can't be the sum of these bins, which hold {between}"
        raise Refused(Fault(pointer, detail))
    nearest = max(tokens, least) if most is None else min(max(tokens, least), most)
    if nearest == tokens:
        return tokens, []
    text = (
        f"{place}: {tokens:,} tokens are not among the sums that the bins can have ({between}) and were taken as the"
        f" nearest, {nearest:,}."
    )
    return nearest, [Found("sum_is_outside_of_the_bins", text)]


def can_be_held(tokens: float, prompt: Marginal, output: Marginal) -> bool:
    """Whether running requests can hold so much on average: not more than the longest prompt and output together."""
    longest = [side.bins[-1].upper for side in (prompt, output) if side.bins]
    if None in longest:
        return True
    return tokens <= (1 + _TOO_FAR) * sum(upper for upper in longest if upper is not None) + _BLOCK


def checked(marginals: Marginals, pointers: tuple[str, str], closing: str) -> Marginals:
    """Check both sides against each other, and say where the evidence is thin.

    `pointers` are the places of the two sides, `closing` says how their open bins can be closed. Raises `Refused`.
    """
    found = list(marginals.found)
    sides = (("prompts", marginals.prompt), ("outputs", marginals.output))
    for (words, side), pointer in zip(sides, pointers, strict=True):
        _check_size(words, side, pointer)
        found += _open(words, side, pointer, closing)
    prompts, outputs = (_requests(side) for _, side in sides)
    if prompts != outputs:
        counts = f"{prompts:,} prompts and {outputs:,} outputs were counted"
        if abs(prompts - outputs) > max(_TOO_FAR * max(prompts, outputs), 1):
            raise Refused(Fault(pointers[1], f"{counts}: they can't be of the same requests"))
        found.append(Found("counts_differ", f"{counts}: not all are of the same requests."))
    fewest = min(prompts, outputs)
    if fewest < _FEW:
        text = f"Only {fewest:,} requests were counted: below {_FEW:,} the long ones are a matter of chance."
        found.append(Found("few_requests", text))
    return Marginals(
        prompt=marginals.prompt,
        output=marginals.output,
        mean_held_tokens=marginals.mean_held_tokens,
        found=_once(found),
    )


def _check_size(words: str, side: Marginal, pointer: str) -> None:
    requests = _requests(side)
    if not requests:
        raise Refused(Fault(pointer, f"no {words} were counted: give at least one request"))
    if requests > MOST or (side.tokens or 0) > MOST:
        raise Refused(Fault(pointer, f"{words} add up to more than {MOST:,}"))
    if len(side.bins) > _MOST_BINS:
        raise Refused(Fault(pointer, f"{words} lie in {len(side.bins):,} bins; the most is {_MOST_BINS:,}"))


def _open(words: str, side: Marginal, pointer: str, closing: str) -> list[Found]:
    count = side.bins[-1].count if side.bins[-1].upper is None else 0
    share = count / _requests(side)
    if share <= _MUCH_OPEN:
        return []
    said = f"{share:.1%} of the {words} have more than {side.bins[-1].lower:,} tokens, and nobody counted how many more"
    if share > _TOO_MUCH_OPEN:
        raise Refused(Fault(pointer, f"{said}: {closing}"))
    return [Found("much_is_in_the_open_bin", f"{said}.")]


def _requests(side: Marginal) -> int:
    return sum(part.count for part in side.bins)


def _once(found: Sequence[Found]) -> tuple[Found, ...]:
    """Each code once, with all that was found under it."""
    texts: dict[str, list[str]] = {}
    for each in found:
        kept = texts.setdefault(each.code, [])
        if each.text not in kept:
            kept.append(each.text)
    return tuple(Found(code, " ".join(parts)) for code, parts in texts.items())
