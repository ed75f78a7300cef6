"""Models that died by themselves."""

from functools import partial

import anyio.to_thread

from reconciler.core.book import DIED
from reconciler.host import Host
from reconciler.leases import LeaseBook
from reconciler.loop.failures import Failure, describe
from reconciler.loop.journal import Journal
from reconciler.loop.keeper import Keeper
from reconciler.loop.launches import Launch, Launches
from reconciler.loop.oom_watch import OomWatch
from reconciler.loop.scarce import insist
from reconciler.store import AsyncStore


async def take_deaths(
    launches: Launches,
    host: Host,
    book: LeaseBook,
    store: AsyncStore,
    keeper: Keeper,
    journal: Journal,
    oom: OomWatch,
    now: float,
) -> None:
    """Take ready models whose process has ended out of service at once; what they left behind is the plan's business.

    A process that ends while it is being loaded or stopped is the affair of whoever does that.
    """
    for launch in launches:
        if launch.exit is None or launch.stopping or launch.broken or not (launch.ready or launch.asleep):
            continue
        slept, launch.ready, launch.asleep = launch.asleep, False, False
        answered = 0
        if launches.serving(launch.model) is launch:
            answered = book.answered(launch.model)
            book.close(launch.model)
            launches.unserve(launch)
        look = partial(anyio.to_thread.run_sync, _autopsy, host, launch, oom)
        failure, rest = await insist(look, f"how {launch.model} ended")
        if slept:
            await journal.ended_asleep(launch, failure)
        elif not launch.hung:  # that was counted when it was found to hang
            await journal.crashed(launch, failure, answered, now)
        if rest:
            launch.broken = True
        else:
            launches.drop(launch)
            await keeper.keep(store.drop_launch(launch.id))


def _autopsy(host: Host, launch: Launch, oom: OomWatch) -> tuple[Failure, tuple[int, ...]]:
    """Return why it died, and which of its processes still live."""
    kills = host.kills(launch.id)
    watch = partial(oom.starved, launch.process.pid)
    failure = describe(
        launch.spec, launch.exit, host.logs, launch.model, DIED, watch=watch, ready=True, kills=kills
    )
    rest = host.tree(launch.process, launch.id, thorough=True)
    if not rest:
        host.over()
    return failure, rest
