"""Parameters of a decoder, counted apart by how they are kept and spread."""

from collections import Counter
from typing import Literal

Role = Literal[
    "attention",
    "keys and values",
    "latent projections",
    "state",
    "dense",
    "shared experts",
    "experts",
    "expert biases",
    "expert output biases",
    "norms and routers",
    "per-layer embeddings",
]
"""What a group of parameters is to quantisation and to tensor parallel:

- attention: query and output projections, sharded by heads
- keys and values: their projections, sharded as far as there are KV heads
- latent projections: down-projections to a latent and the indexer, whole on every rank
- state: the projections of recurrent layers
- dense, shared experts, experts: feed-forward
- expert biases: never quantised, divided with the experts' width; those of the output are whole on every rank
- per-layer embeddings: tables of which a token looks up one row, never quantised
- norms and routers: small, never quantised, whole on every rank (biases and convolutions of states among them)
"""

Tally = Counter[tuple[Role, int]]
"""Parameters by role and by the largest number of shards (0: no limit)."""


def tally(
    *,
    attention: int = 0,
    keys_and_values: int = 0,
    kv_heads: int = 0,
    latent: int = 0,
    state: int = 0,
    dense: int = 0,
    shared: int = 0,
    experts: int = 0,
    expert_biases: int = 0,
    expert_output_biases: int = 0,
    small: int = 0,
) -> Tally:
    """Parameters of one layer, or of a part of it."""
    counted: Tally = Counter(
        {
            ("attention", 0): attention,
            ("keys and values", kv_heads): keys_and_values,
            ("latent projections", 1): latent,
            ("state", 0): state,
            ("dense", 0): dense,
            ("shared experts", 0): shared,
            ("experts", 0): experts,
            ("expert biases", 0): expert_biases,
            ("expert output biases", 1): expert_output_biases,
            ("norms and routers", 1): small,
        }
    )
    return +counted
