"""The last line of a log, as clients are told it."""

from pathlib import Path

from reconciler.gateway.lastline import last_line


def test_it_is_found_where_it_was_rotated_to(tmp_path: Path) -> None:
    log = tmp_path / "m.log"
    assert last_line(str(log), None) is None
    log.write_text("--- start of a launch\n")
    assert last_line(str(log), None) is None, "that is the manager's own"
    (tmp_path / "m.log.1").write_text("first\nits last words\n")
    assert last_line(str(log), None) == "its last words"
    log.write_text("newer\n--- a note\n")
    assert last_line(str(log), None) == "newer"
