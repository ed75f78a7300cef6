"""The keys beside the models: keys, ports, times, virtual names, and all that has no counterpart."""

from collections.abc import Mapping, Sequence
from typing import Final

from reconciler.manifest.diagnostics import quoted
from reconciler.manifest.problems import nearest
from reconciler.manifest.tree import Map, Scalar
from reconciler.migrate.draft import PATIENCE, ManifestDraft
from reconciler.migrate.finding import Kind, shown
from reconciler.migrate.llama_swap import address, groups, macros, matrix
from reconciler.migrate.llama_swap.job import Common
from reconciler.migrate.llama_swap.model import say_taken_at
from reconciler.migrate.llama_swap.routing import Routing
from reconciler.migrate.llama_swap.settings import span
from reconciler.migrate.llama_swap.values import Section

#: Key without a counterpart -> what is said of it, and what to do.
_WITHOUT: Final[Mapping[str, tuple[str, str]]] = {
    "logLevel": ("reconcile's log has one level", "nothing need be done"),
    "logTimeFormat": ("reconcile's log has its own form", "RECONCILE_LOG=json for programs"),
    "logToStdout": ("the log goes to stderr, each model's to a file", "reconcile logs MODEL"),
    "store": ("reconcile keeps its history by itself", "reconcile history"),
    "metricsMaxInMemory": ("reconcile keeps its history on disk", "reconcile history"),
    "captureBuffer": ("requests and answers are never kept", "nothing need be done"),
    "ui": ("there is no such setting", "nothing need be done"),
    "performance": ("memory is watched in any case", "nothing need be done"),
    "includeAliasesInList": ("aliases are always listed", "nothing need be done"),
    "upstream": (
        "every request to /upstream starts its model",
        "have clients not fetch static files through it",
    ),
    "profiles": ("names are not rewritten at run time", "`virtual` has names that stand for several models"),
}
_DEFAULTS: Final = frozenset(
    {
        *(
            ("logLevel", "info"),
            ("logTimeFormat", ""),
            ("logToStdout", "proxy"),
            ("metricsMaxInMemory", "1000"),
        ),
        *(("captureBuffer", "5"), ("includeAliasesInList", "false")),
    }
)
_SAME: Final = frozenset({("includeAliasesInList", "true"), ("captureBuffer", "0")})
KNOWN: Final = frozenset(
    {
        *_WITHOUT,
        *(
            "healthCheckTimeout",
            "startPort",
            "sendLoadingState",
            "globalTTL",
            "unloadTimeout",
            "macros",
            "apiKeys",
        ),
        *("selectors", "models", "groups", "matrix", "routing", "hooks", "peers"),
    }
)
#: Seconds a request waits at most, if loads are no longer than half of it.
_WAIT: Final = 300
_STRATEGIES: Final = {"warm": "ready", "pin": "first", "spillover": "ready", "balance": "ready"}


def settings(root: Section, common: Common, draft: ManifestDraft) -> None:
    """Read what holds for all models."""
    root.dead(KNOWN | {"logRequests"})
    if "logRequests" in root.node.items:
        root.say(Kind.DEAD, "logRequests", "llama-swap ignores it since long", "delete it")
    common.macros = macros.read(root)
    common.ttl = _least(root, "globalTTL", 0)
    common.unload = _least(root, "unloadTimeout", 0)
    common.loading_state = root.switch("sendLoadingState", False)
    if common.loading_state:
        draft.gateway["comments"] = True
        what = "a stream that waits gets comments that say what for, not text in its reasoning"
        root.say(Kind.DIFFERS, "sendLoadingState", what)
    draft.defaults |= {key: dict(value) for key, value in PATIENCE.items()}
    timeouts = draft.defaults["timeouts"]
    if root.has("healthCheckTimeout") and (load := root.number("healthCheckTimeout")) is not None:
        timeouts["load"] = span(max(load, 15))
        if 2 * load > _WAIT:  # who waits for a load must not be sent away before its end
            draft.defaults["queue"] = {"timeout": span(2 * load)}
    if common.unload:
        timeouts["stop"] = span(common.unload)
    _ports(root, draft)
    for key, (what, advice) in _WITHOUT.items():
        if root.has(key) and not _same(root, key):
            root.say(Kind.NOTE if _usual(root, key) else Kind.LOST, key, what, advice)


def _usual(root: Section, key: str) -> bool:
    """Tell whether a key says what llama-swap does without it: leaving it out changes nothing."""
    value = root.entry(key).value
    return isinstance(value, Scalar) and (key, value.value.lower()) in _DEFAULTS


def _same(root: Section, key: str) -> bool:
    """Tell whether a key says what is so here in any case."""
    value = root.entry(key).value
    return isinstance(value, Scalar) and (key, value.value.lower()) in _SAME


def _least(root: Section, key: str, least: int) -> int:
    found = root.number(key)
    if found is not None and found < least:
        root.say(Kind.ERROR, key, f"{found} is no number of seconds")
    return max(found or 0, least)


def _ports(root: Section, draft: ManifestDraft) -> None:
    first = root.number("startPort")
    if first is None:
        return
    if not 1 <= first <= 65535:
        root.say(Kind.ERROR, "startPort", f"{first} is no port")
        return
    draft.machine["ports"] = f"{first}-{min(first + 99, 65535)}"
    what = "models get free ports from there on when they are loaded, not one each by their names"
    root.say(Kind.DIFFERS, "startPort", what, "a model's `port` makes it a fixed one")


def api_keys(root: Section, common: Common, draft: ManifestDraft) -> None:
    """Put the clients' keys, none of them as it is."""
    keys = []
    for item in root.scalars("apiKeys"):
        value = macros.ours(item.value)
        if not value or " " in value:
            root.report.add(Kind.ERROR, item.mark, "apiKeys", "a key is one word, and not empty")
        elif value.startswith("${env:") and value.endswith("}"):
            keys.append(value)
        else:
            keys.append(common.secrets.variable("RECONCILE_CLIENT_KEY", item.value))
            say_taken_at(root.report, item.mark, "apiKeys", [keys[-1][6:-1]])
    if keys:
        draft.gateway["api_keys"] = keys


def selectors(root: Section, names: Mapping[str, str], draft: ManifestDraft) -> None:
    """Put the names that stand for several models. `names` leads from names and aliases to models."""
    for name, each in root.sections("selectors"):
        each.dead(
            frozenset(
                {"strategy", "targets", "settings", "balance", "name", "description", "unlisted", "metadata"}
            )
        )
        strategy = each.text("strategy")
        if strategy not in _STRATEGIES:
            each.say(
                Kind.ERROR, "strategy", f"{quoted(strategy)} is none of {', '.join(sorted(_STRATEGIES))}"
            )
            continue
        targets = [item.value for item in each.scalars("targets")]
        use = list(dict.fromkeys(names[target] for target in targets if target in names))
        for lost in (target for target in targets if target not in names):
            each.say(Kind.LOST, "targets", f"{quoted(lost)} is no model of this machine, and left out")
        if not use:
            each.say(Kind.LOST, "targets", "none of them is a model of this machine: the name is left out")
            continue
        draft.virtual[name] = {"use": use, "strategy": _STRATEGIES[strategy]}
        if strategy in ("spillover", "balance"):
            what = "the first that is in memory answers; it is not counted how much each has to do"
            each.say(Kind.DIFFERS, "strategy", what)
        for key in ("name", "description", "unlisted", "metadata"):
            if each.has(key):
                each.say(Kind.LOST, key, "/v1/models lists names alone")


def peers(root: Section) -> None:
    """Note the servers elsewhere."""
    for _name, each in root.sections("peers"):
        each.dead(frozenset({"proxy", "apiKey", "models", "filters", "timeouts"}))
        models = [item.value for item in each.scalars("models")]
        where = f"{', '.join(models) or 'its models'} at {address.host(each.text('proxy'))}"
        what = f"{where}: reconcile passes nothing on to other machines"
        root.report.add(Kind.LOST, each.node.mark, each.path, what, "have clients ask it directly")


def routing(root: Section, models: Sequence[str], names: Mapping[str, str]) -> Routing:
    """Return who is swapped for whom, and who is loaded at start."""
    section = root
    router = _router(root, names)
    if router is not None:
        if root.has("groups") or root.has("matrix"):
            key = "matrix" if root.has("matrix") else "groups"
            what = f"`{key}` and `routing.router` are both there: llama-swap refuses the file"
            root.say(Kind.ERROR, key, what, "keep one of them")
        section = router
    result = Routing(preload=_preload(root, names))
    if section.has("matrix"):
        if section.has("groups") and section is root:
            root.say(
                Kind.ERROR,
                "matrix",
                "groups and matrix are both there: llama-swap refuses the file",
                "keep one",
            )
        result.sets = matrix.read(section, models)
        result.matrix = section.mark("matrix")
        result.kept = frozenset.intersection(*result.sets) if len(result.sets) > 1 else frozenset()
    else:
        result.groups = groups.read(section, models)
        result.kept = frozenset(m for g in result.groups if g.persistent for m in g.members)
    return result


def _router(root: Section, names: Mapping[str, str]) -> Section | None:
    """Return the settings of the router in use, where it is said in the newer way."""
    block = root.section("routing")
    if block is None:
        return None
    block.dead(frozenset({"router", "scheduler"}))
    _scheduler(block, names)
    router = block.section("router")
    if router is None:
        return None
    router.dead(frozenset({"use", "settings"}))
    chosen, found = router.text("use") or "group", router.section("settings")
    if chosen not in ("group", "matrix"):
        router.say(Kind.ERROR, "use", f"{quoted(chosen)} is neither group nor matrix")
    if found is None:
        return None
    unused = "matrix" if chosen == "group" else "groups"
    if found.has(unused):
        found.say(Kind.DEAD, unused, f"`use: {chosen}` leaves it out")
    used = {key: entry for key, entry in found.node.items.items() if key != unused}
    return Section(Map(found.node.mark, used), found.path, found.report)


def _scheduler(block: Section, names: Mapping[str, str]) -> None:
    scheduler = block.section("scheduler")
    if scheduler is not None:
        scheduler.dead(frozenset({"use", "settings"}))
        if (use := scheduler.text("use")) not in ("", "fifo"):
            scheduler.say(
                Kind.LOST, "use", f"no {shown(use)}: requests wait in the order of priority and arrival"
            )
    settings = scheduler.section("settings") if scheduler else None
    fifo = settings.section("fifo") if settings else None
    order = fifo.section("priority") if fifo else None
    for name in order.node.items if order else ():
        if order is not None and name not in names:
            order.say(Kind.ERROR, name, f"there is no model {quoted(name)}: llama-swap refuses the file")
        elif order is not None:
            what = "it orders the queue alone; a manifest's `priority` also says who keeps memory, so it is not set"
            order.say(Kind.LOST, name, what, f"models.{names[name]}.priority, or a priority for each API key")


def _preload(root: Section, names: Mapping[str, str]) -> tuple[str, ...]:
    hooks = root.section("hooks")
    if hooks is None:
        return ()
    hooks.dead(frozenset({"on_startup"}))
    startup = hooks.section("on_startup")
    if startup is None:
        return ()
    startup.dead(frozenset({"preload"}))
    found = []
    for item in startup.scalars("preload"):
        name = item.value.strip()
        if name in names:
            found.append(names[name])
        elif name:
            near = nearest(name, names)
            what = f"there is no model {quoted(name)}: llama-swap passes over it"
            advice = f"did you mean {near}?" if near else "delete it"
            startup.report.add(Kind.DEAD, item.mark, startup.call("preload"), what, advice)
    return tuple(dict.fromkeys(found))
