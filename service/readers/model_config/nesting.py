"""Where a multimodal configuration keeps that of its text decoder."""

from collections.abc import Mapping

from service.errors import Fault, Refused
from service.readers.model_config.fields import Fields

NESTED = ("text_config", "llm_config", "language_config", "thinker_config")
"""Where multimodal models keep the configuration of their text decoder, outermost first."""

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
        around[-1].opened.add(stated[0])
        values, pointer = nested, f"{pointer}/{stated[0]}"
    return tuple(around) or (Fields(values, pointer, {}, "this configuration"),), values, pointer
