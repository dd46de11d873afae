"""`headcount plan`: one question, answered in this process from the bundled catalog, or by a server.

What asks a server is imported when one is asked: it takes longer to import than a plan to make.
"""

import argparse
import re
import textwrap
from pathlib import Path
from typing import Any

import msgspec

from service.capacity.answer import Answer
from service.capacity.question import ObservedReserve
from service.catalog.bundled import bundled_catalog
from service.catalog.entries import nearest_keys
from service.catalog.planning import estimate
from service.cli.input import config_in, read_from
from service.cli.ladder_table import print_answer
from service.cli.output import lines_of, print_json, whole_output
from service.errors import InvalidDocument, InvalidParameters, MalformedJson
from service.readers import strict_json
from service.readers.flat_question import LEVERS, question_of
from service.readers.question import (
    MOST,
    MOST_TOKENS,
    AskedLevers,
    AskedModel,
    AskedQuestion,
    AskedWorkload,
    WorkloadFile,
    WorkloadRef,
)

_WIDTH_OF_HELP = 100

_KEY = re.compile(r"[A-Za-z0-9._-]{1,200}")
"""What a workload's key can look like; any other text is a path."""


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser."""
    levers = _levers()
    parser = commands.add_parser(
        "plan",
        help="answer one question, without a server or a database",
        description="Answer one question from the bundled catalog, or by a server with --server.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=_explained(levers),
    )
    parser.add_argument(
        "model", metavar="MODEL", help="a key, such as meta-llama/Llama-3.1-8B-Instruct, or a config.json"
    )
    parser.add_argument("gpu", metavar="GPU", help="a key, such as h100-sxm-80gb")
    parser.add_argument("--engine", help="an engine's key; generic when left out")
    parser.add_argument("--max-model-len", metavar="N", help="the window in tokens; the model's limit when left out")
    parser.add_argument("--kv-cache-dtype", metavar="DTYPE", help=_values(levers["kv_cache_dtype"]))
    parser.add_argument(
        "--reserve", metavar="observed", help="what start-ups of the same deployment kept back; goes with --server"
    )
    lengths = parser.add_mutually_exclusive_group()
    lengths.add_argument("--mean-tokens", metavar="N", help="a workload in which every request holds N tokens")
    lengths.add_argument(
        "--workload",
        metavar="KEY|FILE",
        help="a key, such as azure_conv_2023, or a file of JSON, as in POST /v1/plans; a name that is both is refused",
    )
    parser.add_argument(
        "--set",
        metavar="LEVER=VALUE",
        action="append",
        default=[],
        help="set a lever of those below; may come more than once",
    )
    parser.add_argument("--json", action="store_true", help="print what POST /v1/estimates returns")
    parser.add_argument("--server", metavar="URL", help="ask this server instead of the bundled catalog")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Answer and print."""
    question = _question(arguments)
    server = arguments.server
    answer, offer = (
        (estimate(question, bundled_catalog()).answer_bytes, None) if server is None else _answer_of(server, question)
    )
    with whole_output():
        if arguments.json:
            print_json(answer)
        else:
            print_answer(answer, offer)
    return 0


def _answer_of(server: str, question: AskedQuestion) -> tuple[bytes, ObservedReserve | None]:
    from service.api.offered import NAME, offer_in  # noqa: PLC0415 - see above
    from service.cli.asking import ask  # noqa: PLC0415

    reply = ask(server, "/v1/estimates", question, Answer)
    return reply.content, offer_in(reply.headers.get(NAME, ""))


def _levers() -> dict[str, Any]:
    _, components = msgspec.json.schema_components([AskedLevers])
    levers: dict[str, Any] = components[AskedLevers.__name__]["properties"]
    return levers


def _explained(levers: dict[str, Any]) -> str:
    """One paragraph for each lever: what it does, and which values it takes."""
    column = max(len(name) for name in levers) + 4
    paragraphs = [
        textwrap.fill(
            f"{lever.get('description', '')} [{_values(lever)}]".lstrip(),
            width=_WIDTH_OF_HELP,
            initial_indent=f"  {name}".ljust(column),
            subsequent_indent=" " * column,
            break_on_hyphens=False,
        )
        for name, lever in levers.items()
    ]
    return "\n".join(["levers:", *paragraphs])


def _values(lever: dict[str, Any]) -> str:
    branches = [branch for branch in lever["anyOf"] if branch.get("type") != "null"]
    choices = [str(choice) for branch in branches for choice in branch.get("enum", ())]
    if choices:
        return f"{', '.join(choices[:-1])} or {choices[-1]}"
    (number,) = branches
    if number["type"] == "boolean":
        return "true or false"
    if number["type"] == "array":
        return "several, with commas between them"
    kind = "a whole number" if number["type"] == "integer" else "a number"
    least = f"above {number['exclusiveMinimum']}" if "exclusiveMinimum" in number else f"from {number['minimum']}"
    most = number["maximum"]
    # Bounds of what every JSON reader keeps say nothing about the lever.
    return f"{kind} {least}" + ("" if most in {MOST, MOST_TOKENS} else f" up to {most}")


def _question(arguments: argparse.Namespace) -> AskedQuestion:
    texts = {name: getattr(arguments, name) for name in ("model", "gpu", "engine", "reserve", "mean_tokens")}
    texts |= {name: getattr(arguments, name) for name in ("max_model_len", "kv_cache_dtype")}
    for setting in arguments.set:
        name, equals, value = setting.partition("=")
        name = name.replace("-", "_")
        if not equals:
            raise InvalidParameters(("--set", f"{setting!r} is not LEVER=VALUE"))
        if name not in LEVERS:
            raise InvalidParameters(("--set", f"there is no lever {name!r}; levers: {', '.join(LEVERS)}"))
        if texts.get(name) is not None:
            raise InvalidParameters((name, "comes twice; write it once"))
        texts[name] = value
    given = {name: text for name, text in texts.items() if text is not None}
    for name, text in given.items():
        # Python keeps bytes of the command line that are no text as halves of surrogate pairs.
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise InvalidParameters((name, "is not text in this terminal's encoding"))
    question = question_of(given)
    if given["model"].endswith(".json"):
        config = config_in(Path(given["model"])).config
        question = msgspec.structs.replace(question, model=AskedModel(config=config))
    if arguments.workload is None:
        return question
    return msgspec.structs.replace(question, workload=_workload(arguments.workload, arguments.server))


def _workload(given: str, server: str | None) -> str | AskedWorkload | WorkloadRef:
    """Take a key as it is and read a file. A name is a file where there is one, and else a key, unless it is a path."""
    known = bundled_catalog().workloads.keys
    if given in known and Path(given).exists():
        detail = f"{given} is a workload of the catalog and a file here: for the file write ./{given}, or rename it"
        raise InvalidParameters(("--workload", detail))
    if given in known or (server is not None and _can_be_a_key(given)):
        return given
    if _can_be_a_key(given):
        detail = f"there is no file {given}, and no such workload; the nearest: {', '.join(nearest_keys(given, known))}"
        raise InvalidParameters(("--workload", detail))
    return _workload_in(Path(given))


def _can_be_a_key(given: str) -> bool:
    return _KEY.fullmatch(given) is not None and not given.endswith(".json") and not Path(given).exists()


def _workload_in(file: Path) -> str | AskedWorkload | WorkloadRef:
    with read_from(file):
        body = file.read_bytes()
    try:
        # By itself first: lines and columns are the file's, and it can't end the field that it is put into below.
        strict_json.read(body)
    except MalformedJson as error:
        inside = "workload." if error.fault.pointer else ""
        lines = [inside + line for line in lines_of(error)]
        raise InvalidParameters(*((str(file), line) for line in lines)) from error
    try:
        # As the field of a question that it is, so that faults point where the API would point.
        return strict_json.decode(b'{"workload":%b}' % body, WorkloadFile).workload
    except InvalidDocument as error:
        raise InvalidParameters(*((str(file), line) for line in lines_of(error))) from error
