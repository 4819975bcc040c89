"""``dynid serve``: run the service."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def serve(
    config: Annotated[Path | None, typer.Option(help="Settings file (TOML); DYNID_* variables override it.")] = None,
    port: Annotated[int | None, typer.Option(help="Overrides the port; 0 takes a free one.")] = None,
) -> None:
    """Run the service until it is told to stop (SIGINT or SIGTERM)."""
    from service.api.server import serve as run
    from service.settings import load_settings

    run(load_settings(config, **({} if port is None else {"port": port})))
