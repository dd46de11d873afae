"""HTML pages, rendered here: the description of the service and the problem types."""

import json
import re
from html import escape
from typing import Any

from service.api.problem_types import PROBLEM_TYPES, ProblemType

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 60rem; padding: 1.5rem; color: #1b1f24 }
h1, h2, h3 { line-height: 1.25 } h2 { margin-top: 2.5rem; border-bottom: 1px solid #d0d7de }
code, pre { font: 0.875em/1.45 ui-monospace, monospace } a { color: #0550ae }
pre { background: #f6f8fa; border-radius: 6px; overflow-x: auto; padding: 0.75rem }
summary { cursor: pointer } table { border-collapse: collapse; width: 100% }
th, td { text-align: left; padding: 0.25rem 0.75rem 0.25rem 0; vertical-align: top; border-bottom: 1px solid #eaeef2 }
.verb { display: inline-block; min-width: 3.5em; font-weight: 600 } .quiet { color: #57606a }
@media (prefers-color-scheme: dark) {
  body { background: #0d1117; color: #e6edf3 } pre { background: #161b22 } a { color: #79b8ff }
  th, td, h2 { border-color: #30363d } .quiet { color: #8b949e }
}
"""


def description_page(document: dict[str, Any]) -> str:
    """The OpenAPI document as a page: every operation with parameters, body, answers; every schema."""
    info = document["info"]
    sections = [
        f"<h1>{escape(info['title'])} <span class=quiet>{escape(info['version'])}</span></h1>",
        f"<p>{escape(info['summary'])} {_text(info['description'])}</p>",
        '<p><a href="/openapi.json">openapi.json</a> · <a href="/problems">problem types</a></p>',
    ]
    for tag in document["tags"]:
        sections.append(f"<h2>{escape(tag['name'])}</h2><p>{_text(tag['description'])}</p>")
        sections += [
            _operation(path, verb, operation)
            for path, verbs in document["paths"].items()
            for verb, operation in verbs.items()
            if tag["name"] in operation["tags"]
        ]
    sections.append("<h2>schemas</h2>")
    for name, schema in document["components"]["schemas"].items():
        sections.append(
            f'<details id="{escape(name)}"><summary><code>{escape(name)}</code></summary>{_json(schema)}</details>'
        )
    return _page(info["title"], "\n".join(sections))


def problem_list_page() -> str:
    """All problem types as a table."""
    rows = "".join(
        f'<tr><td>{kind.status}</td><td><a href="{kind.path}">{escape(kind.slug)}</a></td>'
        f"<td>{escape(kind.title)}</td></tr>"
        for kind in PROBLEM_TYPES.values()
    )
    table = f"<table><tr><th>Status</th><th>Type</th><th>Title</th></tr>{rows}</table>"
    return _page("Problem types", f"<h1>Problem types</h1>{table}")


def problem_page(kind: ProblemType) -> str:
    """One problem type: what it means and what to do."""
    body = (
        f"<h1>{escape(kind.title)}</h1><p class=quiet>HTTP status {kind.status}, type <code>{kind.path}</code></p>"
        f"<h2>What it means</h2><p>{_text(kind.meaning)}</p><h2>What to do</h2><p>{_text(kind.fix)}</p>"
        '<p><a href="/problems">All problem types</a></p>'
    )
    return _page(kind.title, body)


def _operation(path: str, verb: str, operation: dict[str, Any]) -> str:
    parts = [
        f'<h3 id="{operation["operationId"]}"><span class=verb>{verb.upper()}</span> <code>{escape(path)}</code></h3>',
        f"<p><b>{escape(operation['summary'])}.</b> {_text(operation['description'])}</p>",
    ]
    if parameters := operation.get("parameters"):
        rows = "".join(
            f"<tr><td><code>{escape(one['name'])}</code></td><td class=quiet>{one['in']}"
            f"{', required' if one['required'] else ''}</td><td>{_text(one['description'])}</td>"
            f"<td><code>{escape(json.dumps(one['schema']))}</code></td></tr>"
            for one in parameters
        )
        parts.append(f"<details><summary>Parameters</summary><table>{rows}</table></details>")
    for content in operation.get("requestBody", {}).get("content", {}).values():
        parts.append(f"<p>Body: {_reference(content['schema'])}</p>")
        parts += [_json(example["value"]) for example in content.get("examples", {}).values()]
    answers = "".join(
        f"<tr><td>{status}</td><td>{_text(answer['description'])}</td>"
        f"<td>{' '.join(_reference(one['schema']) for one in answer.get('content', {}).values())}</td></tr>"
        for status, answer in operation["responses"].items()
    )
    parts.append(f"<details><summary>Answers</summary><table>{answers}</table></details>")
    return "\n".join(parts)


def _reference(schema: dict[str, Any]) -> str:
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    return f'<a href="#{escape(name)}"><code>{escape(name)}</code></a>' if name else ""


def _text(markdown: str) -> str:
    """Escape a text, with `code` between backticks."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(markdown))


def _json(value: object) -> str:
    return f"<pre>{escape(json.dumps(value, indent=2))}</pre>"


def _page(title: str, body: str) -> str:
    return (
        '<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style>{body}</html>"
    )
