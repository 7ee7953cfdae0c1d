#!/usr/bin/env python3
"""The web page as people use it: a real browser, the real server, the miniature.

    page_test.py SLOTSTREAM SCRATCH [unittest arguments]

Needs chromium and chromedriver. Replies that the miniature would never give come from a server in
front of it (browsing.py).
"""

import base64
import gzip
import hashlib
import json
import re

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from browsing import accessibility_problems, refuse, reset, stream, wait_for
from program import BINARY, SCRATCH, main
from serving import Server
from with_page import WithPage
from with_server import WithServer

FRANCE = "What is the capital of France?"
HOSTILE = """<img src=x onerror="window.hit=1"> <svg onload="window.hit=2">
</script><script>window.hit=3</script> <iframe src="javascript:window.hit=4"></iframe>
[a](javascript:window.hit=5) [b](JAVASCRIPT:window.hit=6) [c](data:text/html,x) <javascript:window.hit=7>
![p](https://nowhere.example/p.png)
```"><img src=x onerror=window.hit=8>
</code></pre><img src=x onerror=window.hit=9>
```
"""
RICH = """# Title

Some **bold**, *slanted* and `code`.

| a | b |
|---|--:|
| averyveryveryverylongcellwithoutspaces | 123456789012345678901234567890 |

- one
  - two
- [x] done

> quoted

```python
def f(x):  # a comment that is so long that it does not fit on a telephone's screen at all
    return "text" + str(1)
```

1. https://site.example/a/very/long/address/that/does/not/fit/on/a/telephone/at/all/ever/and/ever
"""


class Chat(WithPage):
    def test_a_reply_streams_in_and_is_the_servers(self):
        self.greedy()
        body = {"messages": [{"role": "user", "content": FRANCE}], "stream": False, "think": False,
                "options": {"temperature": 0, "seed": 1}}
        expected = self.server.json("POST", "/api/chat", body)
        self.assertIn("Paris", expected["message"]["content"])
        self.send(FRANCE)
        self.assertEqual(self.texts(".user .plain"), [FRANCE])
        self.assertEqual(self.texts(".reply .markdown"), [expected["message"]["content"]])
        stats = self.texts(".reply .stats")[0]
        self.assertRegex(stats, rf"^{expected['eval_count']} tokens · [\d,.]+ tokens/s · "
                                rf"prompt {expected['prompt_eval_count']} tokens in [\d.]+ s$")
        # The second question is asked with the first and its answer.
        self.send("And of Spain?")
        roles = [m["role"] for m in self.front.asked[-1][1]["messages"]]
        self.assertEqual(roles, ["user", "assistant", "user"])

    def test_text_is_there_before_the_reply_ends(self):
        self.front.answers["/api/chat"] = stream("word " * 60, pause=0.05)
        self.send("Go", wait=False)
        wait_for(lambda: "word word" in "".join(self.texts(".reply .markdown")), "some words")
        self.assertEqual(self.one(".reply").get_attribute("aria-busy"), "true")
        self.keys(Keys.ESCAPE)
        self.wait_idle()
        shown = self.texts(".reply .markdown")[0]
        self.assertLess(len(shown), 5 * 60)
        self.assertIn("stopped", self.texts(".reply .stats")[0])
        self.assertEqual(self.focused(), "prompt")

    def test_stop_cancels_the_servers_work(self):
        # Slow enough that a story is still being told when the button is pressed.
        server = Server(BINARY, "--isa", "scalar", "--compute", "exact", "--threads", "1")
        try:
            self.visit(server.url)
            self.send("Tell me a story about a fox.", wait=False)
            wait_for(lambda: len("".join(self.texts(".reply .markdown"))) > 5, "a beginning")
            self.one("#send").click()
            self.wait_idle()
            wait_for(lambda: server.metric("generations_cancelled_total") == 1,
                     "the server has noticed")
        finally:
            server.stop()

    def test_a_reply_can_be_written_again(self):
        self.front.answers["/api/chat"] = stream("first")
        self.send("Go")
        self.front.answers["/api/chat"] = stream("second")
        self.one("[aria-label='Write this reply again']").click()
        wait_for(lambda: self.texts(".reply .markdown") == ["second"], "the second reply")
        self.wait_idle()
        self.assertEqual(self.texts(".branches > span"), ["2/2"])
        self.one("[aria-label='Earlier version']").click()
        self.assertEqual(self.texts(".reply .markdown"), ["first"])
        # What follows belongs to the version that is shown.
        self.send("More")
        self.assertEqual([m["content"] for m in self.front.asked[-1][1]["messages"]],
                         ["Go", "first", "More"])

    def test_an_edited_message_begins_a_branch(self):
        self.front.answers["/api/chat"] = stream("one")
        self.send("First")
        self.send("Second")
        self.all("[aria-label='Edit this message']")[0].click()
        field = self.one(".edit textarea")
        field.clear()
        field.send_keys("Changed", Keys.ENTER)
        wait_for(lambda: self.texts(".user .plain") == ["Changed"], "the branch")
        self.wait_idle()
        self.assertEqual([m["content"] for m in self.front.asked[-1][1]["messages"]], ["Changed"])
        self.one("[aria-label='Earlier version']").click()
        self.assertEqual(self.texts(".user .plain"), ["First", "Second"])

    def test_thinking_is_folded_and_apart(self):
        self.greedy()
        self.js("const t = document.getElementById('think'); t.value = 'low';"
                "t.dispatchEvent(new Event('change'))")
        self.send(FRANCE)
        self.assertEqual(self.front.asked[-1][1]["think"], "low")
        self.assertRegex(self.texts(".thinking summary")[0], r"^Thought for [\d.]+ s$")
        self.assertFalse(self.js("return document.querySelector('.thinking').open"))
        self.assertNotEqual(self.texts(".thinking .plain")[0], "")
        self.assertNotIn("think", self.texts(".reply .markdown")[0])

    def test_settings_are_sent_and_kept(self):
        self.one("#open-settings").click()
        for field, value in (("set-system", "Be brief."), ("set-temperature", "0.3"),
                             ("set-top-p", "0.9"), ("set-max-tokens", "7"), ("set-seed", "5")):
            self.one(f"#{field}").send_keys(value)
        self.one("#settings [value=save]").click()
        self.send(FRANCE)
        body = self.front.asked[-1][1]
        self.assertEqual(body["options"], {"temperature": 0.3, "top_p": 0.9, "num_predict": 7, "seed": 5})
        self.assertEqual(body["messages"][0], {"role": "system", "content": "Be brief."})
        self.assertIn("ended at the limit", self.texts(".reply .stats")[0])
        self.visit(self.front.url)
        self.one("#new").click()
        self.one("#open-settings").click()
        self.assertEqual(self.one("#set-seed").get_property("value"), "5")

    def test_pictures_only_where_the_model_sees(self):
        self.assertFalse(self.one("#attach").is_displayed())
        def sees(handler, _):
            handler.send_response(200)
            handler.end_headers()
            handler.wfile.write(b'{"capabilities": ["completion", "vision"]}')
        self.front.answers["/api/show"] = sees
        self.visit(self.front.url)
        wait_for(lambda: self.one("#attach").is_displayed(), "the button for pictures")
        picture = SCRATCH / "dot.png"
        picture.write_bytes(base64.b64decode(
            "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="))
        self.one("#pictures").send_keys(str(picture))
        wait_for(lambda: self.all("#attached img"), "the picture")
        self.send("What is this?")
        sent = self.front.asked[-1][1]["messages"][0]["images"]
        self.assertEqual(sent, [base64.b64encode(picture.read_bytes()).decode()])
        self.assertEqual(self.js("return document.querySelector('.user img').naturalWidth"), 1)


class Kept(WithPage):
    def test_a_reload_keeps_conversations(self):
        self.front.answers["/api/chat"] = stream("**bold** reply")
        self.send("Question one")
        self.one("#new").click()
        self.send("Question two")
        self.visit(self.front.url)
        self.assertEqual(self.texts("#conversations .title span"), ["Question two", "Question one"])
        self.assertEqual(self.texts(".user .plain"), ["Question two"])
        self.all("#conversations .title")[1].click()
        self.assertEqual(self.texts(".user .plain"), ["Question one"])
        self.assertEqual(self.texts(".reply strong"), ["bold"])
        self.one("#find").send_keys("two")
        self.assertEqual(self.texts("#conversations .title span"), ["Question two"])

    def test_a_reply_that_the_page_left_keeps_its_text(self):
        self.front.answers["/api/chat"] = stream("word " * 100, pause=0.05)
        self.send("Go", wait=False)
        # What came in the last half second may be lost.
        wait_for(lambda: "word " * 16 in "".join(self.texts(".reply .markdown")), "some words")
        self.visit(self.front.url)
        self.assertIn("word", self.texts(".reply .markdown")[0])
        self.assertIn("page was closed", self.texts(".problem p")[0])

    def test_rename_save_and_delete(self):
        self.front.answers["/api/chat"] = stream("the reply")
        self.send("Question one")
        self.one("#conversations .icon-button").click()
        self.one("#menu-rename").click()
        self.keys("Better name", Keys.ENTER)
        self.assertEqual(self.texts("#title"), ["Better name"])
        downloads = SCRATCH / type(self).__name__ / "downloads"
        for item, name in (("markdown", "Better-name.md"), ("json", "Better-name.json")):
            self.one("#title-menu").click()
            self.one(f"#menu-{item}").click()
            wait_for((downloads / name).exists, name)
        self.assertIn("## Model\n\nthe reply\n", (downloads / "Better-name.md").read_text())
        saved = json.loads((downloads / "Better-name.json").read_text())
        self.assertEqual([m["content"] for m in saved["messages"].values()],
                         ["Question one", "the reply"])
        self.one("#title-menu").click()
        self.one("#menu-delete").click()
        self.assertEqual(self.texts("#conversations .title span"), [])
        self.one(".toast button").click()
        self.assertEqual(self.texts("#conversations .title span"), ["Better name"])
        self.one("#title-menu").click()
        self.one("#menu-delete").click()
        self.visit(self.front.url)
        self.assertEqual(self.texts("#conversations .title span"), [])


class Hostile(WithPage):
    def inert(self):
        self.assertIsNone(self.js("return window.hit ?? null"))
        self.assertEqual(self.all("#messages :is(img, svg:not(.icon), script, iframe)"), [])
        for address in self.js("return [...document.querySelectorAll('#messages a')].map(a => a.href)"):
            self.assertTrue(address.startswith("https://nowhere.example/"), address)

    def test_markup_in_a_message_is_text(self):
        self.front.answers["/api/chat"] = stream("fine")
        self.send(HOSTILE.strip())
        self.assertEqual(self.texts(".user .plain"), [HOSTILE.strip()])
        self.inert()
        self.visit(self.front.url)
        self.inert()

    def test_markup_in_a_reply_is_text(self):
        self.front.answers["/api/chat"] = stream(HOSTILE, thinking=HOSTILE)
        self.send("Go")
        shown = self.texts(".reply .markdown")[0]
        for piece in ("<img src=x onerror=", "</script><script>", "javascript:window.hit=5",
                      "</code></pre><img"):
            self.assertIn(piece, shown)
        self.inert()

    def test_the_policy_refuses_what_the_page_would_not_do(self):
        self.assertEqual(self.js("""
            const tried = [];
            for (const run of [() => { document.body.innerHTML = '<b>x</b>'; },
                               () => { const s = document.createElement('script');
                                       s.textContent = 'window.hit = 1'; document.body.append(s); }]) {
              try { run(); tried.push('ran'); } catch { tried.push('refused'); }
            }
            return [tried, window.hit ?? null];"""), [["refused"] * 2, None])
        seen = self.driver.get_log("browser")  # and so taken out of tearDown's sight
        self.assertTrue(seen)


class Trouble(WithPage):
    def test_an_error_is_shown_and_can_be_tried_again(self):
        self.front.answers["/api/chat"] = refuse(503, "too many requests are waiting for the model")
        self.send("Go")
        self.assertEqual(self.texts(".problem p"), ["too many requests are waiting for the model"])
        self.front.answers["/api/chat"] = stream("better")
        self.one(".problem button").click()
        wait_for(lambda: self.texts(".reply .markdown") == ["better"], "the second attempt")
        self.assertEqual(self.all(".branches"), [])

    def test_a_lost_connection_keeps_what_came(self):
        self.front.answers["/api/chat"] = stream("so far so good", broken=True)
        self.send("Go")
        self.assertEqual(self.texts(".reply .markdown"), ["so far so good"])
        self.assertEqual(self.texts(".problem p"), ["The connection was lost."])
        self.assertEqual(self.texts(".problem button"), ["Try again"])

    def test_loading_and_gone_are_shown(self):
        self.front.answers["/health"] = refuse(503, "loading")
        wait_for(lambda: "loading" in self.one("#banner").text, "the banner")
        self.front.answers.update({"/health": reset, "/slotstream/status": reset})
        wait_for(lambda: "does not answer" in self.one("#banner").text, "the other banner")
        self.front.answers.clear()
        self.one("#banner-action").click()
        wait_for(lambda: not self.one("#banner").is_displayed(), "no banner")

    def test_a_server_with_a_key(self):
        server = Server(BINARY, "--api-key", "secret")
        try:
            self.visit(server.url)
            wait_for(lambda: self.one("#key").is_displayed(), "the question for the key")
            self.one("#key-field").send_keys("wrong", Keys.ENTER)
            wait_for(lambda: self.one("#key-refused").is_displayed(), "the refusal")
            self.one("#key-field").send_keys("secret", Keys.ENTER)
            wait_for(lambda: not self.one("#banner").is_displayed(), "an open door")
            self.send(FRANCE)
            self.assertNotEqual(self.texts(".reply .markdown"), [""])
            self.visit(server.url)
            self.assertFalse(self.one("#key").is_displayed())
            self.assertEqual(self.js("return localStorage.getItem('slotstream.key')"), None)
        finally:
            server.stop()


class Everyone(WithPage):
    def test_a_telephone_scrolls_only_down(self):
        self.front.answers["/api/chat"] = stream(RICH)
        for width in (390, 320):
            self.size(width, 700)
            self.visit(self.front.url)
            self.one("#prompt").send_keys("w" * 200)
            self.one("#send").click()
            self.wait_idle()
            wide = self.js("""return [document.documentElement, document.getElementById('scroller'),
                document.getElementById('main')].map(e => e.scrollWidth - e.clientWidth)""")
            self.assertEqual(wide, [0, 0, 0], width)
            self.assertEqual(self.js("return document.documentElement.scrollWidth"), width)
        # A field of less than 16 pixels makes a telephone zoom in.
        sizes = self.js("""return ['#prompt', '#set-seed', '#key-field'].map(
            s => parseFloat(getComputedStyle(document.querySelector(s)).fontSize))""")
        self.assertGreaterEqual(min(sizes), 16)
        self.assertFalse(self.one("#sidebar").is_displayed())
        self.one("#toggle-sidebar").click()
        self.assertTrue(self.one("#sidebar").is_displayed())
        self.assertEqual(self.focused(), "close-sidebar")
        self.all("#conversations .title")[0].click()
        self.assertFalse(self.one("#sidebar").is_displayed())

    def test_everything_by_keyboard(self):
        self.front.answers["/api/chat"] = stream("a reply")
        self.assertEqual(self.focused(), "prompt")
        self.keys("line one")
        ActionChains(self.driver).key_down(Keys.SHIFT).send_keys(Keys.ENTER).key_up(Keys.SHIFT).perform()
        self.keys("line two", Keys.ENTER)
        wait_for(lambda: self.texts(".reply .markdown") == ["a reply"], "the reply")
        self.wait_idle()
        self.assertEqual(self.texts(".user .plain"), ["line one\nline two"])
        self.assertEqual(self.focused(), "prompt")
        self.keys(Keys.ARROW_UP)
        self.assertEqual(self.focused(), "Edit the message")
        self.keys(Keys.ESCAPE)
        self.assertEqual(self.focused(), "Edit this message")
        self.chord("m")
        self.assertEqual(self.focused(), "prompt")
        for letter, dialog in (("s", "settings"), ("h", "shortcuts")):
            self.chord(letter)
            self.assertTrue(self.one(f"#{dialog}").is_displayed(), dialog)
            self.keys(Keys.ESCAPE)
            self.assertFalse(self.one(f"#{dialog}").is_displayed(), dialog)
            self.assertEqual(self.focused(), "prompt")
        self.chord("r")
        wait_for(lambda: self.texts(".branches > span") == ["2/2"], "another version")
        self.wait_idle()
        self.chord("p")
        self.assertFalse(self.one("#pool").is_displayed())
        self.chord("n")
        self.assertEqual(self.all(".message"), [])
        # The first stop of the tab key leads past everything else.
        self.visit(self.front.url)
        self.js("document.body.tabIndex = -1; document.body.focus()")
        self.keys(Keys.TAB)
        self.assertEqual(self.focused(), "skip")
        self.keys(Keys.ENTER, Keys.TAB)
        self.assertIn(self.focused(), ("prompt", "think"))

    def test_a_screen_reader_hears_paragraphs_not_tokens(self):
        self.front.answers["/api/chat"] = stream("First paragraph.\n\nSecond one.\n\nThird.")
        self.send("Go")
        self.assertEqual(self.texts("#announcer p"), ["The reply is being written.", "First paragraph.",
                                                      "Second one.", "Third. End of the reply."])

    def test_axe_finds_nothing(self):
        self.front.answers["/api/chat"] = stream(RICH, thinking="hm")
        for theme in ("light", "dark"):
            self.js("localStorage.setItem('slotstream.theme', JSON.stringify(arguments[0]))", theme)
            self.visit(self.front.url)
            self.assertEqual(accessibility_problems(self.driver), [], f"{theme}, empty")
            self.send("Go")
            self.js("for (const d of document.querySelectorAll('details')) d.open = true")
            self.assertEqual(accessibility_problems(self.driver), [], f"{theme}, a reply")
            self.front.answers["/api/chat"] = refuse(500, "broken")
            self.send("Go")
            self.assertEqual(accessibility_problems(self.driver), [], f"{theme}, an error")
            self.front.answers["/api/chat"] = stream(RICH, thinking="hm")
            for button in ("open-settings", "open-shortcuts"):
                self.one(f"#{button}").click()
                self.assertEqual(accessibility_problems(self.driver), [], f"{theme}, {button}")
                self.keys(Keys.ESCAPE)
            self.one("#new").click()

    def test_every_control_has_a_name(self):
        self.front.answers["/api/chat"] = stream(RICH)
        self.send("Go")
        nodes = self.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
        controls = [n for n in nodes if not n["ignored"] and n["role"]["value"] in (
            "button", "textbox", "combobox", "checkbox", "link", "searchbox", "image", "region")]
        self.assertGreater(len(controls), 15)
        for node in controls:
            self.assertTrue(node.get("name", {}).get("value", "").strip(), node)


class Pool(WithPage):
    def test_the_picture_shows_what_the_pool_holds(self):
        self.send(FRANCE)
        self.one("#pool-details summary").click()
        status = self.server.json("GET", "/slotstream/status")
        pool = status["pool"]
        self.assertEqual(sum(layer["held"] for layer in pool["layers"]), pool["held"])
        self.assertGreater(pool["held"], 0)
        for layer in pool["layers"]:
            self.assertEqual(int(layer["resident"], 16).bit_count(), layer["held"])
        for name in ("hits", "misses", "swept"):
            self.assertEqual(sum(layer[name] for layer in pool["layers"]), status["experts"][name])
        held = [str(layer["held"]) for layer in pool["layers"]]
        wait_for(lambda: self.texts("#pool-table td:nth-child(2)") == held, "the table")
        self.assertTrue(self.one("#pool-caption").text.startswith(f"{pool['held']} of {pool['slots']}"))
        # Once nothing glows any more, cells have two colours, as many of each as there are experts.
        def painted():
            return self.js("""
                const canvas = document.getElementById('pool-picture');
                const rgb = (id) => getComputedStyle(document.getElementById(id)).backgroundColor;
                const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
                const count = {};
                for (let i = 0; i < data.length; i += 4) {
                  if (data[i + 3] !== 255) continue;
                  const color = `rgb(${data[i]}, ${data[i + 1]}, ${data[i + 2]})`;
                  count[color] = (count[color] ?? 0) + 1;
                }
                return [count[rgb('swatch-memory')] ?? 0, count[rgb('swatch-disk')] ?? 0];""")
        experts = len(held) * pool["experts_per_layer"]
        def right():
            memory, disk = painted()
            return memory + disk > 0 and abs(memory / (memory + disk) - pool["held"] / experts) < 0.02
        wait_for(right, "the picture")

    def test_rates_are_shown(self):
        self.send(FRANCE)
        wait_for(lambda: self.one("#rate-hits").text.endswith("%"), "the hit rate")
        self.assertRegex(self.one("#rate-disk").text, r"^[\d.]+ [MG]B/s$")


class Document(WithServer):
    """What a browser gets, without one."""

    def test_browsers_get_the_page_and_ollamas_clients_its_words(self):
        for accept in ("", "*/*", "application/json"):
            self.assertEqual(self.server.ask("GET", "/", headers={"Accept": accept})[2],
                             "Ollama is running")
        status, headers, page = self.server.ask("GET", "/", headers={"Accept": "text/html"})
        self.assertEqual((status, headers["Content-Type"]), (200, "text/html; charset=utf-8"))
        self.assertEqual(headers["X-Content-Type-Options"], "nosniff")
        self.assertEqual(headers["Referrer-Policy"], "no-referrer")
        policy = headers["Content-Security-Policy"]
        for tag, rule in (("script", "script-src"), ("style", "style-src")):
            inner = re.findall(rf"<{tag}[^>]*>(.*?)</{tag}>", page, re.S)
            self.assertEqual(len(inner), 1)
            digest = base64.b64encode(hashlib.sha256(inner[0].encode()).digest()).decode()
            self.assertIn(f"{rule} 'sha256-{digest}'", policy)
        self.assertEqual(re.findall(r"""(?:src|href)=["']?(?!data:|#)[^"'> ]+""", page), [])
        head = self.server.ask("HEAD", "/", headers={"Accept": "text/html"})
        self.assertEqual((head[0], head[2]), (200, ""))

    def test_compressed_and_unchanged(self):
        import http.client
        plain = self.server.ask("GET", "/", headers={"Accept": "text/html"})
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port)
        connection.request("GET", "/", headers={"Accept": "text/html", "Accept-Encoding": "br, gzip"})
        response = connection.getresponse()
        self.assertEqual(response.headers["Content-Encoding"], "gzip")
        self.assertEqual(gzip.decompress(response.read()).decode(), plain[2])
        connection.request("GET", "/", headers={"Accept": "text/html",
                                                "If-None-Match": f"W/\"x\", {plain[1]['ETag']}"})
        response = connection.getresponse()
        self.assertEqual((response.status, response.read()), (304, b""))
        self.assertNotIn("Content-Length", response.headers)
        connection.close()


if __name__ == "__main__":
    main()
