"""Uses the page in Chromium as a user would, at two widths, light and dark, and writes screenshots.

    pip install playwright; apt install chromium
    python3 browser.py FOLDER
"""

import pathlib
import subprocess
import sys
import time

from playwright.sync_api import sync_playwright

HERE = pathlib.Path(__file__).parent
OUT = pathlib.Path(sys.argv[1])
PORT, KEYED = 8200, 8201
# How the large answers of mock.py end.
END = {"hostile": "</script>", "lines": "line 99999 with some words", "program": "int x99999 = 99999;", "table": "|y|",
       "list": "item 19999", "one line": "word"}


def until(page, condition, timeout=120_000):
    """The page's policy forbids Playwright's own way, which evaluates a text inside the page."""
    end = time.monotonic() + timeout / 1000
    while not page.evaluate(condition):
        assert time.monotonic() < end, condition
        time.sleep(0.05)


def ask(page, text, wait=True, timeout=120_000):
    page.fill("#composer textarea", text)
    page.keyboard.press("Enter")
    if wait:
        # The field is empty once the message is sent, which a busy machine may delay.
        until(page, "document.querySelector('#composer textarea').value === '' && document.querySelector('#send').textContent === 'Send'", timeout=timeout)


def last(page, selector=""):
    return page.locator(f".message >> nth=-1").locator(selector) if selector else page.locator(".message >> nth=-1")


def tour(page, name):
    """Everything that a user does; `name` begins the names of the screenshots."""
    errors = []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(f"http://localhost:{PORT}/")
    until(page, "document.querySelector('#model').textContent === 'mock-7b'")
    page.screenshot(path=OUT / f"{name}-empty.png")
    ask(page, "markdown")
    body = last(page)
    for selector, count in {"h2": 1, "ol > li": 2, "ul > li": 2, "figure.code": 1, "blockquote": 2, "table": 1, "hr": 1, "a": 2, "del": 1}.items():
        assert body.locator(selector).count() == count, (selector, body.locator(selector).count())
    assert "tok/s" in body.inner_text()
    page.screenshot(path=OUT / f"{name}-markdown.png")
    ask(page, "think")
    assert last(page, "details.reasoning").get_attribute("open") is None and "thought 19" in last(page, ".thoughts").text_content()
    ask(page, "tool")
    assert last(page, ".call summary").inner_text() == "Calls weather" and last(page, ".call b").count() == 0
    # Enter while an answer is written neither stops it nor loses the text.
    ask(page, "slow", wait=False)
    until(page, "document.body.textContent.includes('word5 ')")
    page.fill("#composer textarea", "kept")
    page.keyboard.press("Enter")
    until(page, "document.body.textContent.includes('word9 ')")
    assert page.input_value("#composer textarea") == "kept"
    page.keyboard.press("Escape")
    until(page, "document.querySelector('#send').textContent === 'Send'")
    assert "stopped" in last(page, ".note").inner_text() and page.input_value("#composer textarea") == "kept"
    assert page.inner_text("#status") == "The answer was stopped.", page.inner_text("#status")
    # An error stays in its place, and the conversation goes on.
    for text in ["too long " * 400, "drop", "and on"]:
        ask(page, text)
    assert page.locator(".user .error:not([hidden])").count() == 1 and page.locator(".assistant .error:not([hidden])").count() == 1
    assert "(11 messages" in last(page).inner_text(), last(page).inner_text()
    page.screenshot(path=OUT / f"{name}-errors.png")
    # A message that failed is asked again without what came after it being lost.
    page.locator(".user:has(.error:not([hidden]))").get_by_text("Edit", exact=True).click()
    failed = page.locator(".user:has(.editor)")
    failed.locator("textarea").fill("short now")
    failed.get_by_text("Send", exact=True).click()
    until(page, "document.querySelector('#log').textContent.includes('short now (13 messages')")
    assert page.locator(".user .error:not([hidden])").count() == 0 and "You said: and on" in page.inner_text("#log")
    until(page, "document.querySelector('#send').textContent === 'Send'")
    ask(page, "endless")
    assert "1024 tokens" in last(page, ".note").inner_text() and "cut by" in last(page, ".note").inner_text()
    # Edit, regenerate, copy.
    message = page.locator(".user >> nth=-1")
    message.scroll_into_view_if_needed()
    message.get_by_text("Edit", exact=True).click()
    message.locator("textarea").fill("edited")
    message.get_by_text("Send", exact=True).click()
    until(page, "document.querySelector('#log').textContent.includes('You said: edited')")
    until(page, "document.querySelector('#send').textContent === 'Send'")
    last(page).get_by_text("Regenerate").click()
    until(page, "document.querySelector('#send').textContent === 'Send'")
    last(page).get_by_text("Copy", exact=True).click()
    until(page, "document.querySelector('#log').textContent.includes('Copied')")
    # An answer that cannot be written again stays.
    page.route("**/v1/chat/completions", lambda route: route.abort())
    last(page).get_by_text("Regenerate").click()
    until(page, "document.querySelector('#log').textContent.includes('cannot be reached')")
    assert "You said: edited" in last(page).inner_text()
    page.unroute("**/v1/chat/completions")
    last(page).get_by_text("Regenerate").click()
    until(page, "document.querySelector('#send').textContent === 'Send' && !document.querySelector('#log').textContent.includes('cannot be reached')")
    # What follows a message is not dropped without a question.
    before = page.inner_text("#log")
    page.locator(".assistant >> nth=0").get_by_text("Regenerate").click()
    until(page, "document.querySelector('#question').open")
    assert "messages." in page.inner_text("#question label"), page.inner_text("#question label")
    page.click("#question .cancel")
    assert page.inner_text("#log") == before
    # Settings.
    page.click("#configure")
    page.fill("[name=system]", "Be brief.")
    page.fill("[name=seed]", "7")
    page.screenshot(path=OUT / f"{name}-settings.png")
    page.click("#settings [value=yes]")
    ask(page, "again")
    until(page, "document.querySelector('#log').textContent.includes('18 messages, seed 7')")
    # Conversations: kept, renamed, exported, deleted. So is what is typed.
    page.fill("#composer textarea", "a draft")
    page.reload()
    until(page, "document.querySelector('#log').textContent.includes('18 messages, seed 7')")
    assert page.input_value("#composer textarea") == "a draft"
    if page.viewport_size["width"] < 800:
        page.click("#menu")
    page.screenshot(path=OUT / f"{name}-list.png")
    item = page.locator("#list li >> nth=0")
    item.get_by_text("Rename").click()
    page.fill("#question input", "Renamed <b>")
    page.keyboard.press("Enter")
    until(page, "document.querySelector('#title').textContent === 'Renamed <b>'")
    with page.expect_download() as download:
        item.get_by_text("Export").click()
    assert '"role": "system"' in pathlib.Path(download.value.path()).read_text()
    page.keyboard.press("Alt+n")
    assert page.locator(".message").count() == 0 and page.inner_text("#status") == ""
    ask(page, "second")
    if page.viewport_size["width"] < 800:
        page.click("#menu")
        # A phone closes the list by what is beside it.
        page.mouse.click(page.viewport_size["width"] - 20, 400)
        until(page, "!document.querySelector('#sidebar').classList.contains('opened')")
        page.click("#menu")
    page.locator("#list li >> nth=0").get_by_text("Delete").click()
    page.click("#question [value=yes]")
    until(page, "document.querySelector('#title').textContent === 'Renamed <b>'")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the page is wider than the screen"
    assert not [error for error in errors if "400 (Bad Request)" not in error and "ERR_FAILED" not in error], errors


def phone(page):
    """A phone's Enter breaks the line."""
    page.goto(f"http://localhost:{PORT}/")
    page.tap("#composer textarea")
    for key in "a", "Enter", "b":
        page.keyboard.press(key)
    assert page.input_value("#composer textarea") == "a\nb" and not page.is_visible(".keys")
    page.tap("#send")
    until(page, "document.querySelector('#log').textContent.includes('You said: a')")


def switch(page):
    """What is said beside the composer is of the conversation that is shown."""
    page.goto(f"http://localhost:{PORT}/")
    ask(page, "slow", wait=False)
    until(page, "document.querySelector('#log').textContent.includes('word5 ')")
    assert page.inner_text("#status") == "The answer is being written."
    page.keyboard.press("Alt+n")
    assert page.locator(".message").count() == 0 and page.inner_text("#status") == ""
    ask(page, "x" * 59 + "🦀 and more")
    assert page.inner_text("#title") == "x" * 59 + "🦀", page.inner_text("#title")


def late(page):
    """A page that began without its server asks for the model before it asks the model."""
    page.route("**/v1/models", lambda route: route.abort())
    page.goto(f"http://localhost:{PORT}/")
    until(page, "document.querySelector('#status').textContent === 'The server cannot be reached.'")
    page.unroute("**/v1/models")
    with page.expect_request("**/v1/chat/completions") as request:
        ask(page, "hello")
    assert request.value.post_data_json["temperature"] == 0.7 and page.inner_text("#model") == "mock-7b"


def hostile(page, text, longest):
    """An answer that must not execute, nor keep the page from what the user does."""
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(f"http://localhost:{PORT}/")
    page.evaluate("""() => { window.worst = 0; let before = performance.now();
        setInterval(() => { const now = performance.now(); window.worst = Math.max(window.worst, now - before); before = now; }, 20); }""")
    begin = time.monotonic()
    ask(page, text, timeout=240_000)
    answered = time.monotonic() - begin
    # What has arrived is drawn bit by bit.
    until(page, "document.querySelector('.assistant .body section:last-child > :last-child').textContent.trimEnd().endsWith(" + repr(END[text]) + ")")
    worst = page.evaluate("window.worst") / 1000
    print(f"{text}: {answered:.1f} s, drawn after {time.monotonic() - begin:.1f} s, longest pause {worst:.2f} s, {page.evaluate('document.querySelectorAll(`*`).length')} nodes", flush=True)
    assert page.evaluate("window.hacked") is None
    assert page.locator(".message script, .message img, .message iframe, .message [onerror], .message [style]").count() == 0
    assert page.evaluate("[...document.querySelectorAll('.message a')].every(a => /^https?:/.test(a.href))")
    assert worst < longest and not errors, (text, worst, errors)
    page.screenshot(path=OUT / f"hostile-{text.replace(' ', '-')}.png")


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    servers = [subprocess.Popen([sys.executable, HERE / "mock.py", str(PORT)]),
               subprocess.Popen([sys.executable, HERE / "mock.py", str(KEYED), "secret"])]
    time.sleep(1)
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
            for width, height in [(1280, 800), (390, 844)]:
                for scheme in ["light", "dark"]:
                    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme,
                                                  permissions=["clipboard-read", "clipboard-write"])
                    tour(context.new_page(), f"{width}-{scheme}")
                    context.close()
            context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
            phone(context.new_page())
            context.close()
            for use in switch, late:
                context = browser.new_context(viewport={"width": 1280, "height": 800})
                use(context.new_page())
                context.close()
            for text in END:
                context = browser.new_context(viewport={"width": 1280, "height": 800})
                hostile(context.new_page(), text, longest=2.0)
                context.close()
            page = browser.new_page()
            page.goto(f"http://localhost:{KEYED}/")
            for asked, key in ("This server wants an API key.", "wrong"), ("This server does not take the API key.", "secret"):
                until(page, f"document.querySelector('#question').open && document.querySelector('#question label').innerText.startsWith('{asked}')")
                page.fill("#question input", key)
                page.keyboard.press("Enter")
            until(page, "document.querySelector('#model').textContent === 'mock-7b'")
            print("the page works")
    finally:
        for server in servers:
            server.kill()


main()
