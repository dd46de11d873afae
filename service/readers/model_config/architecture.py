"""Which family a configuration is of."""

from collections.abc import Mapping, Sequence

from service.errors import Fault, NotPlannedYet, Refused
from service.readers.model_config.decoder import Family
from service.readers.model_config.fields import Fields
from service.readers.model_config.names import architectures_of, strange_names
from service.readers.model_config.refusals import not_understood
from service.readers.model_config.table import BY_ARCHITECTURE, FAMILIES, SHARED, TEXT_TYPES, UNPLANNED


def family_of(around: Sequence[Fields], values: Mapping[str, object], pointer: str) -> tuple[Family, str]:
    """The family by the text decoder's model type, or by the architecture where none is named or several share it.

    Raises:
        Refused: it isn't known, or is called by a name that isn't its own. What was understood is said, and every
            field that would have had to be.
    """
    inner = Fields(values, pointer, {}, "this configuration")
    outer = around[0]
    architecture = architecture_of(outer, "")
    stated = inner.text("model_type") or outer.text("model_type") or ""
    stated = TEXT_TYPES.get(stated, stated)
    read_as = SHARED.get((architecture, stated), stated) if stated else BY_ARCHITECTURE.get(architecture, "")
    if read_as in UNPLANNED:
        raise NotPlannedYet(Fault(f"{pointer}/model_type", UNPLANNED[read_as]))
    if read_as not in FAMILIES:
        raise Refused(*not_understood(inner, (_unknown(f"{pointer}/model_type", stated or architecture),)))
    family = FAMILIES[read_as]
    strange = strange_names(inner, around if pointer else (), family, read_as)
    if strange:
        raise Refused(*not_understood(inner, strange))
    return family, read_as


def _unknown(pointer: str, name: str) -> Fault:
    if not name:
        return Fault(pointer, "the configuration names no architecture")
    if not name.isprintable():
        return Fault(pointer, "model_type has to be printable text")
    return Fault(pointer, f"'{name[:80]}' isn't an architecture that is known here")


def architecture_of(outer: Fields, otherwise: str) -> str:
    """The first name under `architectures`, if there is any, else what it is otherwise called."""
    names = architectures_of(outer)
    return names[0] if names and names[0] else otherwise
