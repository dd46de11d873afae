"""What is said of a configuration that isn't known whole: what was understood of it, and what was not."""

from collections.abc import Iterator, Sequence
from contextlib import suppress

from service.errors import Fault, Refused
from service.readers.faults import escaped
from service.readers.model_config.decoder import Family
from service.readers.model_config.fields import TOKENS, Fields
from service.readers.model_config.leftovers import unknown_in
from service.readers.model_config.nesting import NESTED

_MOST_UNKNOWN = 20
"""Unknown fields that one refusal names."""
_LONGEST_NAME = 200
"""Characters of a field's name that a pointer repeats."""


_OUTER = frozenset({"quantization_config", "tie_word_embeddings", "dtype", "torch_dtype", "expert_dtype", *NESTED})
"""Fields that may stand beside a nested text configuration and count for it."""
_BETWEEN = frozenset({"dtype", "torch_dtype", *NESTED})
"""Fields of a configuration between these two: the outermost names the dtype too, and what else counts isn't read."""


def understood(inner: Fields) -> str:
    """The shapes that were found, for people who are told what wasn't."""
    found = []
    for field in (
        "num_hidden_layers",
        "num_attention_heads",
        "num_key_value_heads",
        "head_dim",
        "hidden_size",
        "vocab_size",
    ):
        value = None
        with suppress(Refused):  # two names that disagree: neither was understood
            value = inner.raw(field)
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value < TOKENS:
            found.append(f"{field} {value:,}")
    return f"understood were {', '.join(found)}" if found else "nothing of it was understood"


def not_understood(inner: Fields, names: Sequence[Fault]) -> tuple[Fault, ...]:
    """The faults of its names with what was found, and one for each field that nobody knows of such a model."""
    found = understood(inner)
    for field in ("max_position_embeddings", "intermediate_size", "dtype", "tie_word_embeddings"):
        with suppress(Refused):
            inner.raw(field)
    inner.opened |= {"rope_scaling", "rope_parameters", "quantization_config"}
    unknown = unknown_in(inner, frozenset())
    return (
        *(Fault(one.pointer, f"{one.detail}; {found}") for one in names[:_MOST_UNKNOWN]),
        *(
            Fault(f"{inner.pointer}/{escaped(field[:_LONGEST_NAME])}", f"{field[:80]} isn't known")
            for field in unknown[:_MOST_UNKNOWN]
        ),
    )


def refuse_unknown(fields: Fields, around: Sequence[Fields], family: Family, model_type: str) -> None:
    """Refuse fields that nobody knows, in the configuration and in every object in it: one may change the cache."""
    others = [name for name, values in family.only.items() if _is_other(fields.written(name), values)]
    places = [(fields, family.harmless | family.only.keys())]
    if fields.pointer:
        places += [(around[0], _OUTER), *((between, _BETWEEN) for between in around[1:])]
        fields.read.update(_OUTER - set(NESTED))
    places += [(section, section.harmless) for place, _ in tuple(places) for section in _sections(place)]
    unknown = [
        Fault(
            f"{fields.pointer}/{escaped(name)}",
            f"{name} isn't known for {model_type} unless it is {' or '.join(map(_in_json, family.only[name]))}",
        )
        for name in others
    ]
    unknown += [
        Fault(
            f"{place.pointer}/{escaped(name[:_LONGEST_NAME])}",
            f"{name[:80]} isn't known for {model_type}, and may concern the cache, the context or the weights",
        )
        for place, harmless in places
        for name in unknown_in(place, harmless)
        if place is not fields or name not in others
    ]
    if unknown:
        found = understood(fields)
        raise Refused(*(Fault(one.pointer, f"{one.detail}; {found}") for one in unknown[:_MOST_UNKNOWN]))


def _is_other(value: object, known: Sequence[bool | int | str]) -> bool:
    """Whether a stated value is none of the known ones; 1 isn't true."""
    return value is not None and not any(type(value) is type(one) and value == one for one in known)


def _in_json(value: bool | int | str) -> str:  # noqa: FBT001
    return str(value).lower() if isinstance(value, bool) else f"'{value}'" if isinstance(value, str) else str(value)


def _sections(place: Fields) -> Iterator[Fields]:
    """The objects in a configuration that were opened, and those in them."""
    for section in place.sections:
        yield section
        yield from _sections(section)
