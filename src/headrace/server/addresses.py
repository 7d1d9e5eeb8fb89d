"""The addresses at which this server can be reached, as it tells others and their clients.

Source: nats-server 2.15.1: a wildcard address stands for all addresses of the machine that are not the
loopback's, for that one where there are no others; link-local ones count for nobody.
"""

from __future__ import annotations

from headrace.protocol.info import address_text


def reachable(host: str, port: int) -> tuple[str, ...]:
    """Return the addresses at which others reach a bound host.

    `host:port` for each address that a bound host means.
    """
    hosts = machine_addresses() if is_wildcard(host) else (host,)
    return tuple(address_text(each, port) for each in hosts)


def reachable_host(host: str) -> str:
    """A wildcard address as one that can be connected to from here."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)


def local_host(host: str, bound: str) -> str:
    """Return the IP address at which this machine reaches a port.

    `host`: as it is configured, also a name. `bound`: the address that the socket is bound to.
    """
    return reachable_host(host) if is_wildcard(host) else bound


def is_wildcard(host: str) -> bool:
    return host in ("0.0.0.0", "::", "")


def is_address(host: str) -> bool:
    """True for an IP address; False for a name."""
    from ipaddress import ip_address  # only where certificates are checked

    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def machine_addresses() -> tuple[str, ...]:
    """Cost: asks the system for its interfaces."""
    import ifaddr  # only where an address is a wildcard

    found = [
        address.ip if isinstance(address.ip, str) else address.ip[0]
        for adapter in ifaddr.get_adapters()
        for address in adapter.ips
    ]
    global_ones = [each for each in found if not _is_narrow(each)]
    return tuple(global_ones) or ("127.0.0.1",)


def _is_narrow(address: str) -> bool:
    from ipaddress import ip_address  # likewise

    parsed = ip_address(address)
    return parsed.is_loopback or parsed.is_link_local or parsed.is_multicast
