"""Joint friction: velocity laws and terms that compose, ``law+term+...``, joint by joint."""

from core.friction.model import FrictionModel, FrictionTerm
from core.friction.registry import LAWS, TERMS, friction_model

__all__ = ["LAWS", "TERMS", "FrictionModel", "FrictionTerm", "friction_model"]
