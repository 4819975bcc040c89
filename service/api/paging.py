"""Lists in pages, newest first, by identifier: stable while new things arrive."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

from fastapi import Depends, Query
from pydantic import BaseModel

from service.api.models import Page, View

V = TypeVar("V", bound=View)
LARGEST_PAGE = 500


class PageQuery(BaseModel):
    """Which part of a list is wanted."""

    limit: int
    before: str | None


def _page_query(
    limit: Annotated[int, Query(ge=1, le=LARGEST_PAGE, description="Largest number of items.")] = 100,
    before: Annotated[str | None, Query(description="`next` of the page before this one.")] = None,
) -> PageQuery:
    return PageQuery(limit=limit, before=before)


Paging = Annotated[PageQuery, Depends(_page_query)]


def page_of(view: type[V], query: PageQuery, find: Callable[[int, str | None], Sequence[object]]) -> Page[V]:
    """Return a page of ``find(limit, before)``; one row more than wanted tells whether there is a next."""
    rows = find(query.limit + 1, query.before)
    items = [view.model_validate(row) for row in rows[: query.limit]]
    more = len(rows) > query.limit
    return Page[V](items=items, next=items[-1].id if more else None)
