"""The control loop: one task owns the state; it observes, plans, and performs the head of the plan."""

from reconciler.loop.loop import Loop, Options

__all__ = ["Loop", "Options"]
