"""A driver for the virtual PLC, and a source that is connected and closed again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from drivers.beckhoff_ads.driver import BeckhoffAdsDriver, create
from drivers.beckhoff_ads.stream import AdsRingReader
from drivers.virtual.process import VirtualUpru6


@pytest.fixture
def driver(virtual_upru6: VirtualUpru6) -> BeckhoffAdsDriver:
    return create(virtual_upru6.host, 1000.0, ams_net_id=virtual_upru6.net_id)


@pytest.fixture
def source(driver: BeckhoffAdsDriver) -> Iterator[AdsRingReader]:
    reader = driver.source()
    yield reader
    reader.close()
