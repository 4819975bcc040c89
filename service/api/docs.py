"""The interactive API documentation, with its assets from this machine: labs are often offline."""

from __future__ import annotations

from fastapi import FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse
from starlette.staticfiles import StaticFiles

DOCS_PATH = "/docs"
_ASSETS = "/docs/assets"
SCRIPT_PATH = f"{_ASSETS}/swagger-ui-bundle.js"
STYLE_PATH = f"{_ASSETS}/swagger-ui.css"
ICON_PATH = f"{_ASSETS}/favicon-32x32.png"


def install_docs(app: FastAPI) -> None:
    """Serve Swagger UI at ``DOCS_PATH``."""
    app.mount(_ASSETS, StaticFiles(packages=[("fastapi_swagger", "resources")]))

    @app.get(DOCS_PATH, include_in_schema=False)
    def docs() -> HTMLResponse:
        return get_swagger_ui_html(
            openapi_url="/openapi.json",
            title=f"{app.title} API",
            swagger_js_url=SCRIPT_PATH,
            swagger_css_url=STYLE_PATH,
            swagger_favicon_url=ICON_PATH,
        )
