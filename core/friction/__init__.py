"""Joint friction: velocity laws and terms that compose, ``law+term+...``, joint by joint."""

from core.friction.model import FrictionModel, JointFriction
from core.friction.registry import FRICTIONLESS, LAWS, TERMS, friction_model
from core.friction.term import FrictionTerm, Shape, VelocityLaw

__all__ = [
    "FRICTIONLESS",
    "LAWS",
    "TERMS",
    "FrictionModel",
    "FrictionTerm",
    "JointFriction",
    "Shape",
    "VelocityLaw",
    "friction_model",
]
