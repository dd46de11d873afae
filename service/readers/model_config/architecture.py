"""Which family a configuration is of."""

from collections.abc import Mapping

from service.errors import Fault, NotPlannedYet, Refused
from service.readers.model_config.decoder import Family
from service.readers.model_config.fields import Fields
from service.readers.model_config.refusals import not_understood
from service.readers.model_config.table import BY_ARCHITECTURE, FAMILIES, TEXT_TYPES, UNPLANNED


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
    raise Refused(*not_understood(inner, pointer, stated or architecture))


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
