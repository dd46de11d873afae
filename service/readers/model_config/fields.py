"""Typed access to the fields of a configuration, that remembers which were read and which had to be assumed."""

from collections.abc import Mapping, Sequence

from service.errors import Fault, Refused
from service.readers.faults import escaped

LAYERS, HEADS, WIDTH, TOKENS, CONTEXT = 2_048, 65_536, 2**24, 2**32, 2**26
"""The largest numbers that are taken for real: layers; heads or experts; channels; tokens; tokens of a context."""

OTHER_NAMES: Mapping[str, tuple[str, ...]] = {
    "num_hidden_layers": ("num_layers", "n_layer", "n_layers"),
    "hidden_size": ("n_embd", "d_model"),
    "num_attention_heads": ("n_head", "n_heads"),
    "num_key_value_heads": ("num_attention_groups", "num_kv_heads"),
    "intermediate_size": ("ffn_hidden_size", "n_inner", "ffn_dim"),
    "max_position_embeddings": ("n_positions", "max_seq_len", "max_sequence_length", "seq_length", "model_max_length"),
    "num_experts": ("num_local_experts", "n_routed_experts", "moe_num_experts"),
    "num_shared_experts": ("n_shared_experts", "moe_num_shared_experts", "num_shared_expert"),
    "moe_intermediate_size": ("expert_ffn_hidden_size",),
    "shared_expert_intermediate_size": ("share_expert_dim", "moe_shared_expert_intermediate_size"),
    "sliding_window": ("sliding_window_size",),
    "sliding_window_pattern": ("_sliding_window_pattern",),
    "first_k_dense_replace": ("num_dense_layers", "moe_layer_start_index"),
    "mamba_num_heads": ("mamba_n_heads",),
    "mamba_head_dim": ("mamba_d_head",),
    "n_groups": ("mamba_n_groups",),
    "ssm_state_size": ("mamba_d_state",),
    "conv_kernel": ("mamba_d_conv",),
    "use_conv_bias": ("mamba_conv_bias",),
    "dtype": ("torch_dtype",),
    "layer_types": ("layers_block_type",),
    "rope_scaling": ("rope_parameters",),
    "bits": ("w_bit",),
    "group_size": ("q_group_size",),
}
"""What other configurations call the same thing."""

_FIRST_COUNTS = frozenset({"max_position_embeddings"})
"""Fields whose other names may say something else beside them: lengths of training or of the tokeniser."""

_PER_LAYER = frozenset({"moe_intermediate_size", "num_shared_experts"})
"""Numbers that some families (Hunyuan) write once per layer, all alike."""


_MEANT = frozenset({"sliding_window"})
"""Fields in which null, where it is written, means that there is none, and not the class default."""

DRAFT_LAYERS = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "mtp_num_layers")
"""Names for the number of draft layers."""


class Fields:
    """One object of a configuration: its values by name, with the class defaults that stand in for what is left out."""

    def __init__(self, values: Mapping[str, object], pointer: str, defaults: Mapping[str, object], owner: str) -> None:
        """`owner` is the configuration class that the defaults are of."""
        self.pointer = pointer
        self.owner = owner
        self.read: set[str] = set()
        self.assumed: dict[str, object] = {}
        self.harmless: frozenset[str] = frozenset()
        self.opened: set[str] = set()
        """Names of the objects in it that are read field by field."""
        self._sections: dict[str, Fields] = {}
        self._values = values
        self._defaults = defaults

    @property
    def sections(self) -> tuple["Fields", ...]:
        """The objects in it that were opened."""
        return tuple(self._sections.values())

    def names(self) -> tuple[str, ...]:
        """The names that the configuration states, in its order."""
        return tuple(self._values)

    def written(self, name: str) -> object:
        """The value under this very name, which isn't thereby read."""
        return self._values.get(name)

    def raw(self, name: str) -> object:
        """The value of a field under any of its names, else the class default, else None."""
        value = self._stated(name)
        null_is_meant = name in _MEANT and any(other in self._values for other in self._spellings(name))
        if value is None and not null_is_meant and self._defaults.get(name) is not None:
            value = self._defaults[name]
            if not isinstance(value, bool):  # switches say how parameters are counted, never a cache's size
                self.assumed[name] = value
        return value

    def has(self, name: str) -> bool:
        """Whether the field is stated, or the class has a default for it."""
        return self.raw(name) is not None

    def at(self, name: str) -> str:
        """JSON Pointer to a field, under the name that the configuration uses."""
        return f"{self.pointer}/{escaped(self._used(name))}"

    def called(self, name: str) -> str:
        """A field's own name for people, under the spelling that the configuration uses: `text_config.torch_dtype`."""
        return self.at(name)[1:].replace("/", ".")

    def count(self, name: str, *, most: int = WIDTH, least: int = 1) -> int:
        """A whole number that has to be there.

        Raises:
            Refused: it is missing, no whole number, or outside `least` to `most`.
        """
        value = self.raw(name)
        if value is None:
            raise Refused(Fault(self.at(name), f"{name} is missing, and no default for it is known here"))
        if name in _PER_LAYER and isinstance(value, list) and value and isinstance(value[0], int):
            alike = all(isinstance(item, int) and item == value[0] for item in value[:LAYERS])
            value = value[0] if alike else value
        return self._checked(name, self.at(name), value, least, most)

    def count_or(self, name: str, otherwise: int, *, most: int = WIDTH, least: int = 0) -> int:
        """A whole number, or what it is taken as where nothing states it."""
        return self.count(name, most=most, least=least) if self.has(name) else otherwise

    def largest(self, name: str) -> int | None:
        """The number that a field states under this very name, or the largest of one per layer; else None.

        For figures that no configuration is refused for.
        """
        value = self._values.get(name)
        counts = value if isinstance(value, list) and 0 < len(value) <= LAYERS else [value]
        known = [count for count in counts if isinstance(count, int) and not isinstance(count, bool)]
        return max(known) if len(known) == len(counts) and all(0 <= count <= WIDTH for count in known) else None

    def flag(self, name: str, *, otherwise: bool = False) -> bool:
        """A boolean, or what it is taken as where nothing states it."""
        value = self.raw(name)
        if value is None:
            return otherwise
        if not isinstance(value, bool):
            raise Refused(Fault(self.at(name), f"{name} has to be true or false, not {_shown(value)}"))
        return value

    def text(self, name: str) -> str | None:
        """A string, or None where nothing states it."""
        value = self.raw(name)
        if value is not None and not isinstance(value, str):
            raise Refused(Fault(self.at(name), f"{name} has to be a string, not {_shown(value)}"))
        return value

    def items(self, name: str, *, most: int = 65_536) -> Sequence[object]:
        """A list, empty where nothing states it."""
        value = self.raw(name)
        if value is None:
            return ()
        if not isinstance(value, list | tuple) or len(value) > most:
            raise Refused(Fault(self.at(name), f"{name} has to be a list of at most {most:,} items"))
        return value

    def counts(self, name: str, *, most: int, length: int | None = None) -> tuple[int, ...]:
        """A list of whole numbers from 0 on: all, or those of `length` layers."""
        values = self.items(name)
        if length is not None:
            self.match_layers(name, len(values), length)
        return tuple(
            self._checked(name, f"{self.at(name)}/{index}", value, 0, most)
            for index, value in enumerate(values[:length])
        )

    def match_layers(self, name: str, items: int, layers: int) -> None:
        """Refuse a list that hasn't one item for each layer, or for each layer and draft layer."""
        drafts = max(self.largest(other) or 0 for other in DRAFT_LAYERS)
        if items not in (layers, layers + drafts):
            raise Refused(Fault(self.at(name), f"{name} has {items} items for {layers} layers"))

    def section(self, name: str, harmless: frozenset[str] = frozenset()) -> "Fields | None":
        """A nested object, or None where nothing states it.

        `harmless` are names in it that may go unread: what else nobody reads is unknown, and is refused.
        """
        value = self.raw(name)
        return None if value is None else self._opened(name, "", value, harmless)

    def section_of_list(self, name: str, index: int, harmless: frozenset[str] = frozenset()) -> "Fields":
        """One object of a list."""
        return self._opened(name, f"/{index}", self.items(name)[index], harmless)

    def _opened(self, name: str, item: str, value: object, harmless: frozenset[str]) -> "Fields":
        pointer = self.at(name) + item
        if not isinstance(value, Mapping):
            raise Refused(Fault(pointer, f"{name}{item} has to be an object, not {_shown(value)}"))
        self.opened.add(self._used(name))
        section = self._sections.setdefault(pointer, Fields(value, pointer, {}, self.owner))
        section.harmless |= harmless
        return section

    def _used(self, name: str) -> str:
        """The spelling of a name that the configuration uses."""
        return next((other for other in self._spellings(name) if self._values.get(other) is not None), name)

    def _spellings(self, name: str) -> tuple[str, ...]:
        return (name, *OTHER_NAMES.get(name, ()))

    def _stated(self, name: str) -> object:
        """The stated value. Two spellings that disagree are refused, because no one knows which one counts."""
        found: list[tuple[str, object]] = []
        for spelling in self._spellings(name):
            if spelling in self._values:
                self.read.add(spelling)
                if self._values[spelling] is not None:
                    found.append((spelling, self._values[spelling]))
        for spelling, value in found[1:]:
            if isinstance(value, Mapping):
                detail = f"{spelling} stands beside {found[0][0]}: only one of them can be read"
                raise Refused(Fault(f"{self.pointer}/{spelling}", detail))
            if name not in _FIRST_COUNTS and isinstance(value, bool | int | float | str) and value != found[0][1]:
                detail = f"{spelling} says {_shown(value)} and {found[0][0]} says {_shown(found[0][1])}"
                raise Refused(Fault(f"{self.pointer}/{spelling}", detail))
        return found[0][1] if found else None

    @staticmethod
    def _checked(name: str, pointer: str, value: object, least: int, most: int) -> int:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise Refused(Fault(pointer, f"{name} has to be a whole number, not {_shown(value)}"))
        if not least <= value <= most:
            shown = f"{value:,}" if abs(value) < 10**18 else "a number of more than 18 digits"
            raise Refused(Fault(pointer, f"{name} has to lie between {least} and {most:,}, not {shown}"))
        return value


def _shown(value: object) -> str:
    """A value in a message: short, whatever it is."""
    if isinstance(value, str):
        return f"'{value}'" if len(value) <= 40 else f"a string of {len(value)} characters"  # noqa: PLR2004
    if value is None or isinstance(value, bool | float) or (isinstance(value, int) and abs(value) < 10**18):
        return str(value).lower() if isinstance(value, bool) else str(value)
    return {"list": "a list", "dict": "an object", "int": "a huge number"}.get(type(value).__name__, "something else")
