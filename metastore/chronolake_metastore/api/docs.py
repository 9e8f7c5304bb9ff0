"""/docs: the reference of the API as one page of HTML, made from the OpenAPI document.

The page has no script and loads nothing, so it works without a network and under a policy that allows nothing.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator
from html import escape
from typing import Any, Final

from litestar import Request, Response, get

from chronolake_metastore.api import forms
from chronolake_metastore.api.forms import Json, Markup

_STYLE: Final = """
:root { color-scheme: light dark; --line: light-dark(#d5d9de, #3a4048); --soft: light-dark(#f4f6f8, #1e2227);
  --link: light-dark(#0b57a4, #7ab8ff); }
body { margin: 0; font: 15px/1.5 system-ui, sans-serif; background: light-dark(#fff, #14171a);
  color: light-dark(#1c2126, #dfe3e8); }
a { color: var(--link); text-decoration: none } a:hover { text-decoration: underline }
code { font: 13px/1.4 ui-monospace, monospace; overflow-wrap: anywhere }
nav { position: fixed; inset: 0 auto 0 0; width: 19rem; overflow-y: auto; padding: 1rem; box-sizing: border-box;
  background: var(--soft); border-right: 1px solid var(--line); font-size: 13px }
nav ul { list-style: none; margin: 0 0 .5rem; padding: 0 } nav summary { cursor: pointer; font-weight: 600 }
main { margin-left: 19rem; padding: 1rem 2rem 4rem; max-width: 60rem }
article { border-top: 1px solid var(--line); padding: .5rem 0 1rem; scroll-margin-top: .5rem }
article:target { background: var(--soft) } h3 { margin: .5rem 0; font-size: 16px }
.method { display: inline-block; min-width: 4.2em; font: 600 12px ui-monospace, monospace }
table { border-collapse: collapse; width: 100%; margin: .5rem 0; font-size: 14px }
th, td { text-align: left; vertical-align: top; padding: .25rem .6rem .25rem 0;
  border-bottom: 1px solid var(--line) }
td p { margin: 0 }
@media (max-width: 60rem) {
  nav { position: static; width: auto; max-height: 40vh }
  main { margin: 0; padding: 1rem }
}
"""
_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
HEADERS: Final = {
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
_HTML: Final = Markup(
    link=lambda name: f'<a href="#{escape(name)}">{escape(name)}</a>',
    constant=lambda value: f"<code>{escape(str(value))}</code>",
)


@get("/docs", include_in_schema=False, sync_to_thread=True)
def get_docs(request: Request[Any, Any, Any]) -> Response[bytes]:
    """The page; a thread makes it at the first request."""
    state = request.app.state
    if "docs_page" not in state:
        state.docs_page = "\n".join(page(request.app.openapi_schema.to_schema())).encode()
    return Response(state.docs_page, media_type="text/html", headers=HEADERS)


def page(document: Json) -> Iterator[str]:
    """The lines of the page."""
    title = escape(document["info"]["title"])
    tags = forms.by_tag(document)
    schemas = sorted(document["components"]["schemas"].items())
    yield f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}: REST API</title>'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<style>{_STYLE}</style></head><body><nav>"
    for tag, operations in tags.items():
        yield f"<details open><summary>{escape(tag)}</summary><ul>"
        for _, _, operation in operations:
            yield f'<li><a href="#{_anchor(operation)}">{escape(operation["summary"])}</a></li>'
        yield "</ul></details>"
    yield "<details><summary>Bodies</summary><ul>"
    yield from (f"<li>{_HTML.link(name)}</li>" for name, _ in schemas)
    yield f"</ul></details></nav><main><h1>{title}: REST API</h1>{_text(document['info']['description'])}"
    yield '<p>The same for programs: <a href="/openapi.json">/openapi.json</a>.</p>'
    for tag, operations in tags.items():
        yield f"<h2>{escape(tag)}</h2>"
        for method, path, operation in operations:
            yield from _operation(method, path, operation)
    yield "<h2>Bodies</h2>"
    for name, schema in schemas:
        yield from _schema(name, schema)
    yield "</main></body></html>"


def _anchor(operation: Json) -> str:
    return f"operation-{escape(operation['operationId'])}"


def _operation(method: str, path: str, operation: Json) -> Iterator[str]:
    yield f'<article id="{_anchor(operation)}">'
    yield f'<h3><span class="method">{method}</span><code>{escape(path)}</code></h3>'
    yield f"<p><strong>{escape(operation['summary'])}</strong></p>{_text(operation.get('description', ''))}"
    if parameters := operation.get("parameters"):
        rows = (
            (
                _HTML.constant(parameter["name"]),
                escape(parameter["in"]),
                forms.form(parameter["schema"], _HTML) + (" (required)" if parameter["required"] else ""),
                _text(parameter.get("description", "")),
            )
            for parameter in parameters
        )
        yield from _table(("parameter", "in", "form", "meaning"), rows)
    if body := operation.get("requestBody"):
        optional = "" if body["required"] else "; may be left out"
        yield f"<p>Body: {forms.form(forms.content(body), _HTML)}{optional}.</p>"
    answers = (
        (status, forms.forms(answer, _HTML), _text(forms.meaning(status, answer)))
        for status, answer in sorted(operation["responses"].items())
    )
    yield from _table(("status", "answer", "when"), answers)
    yield "</article>"


def _schema(name: str, schema: Json) -> Iterator[str]:
    yield f'<article id="{escape(name)}"><h3>{escape(name)}</h3>{_text(schema.get("description", ""))}'
    if values := schema.get("enum"):
        yield f"<p>One of {', '.join(map(_HTML.constant, values))}.</p>"
    else:
        required = schema.get("required", ())
        rows = (
            (
                _HTML.constant(field),
                forms.form(form, _HTML) + (" (required)" if field in required else ""),
                _text(form.get("description", "")),
            )
            for field, form in schema.get("properties", {}).items()
        )
        yield from _table(("field", "form", "meaning"), rows)
    yield "</article>"


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """A table of cells that are HTML."""
    yield f"<table><thead><tr>{''.join(f'<th>{word}</th>' for word in head)}</tr></thead><tbody>"
    yield from (f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    yield "</tbody></table>"


def _text(text: str) -> str:
    """A text of docstrings: paragraphs, and names in backticks."""
    paragraphs = (escape(" ".join(part.split())) for part in text.split("\n\n") if part.strip())
    return "".join(f"<p>{_with_names(part)}</p>" for part in paragraphs)


def _with_names(text: str) -> str:
    return re.sub(r"`+([^`]+)`+", r"<code>\1</code>", text)
