"""How the runs of the manager ended: with its end, with its crash, or with that of the whole machine."""

from typing import Final

from reconciler.store.past import Past
from reconciler.store.records import RunRecord

#: Rows kept.
RUN_LIMIT: Final = 100


class Runs(Past):
    """The table of runs. What is written to it is on the disk on return: it tells of the machine's own death."""

    #: During which boot this is; "" = not known.
    _boot: str = ""

    def begin_run(self, at_wall: float) -> int:
        """Note that a run of this boot begins and return its id; the oldest rows beyond the limit are dropped."""
        with self._write() as db:
            cursor = db.execute(
                "INSERT INTO runs (at, boot_id, risk, ended, left_safe_mode) VALUES (?, ?, '', 0, 0)",
                (at_wall, self._boot),
            )
            number = int(cursor.lastrowid or 0)
            db.execute("DELETE FROM runs WHERE id <= ?", (number - RUN_LIMIT,))
        self._sync()
        return number

    def run_risk(self, run: int, risk: str) -> None:
        """Note what a run does that could take the machine down with it; "" = nothing any more."""
        with self._write() as db:
            db.execute("UPDATE runs SET risk = ? WHERE id = ?", (risk, run))
        self._sync()

    def end_run(self, run: int) -> None:
        """Note that a run ended as it should."""
        with self._write() as db:
            db.execute("UPDATE runs SET ended = 1, risk = '' WHERE id = ?", (run,))
        self._sync()

    def leave_safe_mode(self, run: int, *, forget: bool) -> None:
        """Note that safe mode is over for this boot; `forget` = earlier runs do not count any more either."""
        with self._write() as db:
            db.execute("UPDATE runs SET left_safe_mode = 1 WHERE id = ?", (run,))
            if forget:
                db.execute("DELETE FROM runs WHERE id < ?", (run,))
        self._sync()

    def runs(self) -> tuple[RunRecord, ...]:
        """Return the runs that are kept, oldest first."""
        with self._lock:
            rows = self._db.execute(
                "SELECT id, at, boot_id, risk, ended, left_safe_mode FROM runs ORDER BY id"
            ).fetchall()
        return tuple(
            RunRecord(run, at, boot, risk, bool(ended), bool(left))
            for run, at, boot, risk, ended, left in rows
        )

    def _sync(self) -> None:
        """Have the disk hold what was written: a commit alone may be lost with the machine."""
        with self._lock:
            self._db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
