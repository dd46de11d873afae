"""What a quantised checkpoint leaves in the model's own dtype, by its lists of module names."""

import re
from functools import lru_cache

from service.errors import Fault, Refused
from service.readers.model_config.fields import LAYERS, Fields
from service.readers.model_config.module_patterns import Unreadable, written_out
from service.readers.model_config.tally import Role

_ATTENTION: frozenset[Role] = frozenset({"attention", "keys and values", "latent projections"})
_FEED_FORWARD: frozenset[Role] = frozenset({"dense", "shared experts", "experts"})
QUANTISED: frozenset[Role] = _ATTENTION | _FEED_FORWARD | {"state"}
"""The groups that a quantisation is of, if it leaves none out."""
_LISTS = ("modules_to_not_convert", "ignore", "exclude_modules", "ignored_layers", "llm_int8_skip_modules")
_LAYER = re.compile(r"(?:layers|(?:^|[.*])(?:blocks|h))\.([0-9]{1,4})(?![0-9])")
_MOST_ENTRIES = 100_000
_MOST_NAMES_OF_PATTERNS = 4_096
_SHOWN = 60


def left_out_of(section: Fields) -> dict[Role, frozenset[int] | None]:
    """Groups that the checkpoint's list leaves unquantised, by layer; null: in every layer.

    A group counts as left out if any of its projections is, which is the larger figure. Patterns are written out
    into names and never run.

    Raises:
        Refused: an entry can't be read: it may leave out anything.
    """
    found: dict[Role, set[int] | None] = {}
    of_patterns = 0
    for field in _LISTS:
        for entry, index in _places(section, field).items():
            try:
                names = [_read(name) for name in written_out(entry)]
            except Unreadable:
                shown = f"'{entry[:_SHOWN]}'" if entry.isprintable() else "this entry"
                detail = f"nobody can tell which modules {shown} leaves as they are"
                raise Refused(Fault(f"{section.at(field)}/{index}", detail)) from None
            of_patterns += len(names) - 1
            if of_patterns > _MOST_NAMES_OF_PATTERNS:
                raise Refused(Fault(section.at(field), f"the patterns in {field} stand for too many names"))
            for roles, layers in names:
                for role in roles:
                    known = found.setdefault(role, set())
                    if layers is None:
                        found[role] = None
                    elif known is not None:
                        known.update(layers)
    return {role: None if layers is None else frozenset(layers) for role, layers in found.items()}


def _places(section: Fields, field: str) -> dict[str, int]:
    """The entries of a list, each with the first place where it stands."""
    found: dict[str, int] = {}
    for index, entry in enumerate(section.items(field, most=_MOST_ENTRIES)):
        if not isinstance(entry, str):
            raise Refused(Fault(section.at(field), f"{field} has to be a list of module names"))
        found.setdefault(entry, index)
    return found


_NOTHING: frozenset[Role] = frozenset()
_MODULES: tuple[tuple[str, frozenset[Role]], ...] = (
    (r"vision|visual|image|audio|projector|multi_modal|merger|connector|(^|[.*])mlp1\b", _NOTHING),
    (r"lm_head|(^|[.*])(head|output|output_layer|proj_out|score|classifier)\.?$", _NOTHING),
    (r"mtp|nextn|eh_proj|shared_head", _NOTHING),
    (r"embed|norm|router|rotary|sinks|(^|[.*_])bias\.?$", _NOTHING),
    (r"(^|[.*])gate\.$|shared_expert_gate\.?$|moe\.gate$", _NOTHING),
    (r"(mlp|feed_forward|ffn|mixer)\.gate$", frozenset({"dense"})),
    (r"(^|[.*])gate$", _FEED_FORWARD),
    (r"shared_expert", frozenset({"shared experts"})),
    (r"(^|\*)expert|moe\.?$", frozenset({"shared experts", "experts"})),
    (r"expert", frozenset({"experts"})),
    (r"(self_attn|attention)\.out_proj", frozenset({"attention"})),
    (r"linear_attn|mamba|conv|in_proj|out_proj", frozenset({"state"})),
    (r"(kv_a|q_a|qkv_a)_proj|indexer", frozenset({"latent projections"})),
    (r"qkv|query_key_value|c_attn", frozenset({"attention", "keys and values"})),
    (r"[kv]_proj\.?$", frozenset({"keys and values"})),
    (r"(q|o|kv_b|q_b)_proj", frozenset({"attention"})),
    (r"(^|\*)_?attn", _ATTENTION | {"state"}),
    (r"attn|attention", _ATTENTION),
    (r"(mlp|feed_forward|ffn|mixer)\.((gate|up|down|gate_up)_proj|fc[12]|w[123]|c_fc|c_proj)", frozenset({"dense"})),
    (r"mlp|feed_forward|ffn|(gate|up|down)_proj", _FEED_FORWARD),
    (r"(layers|blocks|(^|[.*])h)\.[0-9]{1,4}\.?$|(^|[.*])(layers|blocks|h|mixer)\.?$", QUANTISED),
    (r"(^|[.*])(model|language_model|text_model|transformer|backbone|decoder)\.?$", QUANTISED),
    (r"^linear\.$|(^|[.*])_?proj\.?$|^\.?$", QUANTISED),
)
"""What groups a module name stands for, by the first of these that is in it.

A name that has to end there ends in a dot: another may go on, as `gate` may to `gate_proj`.
"""


def _read(name: str) -> tuple[frozenset[Role], frozenset[int] | None]:
    """The groups that a name stands for, and the layers; null: in every layer.

    Raises:
        Unreadable: it is of no module that is known.
    """
    ends = name.endswith("$")
    name = name.rstrip("$").lower()
    if not name or "$" in name:
        raise Unreadable
    module = name.rstrip("*.")
    ends = name[len(module) :].startswith(".") or (ends and name == module)
    roles = _roles(f"{module}." if ends else module)
    layer = _LAYER.search(name)
    if layer is None:
        return roles, None
    if str(int(layer[1])) != layer[1]:  # such as `07`, which no layer is called
        return roles, frozenset()
    more = name.startswith("*", layer.end()) or (layer.end() == len(name) and not ends)
    return roles, _numbers_from(layer[1]) if more else frozenset({int(layer[1])})


@lru_cache(maxsize=4_096)
def _roles(module: str) -> frozenset[Role]:
    for pattern, roles in _MODULES:
        if re.search(pattern, module):
            return roles
    raise Unreadable


@lru_cache(maxsize=256)
def _numbers_from(digits: str) -> frozenset[int]:
    """Layers whose number begins with these digits."""
    return frozenset(layer for layer in range(LAYERS) if str(layer).startswith(digits))
