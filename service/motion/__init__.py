"""Who may move a robot, whether it may move, and the check before it does."""

from service.motion.guard import MotionGuard
from service.motion.lease import Lease, LeaseGrant
from service.motion.permit import Permit, PermitChange, PermitState

__all__ = ["Lease", "LeaseGrant", "MotionGuard", "Permit", "PermitChange", "PermitState"]
