"""What a quantised checkpoint leaves in the model's own dtype, by its lists of module names."""

import re

from service.errors import Fault, Refused
from service.readers.model_config.fields import Fields
from service.readers.model_config.tally import Role

_ATTENTION: frozenset[Role] = frozenset({"attention", "keys and values", "latent projections"})
_FEED_FORWARD: frozenset[Role] = frozenset({"dense", "shared experts", "experts"})
QUANTISED: frozenset[Role] = _ATTENTION | _FEED_FORWARD | {"state"}
"""The groups that a quantisation is of, if it leaves none out."""
_LAYER = re.compile(r"layers\.([0-9]{1,4})(?![0-9])")
_MOST_ENTRIES = 100_000


def left_out_of(section: Fields) -> dict[Role, frozenset[int] | None]:
    """Groups that the checkpoint's list leaves unquantised, by layer; null: in every layer.

    A group counts as left out if any of its projections is, which is the larger figure. Patterns are read by the
    words in them and never run.
    """
    found: dict[Role, set[int] | None] = {}
    for name in ("modules_to_not_convert", "ignore", "exclude_modules", "ignored_layers", "llm_int8_skip_modules"):
        for entry in section.items(name, most=_MOST_ENTRIES):
            if not isinstance(entry, str):
                raise Refused(Fault(section.at(name), f"{name} has to be a list of module names"))
            layer = _LAYER.search(entry[:300].replace("\\", ""))
            for role in _roles(entry[:300]):
                known = found.setdefault(role, set())
                if layer is None:
                    found[role] = None
                elif known is not None:
                    known.add(int(layer[1]))
    return {role: None if layers is None else frozenset(layers) for role, layers in found.items()}


_MODULES: tuple[tuple[str, frozenset[Role]], ...] = (
    (r"vision|visual|lm_head|embed|mtp|norm|router|audio|projector|(^|\.)gate$|shared_expert_gate$", frozenset()),
    (r"shared_expert", frozenset({"shared experts"})),
    (r"experts", frozenset({"experts"})),
    (r"linear_attn|mamba|conv|in_proj|out_proj", frozenset({"state"})),
    (r"(kv_a|q_a|qkv_a)_proj|indexer", frozenset({"latent projections"})),
    (r"[kv]_proj$|qkv_proj", frozenset({"keys and values"})),
    (r"(q|o|kv_b|q_b)_proj", frozenset({"attention"})),
    (r"attn|attention", _ATTENTION),
    (r"(mlp|feed_forward)\.|(gate|up|down)_proj", frozenset({"dense"})),
    (r"(mlp|feed_forward)$", _FEED_FORWARD),
    (r"layers\.[0-9]{1,4}$", QUANTISED),
)
"""What groups a module name or pattern stands for, by the first of these that is in it."""


def _roles(entry: str) -> frozenset[Role]:
    name = entry.removeprefix("re:").replace("\\", "").rstrip("$*.").lower()
    return next((roles for pattern, roles in _MODULES if re.search(pattern, name)), frozenset())
