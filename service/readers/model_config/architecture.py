"""Which family a configuration is of, and what is said of one that nobody knows."""

from collections.abc import Mapping

from service.errors import Fault, NotPlannedYet, Refused
from service.readers.model_config.decoder import Family
from service.readers.model_config.fields import TOKENS, Fields
from service.readers.model_config.leftovers import unknown_in
from service.readers.model_config.table import BY_ARCHITECTURE, FAMILIES, TEXT_TYPES, UNPLANNED

NESTED = ("text_config", "llm_config", "language_config", "thinker_config")
"""Where multimodal models keep the configuration of their text decoder, outermost first."""


_MOST_UNKNOWN = 20
"""Unknown fields that one refusal names."""


_OUTER = frozenset({"quantization_config", "tie_word_embeddings", "dtype", "torch_dtype", "expert_dtype", *NESTED})
"""Fields that may stand beside a nested text configuration and count for it."""


def text_values(config: Mapping[str, object]) -> tuple[Fields, Mapping[str, object], str]:
    """The outermost object, and the object of the text decoder with its pointer."""
    outer = Fields(config, "", {}, "this configuration")
    values, pointer = config, ""
    for name in NESTED:
        nested = values.get(name)
        if nested is None:
            continue
        if not isinstance(nested, Mapping):
            raise Refused(Fault(f"{pointer}/{name}", f"{name} has to be an object"))
        values, pointer = nested, f"{pointer}/{name}"
        if name == "thinker_config" and isinstance(values.get("text_config"), Mapping):
            return outer, values["text_config"], f"{pointer}/text_config"  # type: ignore[return-value]
    return outer, values, pointer


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


def _not_understood(inner: Fields, pointer: str, name: str) -> tuple[Fault, ...]:
    """One fault for the architecture with what was found, and one for each field that nobody knows."""
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
    found = f"understood were {', '.join(understood)}" if understood else "nothing of it was understood"
    for field in (
        "max_position_embeddings",
        "intermediate_size",
        "dtype",
        "rope_scaling",
        "quantization_config",
        "tie_word_embeddings",
    ):
        inner.raw(field)
    shown = f"'{name[:80]}' isn't an architecture that is known here" if name else "no architecture is named"
    unknown = unknown_in(inner, frozenset())
    return (
        Fault(f"{pointer}/model_type", f"{shown}; {found}"),
        *(Fault(f"{pointer}/{_escaped(field)}", f"{field[:80]} isn't known") for field in unknown[:_MOST_UNKNOWN]),
    )


def _escaped(name: str) -> str:
    return name[:200].replace("~", "~0").replace("/", "~1")


def architecture_of(outer: Fields, otherwise: str) -> str:
    """The first name under `architectures`."""
    names = outer.items("architectures", most=64)
    first = names[0] if names else otherwise
    if not isinstance(first, str) or len(first) > 200 or not first.isprintable():  # noqa: PLR2004
        raise Refused(Fault("/architectures/0", "an architecture has to be printable text of at most 200 characters"))
    return first


def refuse_unknown(fields: Fields, outer: Fields, family: Family, model_type: str) -> None:
    """Refuse fields that nobody knows: one of them may change the cache."""
    places = [(fields, family.harmless)]
    unchecked = (fields.at("rope_scaling"), fields.at("quantization_config"))  # read in full, or of no shape
    places += [(section, family.harmless) for section in fields.sections if section.pointer not in unchecked]
    if fields.pointer:
        places.append((outer, _OUTER))
        fields.read.update(_OUTER - set(NESTED))
    unknown = [
        Fault(
            f"{place.pointer}/{_escaped(name)}", f"{name[:80]} isn't known for {model_type}, and may concern the cache"
        )
        for place, harmless in places
        for name in unknown_in(place, harmless)
    ]
    if unknown:
        raise Refused(*unknown[:_MOST_UNKNOWN])
