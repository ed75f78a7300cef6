"""Waiting until a process that was started answers on a port that is proved its own."""

from collections.abc import Callable
from functools import partial
from typing import Final

import anyio
import anyio.to_thread
import httpx

from reconciler.core.crashes import FailureKind
from reconciler.core.launch import LaunchSpec
from reconciler.engines.base import Readiness
from reconciler.excerpt import excerpt, secrets_of
from reconciler.host import PortOwner, PortProof
from reconciler.loop import careful
from reconciler.loop.failures import Failure, describe
from reconciler.loop.hands import Hands
from reconciler.loop.launches import Launch

#: Pause between two readiness probes: a share of the time the load has taken so far, so that neither a model ready in
#: 0.1 s nor one ready in a minute is kept waiting for more than that share of it.
PROBE_SHARE: Final = 0.015
PROBE_FIRST: Final = 0.005
PROBE_CAP: Final = 0.25
#: Seconds between two looks at who listens, for a server that does not answer on its port.
PROOF_SECONDS: Final = 0.5
BEFORE_READY: Final = "the process ended before it was ready"


class LoadError(Exception):
    """The model did not become ready; the message says why, and `kind` what kind of failure that is."""

    def __init__(self, message: str, kind: FailureKind = FailureKind.CRASHED) -> None:
        super().__init__(message)
        self.kind = kind

    @classmethod
    def of(cls, failure: Failure) -> "LoadError":
        """Return the error that tells of a failure."""
        return cls(failure.text, failure.kind)

    @property
    def failure(self) -> Failure:
        """The failure that it tells of."""
        return Failure(str(self), self.kind)


async def until_ready(
    hands: Hands,
    http: httpx.AsyncClient,
    launch: Launch,
    spec: LaunchSpec,
    note: Callable[[str], None],
    ended: str = BEFORE_READY,
) -> None:
    """Return when the model answers on a port that is proved ours; `note` what each probe saw. Raises LoadError.

    What answers is believed only then, its refusal as little as its consent: a stranger may sit on the port.
    """
    began = hands.clock()
    prove_at = began + PROOF_SECONDS
    elsewhere = ""
    while True:
        if launch.exit is not None:
            raise LoadError.of(await explained(hands, launch, spec, ended))
        probe = await careful.get(spec.engine).probe(spec, launch.base_url, http)
        detail = excerpt(probe.detail, secrets_of(spec))
        note(elsewhere or detail or "it does not listen yet")
        if probe.readiness is not Readiness.LOADING or hands.clock() >= prove_at:
            prove_at = hands.clock() + PROOF_SECONDS
            proof = await _proof(hands, launch)
            elsewhere = proof.message if proof.owner is PortOwner.OTHER_PORT else ""
            if proof.owner is PortOwner.OURS and probe.readiness is Readiness.READY:
                return
            if proof.owner is PortOwner.OURS and probe.readiness is Readiness.FAILED:
                text = f"the server will not become ready: {detail}"
                raise LoadError.of(await explained(hands, launch, spec, text))
        pause = (hands.clock() - began) * PROBE_SHARE
        with anyio.move_on_after(min(PROBE_CAP, max(PROBE_FIRST, pause))):
            await launch.exited.wait()


async def explained(
    hands: Hands, launch: Launch, spec: LaunchSpec, what: str, kind: FailureKind | None = None
) -> Failure:
    """Return what happened, with how the process ended, if it did, and what its log says of that.

    `kind` is given where that is known better than its end tells.
    """

    def look() -> Failure:
        return describe(
            spec,
            launch.exit,
            hands.host.logs,
            launch.model,
            what,
            watch=partial(hands.observer.oom.starved, launch.process.pid),
            kind=kind,
            kills=hands.host.kills(launch.id),
        )

    return await anyio.to_thread.run_sync(look)


async def _proof(hands: Hands, launch: Launch) -> PortProof:
    """Prove who listens, and note under which address. Raises LoadError for a stranger."""
    proof = await anyio.to_thread.run_sync(hands.host.owns_port, launch.process, launch.id, launch.port)
    if proof.owner is PortOwner.STRANGER:
        raise LoadError(proof.message, FailureKind.PORT_TAKEN)
    if proof.owner is PortOwner.OURS:
        launch.host = proof.host
    return proof
