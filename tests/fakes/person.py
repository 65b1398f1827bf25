"""Owns a person with a browser: follows redirects with cookies, logs in, agrees, and comes back to a callback.

It must not know who serves any of the pages: a page is its forms.
"""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urljoin, urlsplit

import httpx2

#: Pages and redirects of one visit.
MOST = 20
_ACTION = re.compile(r'<form[^>]*\baction="([^"]+)"')
_PROMPT = re.compile(r'name="prompt" value="([^"]+)"')


class Person:
    """One browser of one person: who logged in once need not do so again. `seen` are all URLs of it, in order."""

    def __init__(self, name: str = "ada") -> None:
        self.name = name
        self.seen: list[str] = []
        self._browser = httpx2.AsyncClient(trust_env=False, follow_redirects=False, timeout=10)

    async def close(self) -> None:
        await self._browser.aclose()

    async def redirect(self, url: str, *, agrees: bool = True) -> str:
        """Where the browser is sent back to, not asked yet: the callback with all that it brings."""
        back = parse_qs(urlsplit(url).query)["redirect_uri"][0]
        answer = await self._get(url)
        for _ in range(MOST):
            if answer.is_redirect:
                url = urljoin(url, answer.headers["location"])
                if url.startswith(back):
                    self.seen.append(url)
                    return url
                answer = await self._get(url)
                continue
            action, prompt = _ACTION.search(answer.text), _PROMPT.search(answer.text)
            assert action and prompt, f"HTTP {answer.status_code} at {url}: {answer.text[:2000]}"
            if prompt[1] == "consent" and not agrees:
                abort = re.search(r'href="([^"]+/abort)"', answer.text)
                assert abort, answer.text[:2000]
                url = urljoin(url, abort[1])
                answer = await self._get(url)
                continue
            fields = {"prompt": prompt[1], "login": self.name, "password": "x"}
            url = urljoin(url, action[1])
            self.seen.append(url)
            answer = await self._browser.post(url, data=fields)
        raise AssertionError(f"no end of pages: {self.seen}")

    async def visit(self, url: str, *, agrees: bool = True) -> httpx2.Response:
        """The page that the callback shows at the end."""
        back = await self.redirect(url, agrees=agrees)
        async with httpx2.AsyncClient(trust_env=False, follow_redirects=False, timeout=20) as browser:
            return await browser.get(back)

    async def _get(self, url: str) -> httpx2.Response:
        self.seen.append(url)
        return await self._browser.get(url)
