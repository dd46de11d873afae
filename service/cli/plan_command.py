"""`headcount plan`: one question, answered in this process from the bundled catalog, or by a server."""

import argparse
import sys
from pathlib import Path

import httpx
import msgspec

from service.api.problem_types import Problem
from service.capacity.answer import Answer
from service.catalog.bundled import bundled_catalog
from service.catalog.planning import estimate
from service.cli.ladder_table import print_answer
from service.errors import InvalidParameters, SetUpError
from service.readers import strict_json
from service.readers.flat_question import LEVERS, question_of
from service.readers.question import AskedQuestion, AskedWorkload, WorkloadFile

_ANSWER_WITHIN = 30.0


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "plan",
        help="answer one question, without a server or a database",
        description="Answer one question from the bundled catalog, or by a server with --server.",
    )
    parser.add_argument("model", metavar="MODEL", help="a model's key, for example meta-llama/Llama-3.1-8B-Instruct")
    parser.add_argument("gpu", metavar="GPU", help="a GPU's key, for example h100-sxm-80gb")
    parser.add_argument("--engine", help="an engine's key; generic when left out")
    parser.add_argument("--max-model-len", metavar="N", help="the window in tokens; the model's limit when left out")
    parser.add_argument("--kv-cache-dtype", metavar="DTYPE", help="auto, bf16, fp16, fp32 or fp8")
    lengths = parser.add_mutually_exclusive_group()
    lengths.add_argument("--mean-tokens", metavar="N", help="a workload in which every request holds N tokens")
    lengths.add_argument("--workload", metavar="FILE", type=Path, help="a workload as JSON, as in POST /v1/plans")
    parser.add_argument(
        "--set",
        metavar="LEVER=VALUE",
        action="append",
        default=[],
        help=f"set a lever; may come more than once. Levers: {', '.join(LEVERS)}",
    )
    parser.add_argument("--json", action="store_true", help="print what POST /v1/estimates returns")
    parser.add_argument("--server", metavar="URL", help="ask this server instead of the bundled catalog")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Answer and print."""
    question = _question(arguments)
    server = arguments.server
    answer = estimate(question, bundled_catalog()) if server is None else _ask(server, question)
    if arguments.json:
        sys.stdout.buffer.write(answer)
        if sys.stdout.isatty():
            print()
    else:
        print_answer(msgspec.json.decode(answer, type=Answer))
    return 0


def _question(arguments: argparse.Namespace) -> AskedQuestion:
    texts = {name: getattr(arguments, name) for name in ("model", "gpu", "engine", "mean_tokens")}
    texts |= {name: getattr(arguments, name) for name in ("max_model_len", "kv_cache_dtype")}
    for setting in arguments.set:
        name, equals, value = setting.partition("=")
        name = name.replace("-", "_")
        if not equals or name not in LEVERS:
            raise InvalidParameters(("--set", f"{setting!r} is not LEVER=VALUE; levers: {', '.join(LEVERS)}"))
        if texts.get(name) is not None:
            raise InvalidParameters((name, "comes twice; write it once"))
        texts[name] = value
    question = question_of({name: text for name, text in texts.items() if text is not None})
    if arguments.workload is None:
        return question
    return msgspec.structs.replace(question, workload=_workload(arguments.workload))


def _workload(file: Path) -> AskedWorkload:
    try:
        body = file.read_bytes()
    except OSError as error:
        raise SetUpError(f"{file} can't be read: {error.strerror}") from error
    # Checked as the field of a question that it is, so that faults point where the API would point.
    return strict_json.decode(b'{"workload":%b}' % body, WorkloadFile).workload


def _ask(server: str, question: AskedQuestion) -> bytes:
    try:
        response = httpx.post(
            f"{server.rstrip('/')}/v1/estimates",
            content=msgspec.json.encode(question),
            headers={"Content-Type": "application/json"},
            timeout=_ANSWER_WITHIN,
        )
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise SetUpError(f"{server} does not answer: {error}") from error
    if response.status_code == httpx.codes.OK:
        return response.content
    try:
        problem = msgspec.json.decode(response.content, type=Problem)
    except msgspec.DecodeError:
        raise SetUpError(f"{server} answered {response.status_code}, and not as a Headcount does") from None
    raise SetUpError(f"{server} answered {problem.status}: {problem.detail}")
