"""Pure decisions: given a manifest, a world and a time, what should happen next and why.

Nothing here reads a clock, touches a file, starts a process or writes a log. `loop` acts on what this package
decides; `--dry-run`, `--once` and the simulator use the very same functions.
"""
