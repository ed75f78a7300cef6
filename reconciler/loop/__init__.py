"""The control loop: one task owns the state; it observes, plans, and performs the head of the plan."""
