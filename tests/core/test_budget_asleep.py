"""`reconcile budget` and models that sleep: what their processes hold is not needed again."""

from reconciler.core.diff import compare
from reconciler.render.budget_fit import beside
from worlds import MIB, NOW, file, manifest, mapping, model, running, world


def test_what_a_sleeper_holds_counts_for_its_own_model() -> None:
    shared = file("8:1", 100)
    slept = running("a", 150, ready=False, asleep=True, warm=100 * MIB, files=(shared,))
    wanted = manifest(model("a", 500, sleeps=True), model("b", 500))
    table = compare(wanted, world(slept, preflights=[mapping("a", shared), mapping("b", shared)]), NOW)
    own, other = (beside(row, table, 250 * MIB) for row in table.rows)
    assert (own.need, own.fits) == (250 * MIB, True)
    assert (other.need, other.fits, other.short) == (400 * MIB, False, 150 * MIB)
