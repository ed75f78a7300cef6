"""One step at a time: the next model is started only when the last one is really gone."""

from manager import MIB, Asking, Manager, Sampler, running


def test_a_stubborn_model_is_gone_before_the_next_one_starts(manager: Manager) -> None:
    """It ignores SIGTERM; who asks for it meanwhile waits until it is back."""
    manager.write(
        {
            "stubborn": manager.fake(
                "stubborn", "--ignore-term", "--rss-mib", "200", size=300, timeouts={"stop": "1s"}
            ),
            "next": manager.fake("next", "--rss-mib", "200", size=300),
        },
        memory=400,
    )
    manager.start()
    with Sampler({name: manager.tag(name) for name in ("stubborn", "next")}) as table:
        assert manager.ask("stubborn").status_code == 200
        [old] = manager.processes("stubborn")
        asked = Asking(manager, "next")
        evicting = manager.wait_model("stubborn", state="evicting")
        assert evicting["verdict"]["reason"] == "MakeRoom"
        assert manager.status()["action"]["model"] == "stubborn"
        assert manager.status()["action"]["doing"] == "stopping"
        meanwhile = Asking(manager, "stubborn")
        # Another program takes more than what comes back: no reason to wait, while there is room all the same.
        taken = b"\1" * (400 * MIB)
        assert asked.status() == 200
        assert asked.seconds >= 1.0, "the grace was not given"
        assert asked.seconds < 8, "waited for memory that was not needed"
        del taken
        assert not running(old)
        assert meanwhile.status() == 200
        manager.wait_calm()
    assert table.most(["stubborn", "next"]) == 1
    assert table.of("stubborn") > 50
    assert table.of("next") > 0
    assert manager.steps() == [
        *("load stubborn", "loaded stubborn", "evict stubborn", "evicted stubborn"),
        *("load next", "loaded next", "evict next", "evicted next", "load stubborn", "loaded stubborn"),
    ]
