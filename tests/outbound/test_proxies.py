"""Tables for the environment's proxies."""

from __future__ import annotations

import pytest

from mcphub.outbound.proxies import proxy_for

PROXY = "http://proxy.example:3128"
NO = "localhost,127.0.0.1,::1,10.0.0.0/8,.corp.example"


@pytest.mark.parametrize(
    ("url", "env", "proxy"),
    [
        (("https", "m.example", 443), {"HTTPS_PROXY": PROXY}, PROXY),
        (("https", "m.example", 443), {"https_proxy": PROXY, "HTTPS_PROXY": "http://other"}, PROXY),
        (("https", "m.example", 443), {"HTTP_PROXY": PROXY}, ""),
        (("http", "m.example", 80), {"HTTP_PROXY": PROXY}, PROXY),
        (("https", "m.example", 443), {"ALL_PROXY": PROXY}, PROXY),
        (("https", "m.example", 443), {"HTTPS_PROXY": "proxy.example:3128"}, PROXY),
        (("https", "m.example", 443), {"HTTPS_PROXY": "  "}, ""),
        (("http", "127.0.0.1", 9), {"HTTP_PROXY": PROXY}, ""),
        (("http", "localhost", 9), {"HTTP_PROXY": PROXY}, ""),
        (("http", "::1", 9), {"HTTP_PROXY": PROXY}, ""),
        (("https", "x.corp.example", 443), {"HTTPS_PROXY": PROXY, "NO_PROXY": NO}, ""),
        (("https", "corp.example", 443), {"HTTPS_PROXY": PROXY, "NO_PROXY": NO}, ""),
        (("https", "notcorp.example", 443), {"HTTPS_PROXY": PROXY, "NO_PROXY": NO}, PROXY),
        (("https", "10.1.2.3", 443), {"HTTPS_PROXY": PROXY, "NO_PROXY": NO}, ""),
        (("https", "11.1.2.3", 443), {"HTTPS_PROXY": PROXY, "no_proxy": NO}, PROXY),
        (("https", "m.example", 443), {"HTTPS_PROXY": PROXY, "NO_PROXY": "*"}, ""),
        (("https", "m.example", 443), {"HTTPS_PROXY": PROXY, "NO_PROXY": "m.example:443"}, ""),
        (("https", "m.example", 443), {"HTTPS_PROXY": PROXY, "NO_PROXY": "m.example:8443"}, PROXY),
        (("https", "a.m.example", 443), {"HTTPS_PROXY": PROXY, "NO_PROXY": "*.m.example"}, ""),
        (("https", "fe80::2", 443), {"HTTPS_PROXY": PROXY, "NO_PROXY": "fe80::/16"}, ""),
        (("https", "fe80::2", 443), {"HTTPS_PROXY": PROXY, "NO_PROXY": "[fe80::2]:443"}, ""),
        (("https", "M.Example.", 443), {"HTTPS_PROXY": PROXY, "NO_PROXY": "m.example"}, ""),
    ],
)
def test_which_proxy(url: tuple[str, str, int], env: dict[str, str], proxy: str) -> None:
    """C073: the variables of either case, names with all below them, addresses, networks and ports; never loopback."""
    assert proxy_for(*url, env) == (proxy, ())


@pytest.mark.parametrize("item", ["10.0.0.0/99", "http://x/y", "a:b", "*x?", "@", "x.example:port"])
def test_bad_items_of_no_proxy(item: str) -> None:
    """C073: what says nothing is named and left out; the others count."""
    env = {"HTTPS_PROXY": PROXY, "NO_PROXY": f"{item},m.example"}
    assert proxy_for("https", "m.example", 443, env)[0] == ""
    assert proxy_for("https", "other.example", 443, env) == (PROXY, (item,))
