# SPDX-License-Identifier: Apache-2.0
"""Opens report pages in a headless browser: points are counted, buttons pressed, faults looked for.

Needs REPORT_PAGE_FIXTURE, the program that prints the pages. Exits 77 (skipped) without a browser.
With REPORT_SCREENSHOTS=DIR it leaves pictures there for people: light, dark, phone, paper.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

FIXTURE = os.environ["REPORT_PAGE_FIXTURE"]
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
BROWSER = next(filter(None, map(shutil.which, NAMES)), None)

# Runs after the page's own script, as a person would use it.
PERSON = """
<script>
const note = (name, value) => { document.body.dataset[name] = String(value); };
const rows = () => all(document, 'tr[data-trial]');
const shown = (selector) => all(document, selector).filter((node) =>
    !node.classList.contains('off')).length;
const points = all(document, 'svg')[0].querySelectorAll('[data-trial]').length;
note('pointsAtFirst', points);
note('rowsAtFirst', shown('tr[data-trial]'));
note('firstByMedian', rows()[0].dataset.trial);
const chip = all(document, '.chip').find((node) => node.textContent === '32');
chip.click();
note('rowsWithoutBlock32', shown('tr[data-trial]'));
note('count', document.querySelector('.filters .note').textContent);
chip.click();
note('rowsAgain', shown('tr[data-trial]'));
const title = all(document, '.trials th button').find((node) => node.textContent === 'trial');
title.click();
title.click();
note('order', rows().slice(0, 4).map((row) => row.dataset.trial).join(' '));
const point = document.querySelector('svg [data-trial="104"]');
const at = point.getBoundingClientRect();
point.dispatchEvent(new PointerEvent('pointermove',
    {bubbles: true, clientX: at.x + 1, clientY: at.y + 1}));
note('tip', document.querySelector('.tip').textContent);
note('marked', all(document, '.on').length);
point.dispatchEvent(new MouseEvent('click', {bubbles: true}));
note('evidence', document.querySelector('tr details[open]').textContent);
document.querySelector('main').dispatchEvent(new PointerEvent('pointermove', {bubbles: true}));
note('tipAway', document.querySelector('.tip').hidden);
note('done', 'yes');
</script>
</body>"""


# What a reader of a phone cannot see: pages wider than the screen, small text, a column beside it.
NARROW = """
<script>
document.body.dataset.screen = String(innerWidth);
document.body.dataset.sideways = String(document.documentElement.scrollWidth - innerWidth);
document.body.dataset.text = String(Math.min(...Array.from(document.querySelectorAll('figure > svg text'))
    .map((node) => node.getBoundingClientRect().height).filter((height) => height > 0)));
const ratio = Array.from(document.querySelectorAll('th')).find((node) => node.textContent === 'ratio');
document.body.dataset.ratio = String(ratio ? ratio.getBoundingClientRect().right - innerWidth : 0);
const example = Array.from(document.querySelectorAll('th')).find((node) => node.textContent === 'example');
document.body.dataset.example = String(example ? example.getBoundingClientRect().right - innerWidth : 0);
</script>
</body>"""


def run_browser(*arguments):
    done = subprocess.run(
        [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
         "--hide-scrollbars", "--virtual-time-budget=4000", *arguments],
        capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{BROWSER} {arguments}: {done.stderr}")
    return done


class ReportPage(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory(prefix="tune-page-")
        self.addCleanup(self.dir.cleanup)

    def page(self, what):
        path = pathlib.Path(self.dir.name) / f"{what}.html"
        path.write_bytes(subprocess.run([FIXTURE, what], capture_output=True, check=True).stdout)
        return path

    def dataset(self, path, *flags):
        """The body's data attributes once the page has run."""
        done = run_browser("--enable-logging=stderr", *flags, "--dump-dom", path.as_uri())
        for line in done.stderr.splitlines():
            self.assertNotIn("CONSOLE", line)
        body = re.search(r"<body([^>]*)>", done.stdout).group(1)
        data = dict(re.findall(r'data-([\w-]+)="([^"]*)"', body))
        self.assertNotIn("errors", data)
        self.assertEqual(data.get("ready"), "true", body)
        return data, done.stdout

    def test_filters_order_hover_and_evidence(self):
        path = self.page("roofline")
        path.write_text(path.read_text().replace("</body>", PERSON))
        data, _ = self.dataset(path)
        self.assertEqual(data["done"], "yes")
        # 37 were timed; the best is there at its bytes of L2 and L1, too.
        self.assertEqual(data["points-at-first"], "39")
        self.assertEqual(data["rows-at-first"], "40")
        self.assertEqual(data["first-by-median"], "136")
        self.assertEqual(data["rows-without-block32"], "30")
        # Of the ten trials with BLOCK=32 all but the one above the roof, the last, were ok.
        self.assertEqual(data["count"], "30 of 40 trials shown")
        self.assertEqual(data["rows-again"], "40")
        self.assertEqual(data["order"], "139 138 137 136")
        self.assertIn("trial 104: ", data["tip"])
        # Its row, its points in the pictures by DRAM, L2, L1 and in the order of the search.
        self.assertEqual(data["marked"], "5")
        self.assertIn("BLOCK=32 STAGES=1", data["evidence"])
        self.assertEqual(data["tip-away"], "true")

    def test_pages_have_their_pictures_and_tables(self):
        for what, pictures, texts in (
                ("roofline", 4, ["sketch rows=1024 bf16", "compile_failed"]),
                ("rooflines", 13, ["Roofline: 3 problems"]),
                ("sweep", 4, ["BLOCK against STAGES"]),
                ("comparison", 1, ["differs"]),
                ("fusion", 1, ["1.28 [1.25, 1.31]", "add, rmsnorm", "30.0 %"])):
            _, dom = self.dataset(self.page(what))
            self.assertEqual(dom.count("<svg "), pictures, what)
            self.assertNotIn("<img", dom)
            for text in texts:
                self.assertIn(text, dom)

    def test_pages_fit_a_phone(self):
        for what in ("rooflines", "roofline", "sweep", "comparison", "fusion"):
            path = self.page(what)
            text = path.read_text()
            if what == "sweep":
                self.assertIn('<td class="long">', text)
                text = text.replace('<td class="long">', '<td class="long">' + "a_name_that_goes_on_" * 5)
            path.write_text(text.replace("</body>", NARROW))
            data, _ = self.dataset(path, "--window-size=420,2000")
            if int(data["screen"]) > 500:
                self.skipTest(f"{BROWSER} makes no window as narrow as a phone")
            self.assertLessEqual(int(data["sideways"]), 0, what)
            self.assertGreaterEqual(float(data["text"]), 9, what)
            self.assertLessEqual(float(data["ratio"]), 0, what)
            self.assertLessEqual(float(data["example"]), 0, what)

    def test_pictures_in_light_dark_on_a_phone_and_on_paper(self):
        target = pathlib.Path(os.environ.get("REPORT_SCREENSHOTS", self.dir.name))
        target.mkdir(parents=True, exist_ok=True)
        sizes = []
        for what in ("roofline", "sweep", "comparison"):
            uri = self.page(what).as_uri()
            for name, flags in (("light", ["--window-size=1280,2400"]),
                                ("dark", ["--window-size=1280,2400",
                                          "--blink-settings=preferredColorScheme=0"]),
                                ("phone", ["--window-size=420,3200"])):
                picture = target / f"{what}-{name}.png"
                run_browser(*flags, f"--screenshot={picture}", uri)
                sizes.append(picture.stat().st_size)
            paper = target / f"{what}.pdf"
            run_browser(f"--print-to-pdf={paper}", uri)
            sizes.append(paper.stat().st_size)
        self.assertGreater(min(sizes), 20_000, "an empty page")


if __name__ == "__main__":
    if BROWSER is None:
        print("skipped: no headless browser; tools/packages-check.txt names one")
        sys.exit(77)
    unittest.main(verbosity=2)
