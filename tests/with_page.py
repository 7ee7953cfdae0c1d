"""Tests of the page in a browser that lives as long as their class."""

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from browsing import Front, open_browser, wait_for
from program import SCRATCH
from with_server import WithServer


class WithPage(WithServer):
    """One browser and one server for all; every test begins with an empty browser."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.front = Front(cls.server)
        cls.driver = open_browser(SCRATCH / cls.__name__)
        cls.driver.set_script_timeout(30)

    @classmethod
    def tearDownClass(cls):
        cls.driver.quit()
        cls.front.stop()
        super().tearDownClass()

    def setUp(self):
        self.front.answers.clear()
        self.front.asked.clear()
        self.driver.get("about:blank")
        self.driver.execute_cdp_cmd("Storage.clearDataForOrigin",
                                    {"origin": self.front.url.rstrip("/"), "storageTypes": "all"})
        self.size(1400, 900)
        self.visit(self.front.url)

    def tearDown(self):
        # The browser reports each violation of the policy and each error that nothing caught.
        # Failed requests are what some tests ask for.
        bad = [entry for entry in self.driver.get_log("browser")
               if entry["source"] != "network" and entry["level"] in ("SEVERE", "WARNING")]
        self.assertEqual(bad, [])

    def visit(self, url):
        self.driver.get(url)
        wait_for(lambda: self.js("return document.body.dataset.server"), "the server's state")

    def size(self, width, height):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600})

    def js(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def one(self, selector):
        return self.driver.find_element("css selector", selector)

    def all(self, selector):
        return self.driver.find_elements("css selector", selector)

    def texts(self, selector):
        return self.js("return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)",
                       selector)

    def send(self, text, wait=True):
        self.js("const f = document.getElementById('prompt'); f.value = arguments[0]; f.focus()", text)
        self.one("#prompt").send_keys(Keys.ENTER)
        if wait:
            self.wait_idle()

    def wait_idle(self):
        wait_for(lambda: self.js("return !document.querySelector('#send.stop') && "
                                 "!document.querySelector('[aria-busy=true]')"), "the reply's end")

    def keys(self, *keys):
        """Presses keys where the focus is, with no other means."""
        ActionChains(self.driver).send_keys(*keys).perform()

    def chord(self, letter):
        ActionChains(self.driver).key_down(Keys.ALT).key_down(Keys.SHIFT).send_keys(
            letter).key_up(Keys.SHIFT).key_up(Keys.ALT).perform()

    def focused(self):
        return self.js("const e = document.activeElement;"
                       "return e.id || e.getAttribute('aria-label') || e.className || e.tagName")

    def greedy(self):
        self.js("localStorage.setItem('slotstream.settings', JSON.stringify({temperature: 0, seed: 1}))")
        self.visit(self.front.url)
