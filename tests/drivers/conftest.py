"""Contracts of drivers are modules beside their tests; what they assert is explained as in a test."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("tests.drivers.motion_contract")
