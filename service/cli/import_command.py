"""`headcount import`: what a config.json says of a model, field by field, or which field can't be read."""

import argparse
from pathlib import Path

import msgspec
from rich.table import Table

from service.capacity.figures import Figure
from service.capacity.model import Model, WeightPart
from service.catalog.resolve import inline_model
from service.cli.input import config_in
from service.cli.output import print_json, printable, whole_output
from service.cli.paper import paper


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "import",
        help="read a model from its config.json",
        description=(
            "Read a model from the config.json of its checkpoint: its caches, parameters and weights, each with the"
            " field that it was read from. What can't be read is refused by name."
        ),
    )
    parser.add_argument("config", metavar="CONFIG.JSON", type=Path, help="the file; - reads standard input")
    parser.add_argument("--parameters", metavar="N", type=int, help="parameters of the whole checkpoint, if known")
    parser.add_argument("--weight-bytes", metavar="N", type=int, help="bytes of its weight files, if known")
    parser.add_argument("--json", action="store_true", help="print the model as POST /v1/models/read returns its spec")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Read and print."""
    asked = config_in(arguments.config, parameters=arguments.parameters, weight_bytes=arguments.weight_bytes)
    pinned = inline_model(asked.config, asked.parameters, asked.weight_bytes, pointer="")
    with whole_output():
        if arguments.json:
            print_json(msgspec.json.encode(pinned.spec))
        else:
            _print(pinned.spec)
    return 0


def _print(model: Model) -> None:
    table = Table("figure", "value", "read from", box=None, pad_edge=False, header_style="bold")
    for column in table.columns:
        column.overflow = "fold"
    for name in model.__struct_fields__:
        value = getattr(model, name)
        if isinstance(value, Figure):
            table.add_row(name.replace("_", " "), _shown(value.value), printable(value.source))
        elif value is not None:
            table.add_row(name.replace("_", " "), printable(str(value)), "")
    with paper() as console:
        console.print(table)


def _shown(value: object) -> str:
    match value:
        case bool() | str():
            return printable(str(value))
        case int():
            return f"{value:,}"
        case tuple():
            return "\n".join(_shown(item) for item in value) or "none of their own"
        case WeightPart():
            amount = f"{value.parameters:,} parameters" if value.bytes is None else f"{value.bytes:,} B"
            scales = value.scales
            beside = f" with {scales.bits:,} bits of scales for every {scales.numbers:,} numbers" if scales else ""
            return printable(f"{value.name}: {amount} in {value.dtype}{beside}")
        case msgspec.Struct():
            return _shape(value)
        case _:
            return str(value)


def _shape(value: msgspec.Struct) -> str:
    """A cache, or another figure of several parts, without what it doesn't have."""
    parts = msgspec.structs.asdict(value)
    parts.pop("at", None)
    said = ", ".join(f"{name.replace('_', ' ')} {part}" for name, part in parts.items() if part not in {None, False})
    kind = value.__struct_config__.tag
    return f"{str(kind).replace('_', ' ')}: {said}" if kind else said
