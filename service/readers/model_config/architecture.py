"""Which family a configuration is of, and what is said of one that nobody knows."""

from collections.abc import Mapping, Sequence

from service.errors import Fault, NotPlannedYet, Refused
from service.readers.faults import escaped
from service.readers.model_config.decoder import Family
from service.readers.model_config.fields import TOKENS, Fields
from service.readers.model_config.leftovers import unknown_in
from service.readers.model_config.table import BY_ARCHITECTURE, FAMILIES, TEXT_TYPES, UNPLANNED

NESTED = ("text_config", "llm_config", "language_config", "thinker_config")
"""Where multimodal models keep the configuration of their text decoder, outermost first."""


_MOST_UNKNOWN = 20
"""Unknown fields that one refusal names."""
_LONGEST_NAME = 200
"""Characters of a field's name that a pointer repeats."""


_OUTER = frozenset({"quantization_config", "tie_word_embeddings", "dtype", "torch_dtype", "expert_dtype", *NESTED})
"""Fields that may stand beside a nested text configuration and count for it."""
_BETWEEN = frozenset({"dtype", "torch_dtype", *NESTED})
"""Fields of a configuration between these two: the outermost names the dtype too, and what else counts isn't read."""
_DEEPEST = 4
"""Configurations inside each other that are followed."""


def text_values(config: Mapping[str, object]) -> tuple[tuple[Fields, ...], Mapping[str, object], str]:
    """The objects around the text decoder, outermost first (itself where it is in none), and its own with its pointer.

    Raises:
        Refused: one of them isn't an object, or two stand side by side: nobody knows which is the text decoder.
    """
    around: list[Fields] = []
    values, pointer = config, ""
    for _ in range(_DEEPEST):
        stated = [name for name in NESTED if values.get(name) is not None]
        if not stated:
            break
        if len(stated) > 1:
            detail = f"{stated[1]} stands beside {stated[0]}: only one text configuration can be read"
            raise Refused(Fault(f"{pointer}/{stated[1]}", detail))
        nested = values[stated[0]]
        if not isinstance(nested, Mapping):
            raise Refused(Fault(f"{pointer}/{stated[0]}", f"{stated[0]} has to be an object"))
        around.append(Fields(values, pointer, {}, "this configuration"))
        values, pointer = nested, f"{pointer}/{stated[0]}"
    return tuple(around) or (Fields(values, pointer, {}, "this configuration"),), values, pointer


def family_of(outer: Fields, values: Mapping[str, object], pointer: str) -> tuple[Family, str]:
    """The family by the architecture where that is what tells, else by the text decoder's model type.

    Raises:
        Refused: it isn't known. What was understood is said, and every field that would have had to be.
    """
    inner = Fields(values, pointer, {}, "this configuration")
    architecture = architecture_of(outer, "")
    outer_type = outer.text("model_type") or ""
    stated = inner.text("model_type") or outer_type
    stated = TEXT_TYPES.get(stated, stated)
    if architecture in BY_ARCHITECTURE and (
        not stated or stated not in FAMILIES or architecture.startswith(("Bailing", "KimiK3", "MistralLarge3"))
    ):
        stated = BY_ARCHITECTURE[architecture]
    if stated in UNPLANNED:
        raise NotPlannedYet(Fault(f"{pointer}/model_type", UNPLANNED[stated]))
    if stated in FAMILIES:
        return FAMILIES[stated], stated
    raise Refused(*_not_understood(inner, pointer, stated or architecture))


def _understood(inner: Fields) -> str:
    """The shapes that were found, for people who are told what wasn't."""
    understood = []
    for field in (
        "num_hidden_layers",
        "num_attention_heads",
        "num_key_value_heads",
        "head_dim",
        "hidden_size",
        "vocab_size",
    ):
        value = inner.raw(field)
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value < TOKENS:
            understood.append(f"{field} {value:,}")
    return f"understood were {', '.join(understood)}" if understood else "nothing of it was understood"


def _not_understood(inner: Fields, pointer: str, name: str) -> tuple[Fault, ...]:
    """One fault for the architecture with what was found, and one for each field that nobody knows."""
    found = _understood(inner)
    for field in (
        "max_position_embeddings",
        "intermediate_size",
        "dtype",
        "rope_scaling",
        "quantization_config",
        "tie_word_embeddings",
    ):
        inner.raw(field)
    if not name:
        shown = "the configuration names no architecture"
    elif not name.isprintable():
        shown = "model_type has to be printable text"
    else:
        shown = f"'{name[:80]}' isn't an architecture that is known here"
    unknown = unknown_in(inner, frozenset())
    return (
        Fault(f"{pointer}/model_type", f"{shown}; {found}"),
        *(
            Fault(f"{pointer}/{escaped(field[:_LONGEST_NAME])}", f"{field[:80]} isn't known")
            for field in unknown[:_MOST_UNKNOWN]
        ),
    )


def architecture_of(outer: Fields, otherwise: str) -> str:
    """The first name under `architectures`, if there is any, else what it is otherwise called.

    Raises:
        Refused: one of them isn't text that can be shown, such as text with control or bidirectional characters.
    """
    names = outer.items("architectures", most=64)
    for index, name in enumerate(names):
        if not isinstance(name, str) or len(name) > 200 or not name.isprintable():  # noqa: PLR2004
            detail = "an architecture has to be printable text of at most 200 characters"
            raise Refused(Fault(f"/architectures/{index}", detail))
    return str(names[0]) if names and names[0] else otherwise


def refuse_unknown(fields: Fields, around: Sequence[Fields], family: Family, model_type: str) -> None:
    """Refuse fields that nobody knows: one of them may change the cache."""
    places = [(fields, family.harmless)]
    unchecked = (fields.at("rope_scaling"), fields.at("quantization_config"))  # read in full, or of no shape
    places += [(section, family.harmless) for section in fields.sections if section.pointer not in unchecked]
    if fields.pointer:
        places += [(around[0], _OUTER), *((between, _BETWEEN) for between in around[1:])]
        fields.read.update(_OUTER - set(NESTED))
    unknown = [
        Fault(
            f"{place.pointer}/{escaped(name[:_LONGEST_NAME])}",
            f"{name[:80]} isn't known for {model_type}, and may concern the cache",
        )
        for place, harmless in places
        for name in unknown_in(place, harmless)
    ]
    if unknown:
        found = _understood(fields)
        raise Refused(*(Fault(one.pointer, f"{one.detail}; {found}") for one in unknown[:_MOST_UNKNOWN]))
