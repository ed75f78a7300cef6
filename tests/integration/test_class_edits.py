"""A class of the user's that is edited while it is served, through the whole program."""

from manager import SOON, Manager, running
from support import wait_for

TEXT = """
class Echo:
    def infer(self, payload):
        return {!r}
"""


def test_an_edited_class_replaces_its_process_and_a_broken_one_does_not(manager: Manager) -> None:
    # Bytecode of a text of the same size and second would be taken for that of the new one.
    manager.env = {**manager.env, "PYTHONDONTWRITEBYTECODE": "1"}
    file = manager.manifests / "edited_class.py"
    file.write_text(TEXT.format("old"))
    model = {"engine": "python", "entry": "edited_class:Echo", "role": "chat", "residency": "warm"}
    manager.write({"echo": {**model, "memory": {"steady": "60MiB"}}})
    manager.start()
    [old] = manager.wait_ready("echo")
    assert manager.client.post("/infer", json={"model": "echo"}).json() == "old"

    # A file is looked at every half a minute; a start does it at once.
    manager.kill()
    file.write_text(TEXT.format("new"))
    manager.start()
    wait_for(lambda: not running(old), SOON, "the end of the process of the old class")
    evict = manager.wait_log("evict", model="echo")
    assert (evict["reason"], evict["why"]) == ("Drifted", "its class was edited")
    [new] = manager.wait_ready("echo")
    assert manager.client.post("/infer", json={"model": "echo"}).json() == "new"

    manager.kill()
    file.write_text("class Echo:\n    def infer(self, payload\n")
    manager.start()
    assert manager.wait_log("adopted", model="echo", pid=new)
    assert manager.client.post("/infer", json={"model": "echo"}).json() == "new"
    assert manager.model("echo")["pid"] == new
    assert len(manager.log("evict", model="echo")) == 1
