"""How many tokens the cache holds that an engine tells the share of: found by the labels that both have."""

from collections.abc import Iterable, Mapping

from service.readers.metrics.samples import Labels

_LONGEST_NUMBER = 15
_MOST_LOOKUPS = 64
"""Combinations of label names that are looked up; engines of one kind have one."""

_Tokens = tuple[float, bool] | None
"""Tokens of a cache, and whether they are blocks times their size; null where the cache doesn't say."""


class Pools:
    """The caches of all engines in one text or answer."""

    def __init__(self, caches: Iterable[tuple[Labels, float]]) -> None:
        self._by_names: dict[tuple[str, ...], list[tuple[dict[str, str], _Tokens]]] = {}
        for labels, value in caches:
            known = dict(labels)
            self._by_names.setdefault(tuple(known), []).append((known, _tokens_of(known, value)))
        self._lookups: dict[tuple[tuple[str, ...], tuple[str, ...]], dict[tuple[str, ...], set[_Tokens]]] = {}

    def tokens_for(self, labels: Labels) -> tuple[float, bool] | str:
        """The tokens of the only cache that agrees in every label that both have, or why they aren't known."""
        known = dict(labels)
        fitting: set[_Tokens] = set()
        for names, caches in self._by_names.items():
            common = tuple(name for name in names if name in known)
            lookup = self._lookups.get((names, common))
            if lookup is None:
                if len(self._lookups) == _MOST_LOOKUPS:
                    return "engines and caches have too many kinds of labels"
                lookup = self._lookups[names, common] = {}
                for cache, tokens in caches:
                    lookup.setdefault(tuple(cache[name] for name in common), set()).add(tokens)
            fitting |= lookup.get(tuple(known[name] for name in common), set())
        stated = {tokens for tokens in fitting if tokens is not None}
        if not stated:
            return "the tokens of the cache are not stated"
        if len(fitting) > 1:
            return "more than one cache has the labels of an engine"
        return stated.pop()


def _tokens_of(labels: Mapping[str, str], value: float) -> _Tokens:
    """Tokens of a cache, from a value that counts them or from labels that do."""
    if "block_size" not in labels:
        return (value, False) if 0 < value < float("inf") else None
    whole = _number(labels, "kv_cache_size_tokens")
    if whole:
        return whole, False
    blocks, size = _number(labels, "num_gpu_blocks"), _number(labels, "block_size")
    return (blocks * size, True) if blocks and size else None


def _number(labels: Mapping[str, str], name: str) -> float | None:
    text = labels.get(name, "")
    return float(text) if text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER else None
