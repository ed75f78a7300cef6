"""A systemctl, launchctl and loginctl for tests: programs that write down how they were called, and know a state."""

import json
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

#: What all three run. The folder of the script holds `calls`, one JSON list a line, and `state`, a JSON object.
SCRIPT = f"""#!{sys.executable} -S
import json, os, sys
here = os.path.dirname(os.path.abspath(__file__))
tool, words = os.path.basename(__file__), sys.argv[1:]
with open(os.path.join(here, "calls"), "a") as calls:
    calls.write(json.dumps([tool, *words]) + "\\n")
with open(os.path.join(here, "state")) as file:
    state = json.load(file)
verbs = [word for word in words if not word.startswith("-")]
verb = verbs[0]
for failing, complaint in state["fails"].items():
    if failing in " ".join(words):
        sys.exit(complaint)
if tool == "loginctl":
    print("Linger=" + state["linger"])
elif tool == "systemctl" and verb == "show":
    print("Version=252" if len(verbs) == 1 else "\\n".join(f"{{k}}={{v}}" for k, v in state["unit"].items()))
elif tool == "systemctl" and verb in ("start", "restart"):
    state["unit"].update(ActiveState="active", SubState="running", MainPID=str(state["pid"]))
elif tool == "systemctl" and verb == "enable":
    state["unit"]["UnitFileState"] = "enabled"
elif tool == "systemctl" and verb == "disable":
    state["unit"].update(ActiveState="inactive", SubState="dead", MainPID="0", UnitFileState="disabled")
elif tool == "launchctl" and verb == "print" and "/" in verbs[1].replace("gui/", ""):
    if not state["job"]:
        sys.exit("Could not find service in domain for user gui")
    print(verbs[1] + " = {{\\n" + "".join(f"\\t{{k}} = {{v}}\\n" for k, v in state["job"].items()) + "}}")
elif tool == "launchctl" and verb == "bootstrap":
    state["job"] = {{"state": "running", "runs": "1", "pid": str(state["pid"]), "last exit code": "(never exited)"}}
elif tool == "launchctl" and verb == "bootout":
    state["job"] = {{}}
with open(os.path.join(here, "state"), "w") as file:
    json.dump(state, file)
"""


@dataclass
class Tools:
    """The folder that is first on PATH. `state` is what the tools know."""

    folder: Path
    state: dict[str, Any] = field(
        default_factory=lambda: {"fails": {}, "linger": "yes", "unit": {}, "job": {}, "pid": os.getpid()}
    )

    def install(self, *names: str) -> "Tools":
        """Put these tools there."""
        self.folder.mkdir(exist_ok=True)
        for name in names:
            (self.folder / name).write_text(SCRIPT)
            (self.folder / name).chmod(0o755)
        self.say()
        return self

    def say(self, **changed: Any) -> None:
        """Have the tools know something else."""
        path = self.folder / "state"
        self.state = (json.loads(path.read_text()) if path.exists() else self.state) | changed
        path.write_text(json.dumps(self.state))

    def calls(self, *, asking: bool = False) -> list[str]:
        """Return how the tools were called since the last look; without `asking` what changes something only."""
        path = self.folder / "calls"
        lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        path.unlink(missing_ok=True)
        questions = ("show", "print", "show-user")
        return [" ".join(line) for line in lines if asking or not any(word in questions for word in line)]
