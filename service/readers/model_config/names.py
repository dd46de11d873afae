"""Whether every name that a configuration gives its architecture is one of the family that it is read as."""

import re
from collections.abc import Iterator, Mapping, Sequence

from service.errors import Fault, Refused
from service.readers.faults import escaped
from service.readers.model_config.decoder import Family
from service.readers.model_config.fields import Fields
from service.readers.model_config.table import TEXT_TYPES, WRAPPERS

_LONGEST = 200
_MOST_CLASSES = 64
_CLASS = re.compile(
    r"(?P<stem>[A-Za-z0-9_]+?)"
    r"(For(CausalLM|ConditionalGeneration|(Sequence|Token)Classification|QuestionAnswering|(Process)?RewardModel)"
    r"|CausalLM|PreTrainedModel|(Text)?Model)"
)
"""A class of a model: whose it is, and the head on its decoder, which keeps nothing."""
_CONFIG = re.compile(r"(?P<stem>[A-Za-z0-9_]+?)(Text)?Config")
_NO_MODEL = re.compile(r"Auto(Tokenizer|Processor|ImageProcessor|VideoProcessor|FeatureExtractor)")
"""What `auto_map` loads beside models."""


def architectures_of(place: Fields) -> Sequence[str]:
    """The names under `architectures`.

    Raises:
        Refused: one of them isn't text that can be shown, such as text with control or bidirectional characters.
    """
    names = []
    for index, name in enumerate(place.items("architectures", most=_MOST_CLASSES)):
        if not isinstance(name, str) or len(name) > _LONGEST or not name.isprintable():
            detail = f"an architecture has to be printable text of at most {_LONGEST} characters"
            raise Refused(Fault(f"{place.at('architectures')}/{index}", detail))
        names.append(name)
    return names


def strange_names(decoder: Fields, around: Sequence[Fields], family: Family, model_type: str) -> tuple[Fault, ...]:
    """A fault for each name that isn't the family's: nobody knows what such code keeps of a token.

    Around the decoder, the names of models that only put other inputs before it are known too. Code of a repository's
    own (`auto_map`) is known by the names of its classes, as Transformers' is.

    Raises:
        Refused: names that can't be shown, or something else than names.
    """
    own = {_stem(_CONFIG, family.config_class), *family.also}
    outside = own | set(WRAPPERS.values())
    own_types = {model_type, model_type.removesuffix("_text")}
    faults = [*_of_classes(decoder, own, model_type)]
    if decoder.text("model_type") in WRAPPERS and decoder.text("model_type") not in own_types:
        faults.append(Fault(decoder.at("model_type"), "the text configuration of this model type is missing"))
    for place in around:
        outer_type = place.text("model_type") or model_type
        if TEXT_TYPES.get(outer_type) != model_type and outer_type not in {*own_types, *WRAPPERS}:
            shown = f"'{outer_type[:80]}'" if outer_type.isprintable() else "what can't be shown"
            faults.append(Fault(place.at("model_type"), f"{shown} isn't known to be around a decoder of {model_type}"))
        faults += _of_classes(place, outside, model_type)
    return tuple(faults)


def _of_classes(place: Fields, known: set[str], model_type: str) -> Iterator[Fault]:
    for index, name in enumerate(architectures_of(place)):
        if name and _stem(_CLASS, name) not in known:
            detail = f"'{name[:80]}' isn't an architecture of {model_type} that is known here"
            yield Fault(f"{place.at('architectures')}/{index}", detail)
    classes = place.raw("auto_map")
    if classes is None:
        return
    if not isinstance(classes, Mapping) or len(classes) > _MOST_CLASSES:
        raise Refused(Fault(place.at("auto_map"), f"auto_map has to be an object of at most {_MOST_CLASSES} classes"))
    loaded = Fields(classes, place.at("auto_map"), {}, place.owner)
    for auto in loaded.names():
        if _NO_MODEL.fullmatch(auto):
            continue
        pointer = f"{loaded.pointer}/{escaped(auto[:_LONGEST])}"
        name = loaded.text(auto) or ""
        if not re.fullmatch(r"Auto(Config|Model[A-Za-z0-9]*)", auto):
            yield Fault(pointer, "nobody knows what this loads")
        elif len(name) > _LONGEST or not name.isprintable():
            yield Fault(pointer, f"a class has to be printable text of at most {_LONGEST} characters")
        elif _stem(_CONFIG if auto == "AutoConfig" else _CLASS, name.rpartition(".")[2]) not in known:
            yield Fault(pointer, f"'{name[:80]}' isn't code of {model_type} that is known here")


def _stem(pattern: re.Pattern[str], name: str) -> str:
    """The model that a class is of, `Llama` of LlamaForCausalLM; empty where its name isn't of that form."""
    match = pattern.fullmatch(name)
    return match["stem"] if match else ""
