"""The files of the dashboard: who gets them, what a browser may do with them, and what they must not hold."""

import re
from collections.abc import Iterator
from typing import get_args

import pytest

from gateway_rig import request, rig
from reconciler.core.types import Reason
from reconciler.dashboard import PATHS
from reconciler.dashboard.files import FOLDER, read_files
from reconciler.manifest.applied import ApiKey, GatewaySettings
from reconciler.render.events_text import _COLOURS
from reconciler.render.shapes import Doing, ModelState

HTML = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}

pytestmark = pytest.mark.anyio


async def test_browsers_get_the_page_without_a_key_and_programs_a_404() -> None:
    async with rig() as r:
        r.settings(GatewaySettings(api_keys=(ApiKey("CANARY"),)))
        page = await r.client.get("/", headers=HTML)
        assert page.status_code == 200
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert page.headers["vary"] == "Accept"
        program = await r.client.get("/")
        assert (program.status_code, program.json()["error"]["code"]) == (404, "not_found")
        assert (await r.client.get("/api/v1/status", headers=HTML)).status_code == 401


async def test_the_page_is_there_before_the_loop_has_looked() -> None:
    async with rig() as r:
        r.board.snapshot = None
        assert (await r.client.get("/", headers=HTML)).status_code == 200
        assert (await r.client.get("/ui/js/main.js")).status_code == 200


async def test_every_file_has_its_policy_and_is_asked_for_again() -> None:
    async with rig() as r:
        for path in sorted(PATHS):
            answer = await r.client.get(path, headers=HTML)
            assert answer.status_code == 200, path
            assert "default-src 'self'" in answer.headers["content-security-policy"]
            assert "unsafe" not in answer.headers["content-security-policy"]
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["cache-control"] == "no-cache"
            known = {**HTML, "if-none-match": f'"other", W/{answer.headers["etag"]}'}
            again = await r.client.get(path, headers=known)
            assert (again.status_code, again.content) == (304, b""), path
            other = await r.client.get(path, headers={**HTML, "if-none-match": '"other"'})
            assert other.status_code == 200
            assert (await r.client.post(path)).status_code == 405


async def test_what_is_no_file_is_not_found() -> None:
    async with rig() as r:
        for path in ("/ui/", "/ui/js", "/ui/nothing.js", "/ui/%2e%2e/files.py", "/ui/index.html"):
            assert (await r.client.get(path)).status_code == 404, path
        answer = await r.exchange(request(b"", "Connection: close", path="/ui/../files.py", method="GET"))
        assert answer.startswith(b"HTTP/1.1 404 ")


async def test_a_foreign_name_gets_no_file() -> None:
    async with rig() as r:
        answer = await r.client.get("/", headers={**HTML, "host": "evil.example"})
        assert answer.status_code == 403
        assert answer.json()["error"]["code"] == "forbidden_host"


def texts() -> Iterator[tuple[str, str]]:
    """Return each file's path and text."""
    for path, file in read_files().items():
        yield path, file.content.decode()


def test_nothing_is_fetched_from_elsewhere_and_no_text_becomes_html() -> None:
    for path, text in texts():
        found = re.findall(r"(?:https?:)?//[\w.-]+\.\w+", text.replace("http://www.w3.org/", ""))
        assert found == [], path
        for word in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
        ):
            assert word not in text, (path, word)
        assert not re.search(r"""<[a-z][^>]*\s(?:style|on\w+)=""", text), path


def test_every_module_exists_and_is_used() -> None:
    files = dict(texts())
    reached, left = set(), ["/ui/js/main.js"]
    while left:
        path = left.pop()
        reached.add(path)
        for name in re.findall(r'from "\./([\w.]+)"', files[path]):
            assert f"/ui/js/{name}" in files, (path, name)
            if f"/ui/js/{name}" not in reached:
                left.append(f"/ui/js/{name}")
    page = files["/"]
    for path in files:
        assert path == "/" or path in reached or f'"{path}"' in page, f"{path} is used by nobody"
        assert not path.endswith(".js") or f'"{path}"' in page, f"{path} is not loaded ahead"


def test_modules_are_short() -> None:
    for file in sorted(FOLDER.rglob("*.js")):
        assert len(file.read_text().splitlines()) < 300, file.name


def listed(file: str, begin: str) -> set[str]:
    """Return the words of a list, or the names of a mapping, that begins in a module's line like this."""
    text = (FOLDER / "js" / file).read_text().partition(begin)[2]
    assert text, (file, begin)
    body = re.split(r"[\]}]", text, maxsplit=1)[0]
    return set(re.findall(r"^  (\w+): ", body, re.MULTILINE) or re.findall(r'"([\w-]+)"', body))


def test_the_page_has_words_for_all_the_program_can_say() -> None:
    assert listed("reasons.js", "const WORDS = {") == {str(reason) for reason in Reason}
    assert listed("models_sort.js", "export const STATES = [") == set(get_args(ModelState))
    assert listed("plan_view.js", "const DOING = {") == set(get_args(Doing))
    assert listed("events_view.js", "const BAD = new Set([") == {k for k, c in _COLOURS.items() if c == "red"}
