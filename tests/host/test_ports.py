"""Which ports are handed out."""

import contextlib
import socket
from collections.abc import Iterator

import pytest

from reconciler.host import Ports, PortsExhausted, is_free
from support import free_port


@contextlib.contextmanager
def listening(address: str, port: int = 0) -> Iterator[int]:
    """Hold a listening socket and give its port."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((address, port))
        sock.listen()
        yield sock.getsockname()[1]


def three_free_ports() -> int:
    """Return the first of three neighbours that are free."""
    while True:
        first = free_port()
        if first < 65000 and all(is_free(first + n) for n in range(3)):
            return first


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "::1", "::"])
def test_a_port_somebody_listens_on_is_not_free_on_any_address(address: str) -> None:
    with listening(address) as port:
        assert not is_free(port)
        with pytest.raises(PortsExhausted, match=rf"no free port in {port}-{port}: .*widen machine.ports"):
            Ports(port, port).allocate()
    assert is_free(port)


def test_a_released_port_rests_while_others_are_free() -> None:
    first = three_free_ports()
    ports = Ports(first, first + 2)
    assert [ports.allocate() for _ in range(4)] == [first, first + 1, first + 2, first]


def test_busy_and_promised_ports_are_passed_over() -> None:
    first = three_free_ports()
    ports = Ports(first, first + 2)
    with listening("127.0.0.1", first):
        assert ports.allocate(taken=[first + 1]) == first + 2
        with pytest.raises(PortsExhausted, match="2 belong to our models"):
            ports.allocate(taken=[first + 1, first + 2])


def test_a_preferred_port_is_given_if_it_is_free_even_outside_the_range() -> None:
    first = three_free_ports()
    ports = Ports(first, first + 1)
    assert ports.allocate(preferred=first + 2) == first + 2
    assert ports.allocate(taken=[first + 2], preferred=first + 2) == first
    with listening("::1", first + 2):
        assert ports.allocate(preferred=first + 2) == first + 1


def test_lingering_connections_of_the_previous_owner_are_no_hindrance() -> None:
    with listening("127.0.0.1") as port:
        client = socket.create_connection(("127.0.0.1", port))
    assert is_free(port)
    client.close()


@pytest.mark.parametrize(("first", "last"), [(0, 5), (10, 9), (65000, 65536)])
def test_a_range_that_is_none_is_refused(first: int, last: int) -> None:
    with pytest.raises(ValueError, match="no port range"):
        Ports(first, last)
