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
const chips = () => [...document.querySelectorAll('.chip')];
const rows = () => [...document.querySelectorAll('.card.table tbody tr')];
const note = (name, value) => { document.body.dataset[name] = String(value); };
note('rowsAtFirst', rows().length);
chips().find((chip) => chip.textContent === '32').click();
note('shownWithoutBlock32', document.body.dataset.shown);
note('drawnWithoutBlock32', document.body.dataset.drawn);
chips().find((chip) => chip.textContent === '32').click();
const titles = [...document.querySelectorAll('.card.table th button')];
titles.find((title) => title.textContent === 'trial').click();
titles.find((title) => title.textContent === 'trial').click();
note('order', rows().map((row) => row.cells[0].textContent).slice(0, 4).join(' '));
rows()[2].click();
note('evidence', [...document.querySelectorAll('section')].map((s) => s.textContent)
    .find((text) => text.startsWith('Evidence')));
const level = [...document.querySelectorAll('select')].find((s) =>
    [...s.options].some((o) => o.value === 'l1'));
level.value = 'l1';
level.dispatchEvent(new Event('change'));
note('drawnAtL1', $charts[0].chart.data.datasets.reduce((n, set) =>
    n + set.data.filter((p) => p.point).length, 0));
for (const select of document.querySelectorAll('select')) {
  for (const option of select.options) {
    select.value = option.value;
    select.dispatchEvent(new Event('change'));
  }
}
dispatchEvent(new Event('beforeprint'));
note('printInk', css('--ink'));
dispatchEvent(new Event('afterprint'));
note('done', 'yes');
</script>
</body>"""


# What a reader of a phone cannot see: tables wider than their place, pages wider than the screen.
NARROW = """
<script>
const wide = [...document.querySelectorAll('table.stack')].filter((table) => {
  const place = table.parentElement;
  return place.scrollWidth > place.clientWidth;
});
document.body.dataset.screen = String(innerWidth);
document.body.dataset.stacks = String(document.querySelectorAll('table.stack').length);
document.body.dataset.cutOff = String(wide.length);
document.body.dataset.sideways = String(document.documentElement.scrollWidth - innerWidth);
document.body.dataset.firstCell = getComputedStyle(
    document.querySelector('table.stack td'), '::before').content;
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

    def test_every_trial_is_drawn_and_listed(self):
        data, dom = self.dataset(self.page("roofline"))
        self.assertEqual(data["points"], "40")
        self.assertEqual(data["shown"], "40")
        # 37 were timed; both pictures have them all, and the roofs of every level.
        self.assertEqual(data["drawn"], "37,37")
        self.assertEqual(sorted(data["roofs"].split(",")), ["dram_copy", "f32", "l1", "l2"])
        self.assertNotIn("<img", dom)
        self.assertIn("&lt;/script&gt;", dom.replace("\\u003c", "&lt;").replace("\\u003e", "&gt;"))

    def test_filters_order_evidence_and_levels(self):
        path = self.page("roofline")
        path.write_text(path.read_text().replace("</body>", PERSON))
        data, _ = self.dataset(path)
        self.assertEqual(data["done"], "yes")
        self.assertEqual(data["rows-at-first"], "40")
        self.assertEqual(data["shown-without-block32"], "30")
        # Of the ten trials with BLOCK=32 all but the one above the roof, the last, were ok.
        self.assertEqual(data["drawn-without-block32"], "27,27")
        # All by falling number, best and default too.
        self.assertEqual(data["order"], "139 138 137 136")
        self.assertIn("compile_failed", data["evidence"])
        self.assertEqual(data["drawn-at-l1"], "10")
        self.assertEqual(data["print-ink"], "#0b0b0b")

    def test_several_sweeps_have_an_overview(self):
        data, dom = self.dataset(self.page("rooflines"))
        self.assertEqual(data["rooflines"], "3")
        self.assertIn("Rooflines of 3 problems", dom)

    def test_a_sweep_page(self):
        data, dom = self.dataset(self.page("sweep"))
        self.assertEqual(data["params"], "2")
        self.assertEqual(data["timeline"], "4")
        self.assertEqual(dom.count("<canvas"), 3)
        self.assertIn("BLOCK against STAGES", dom)

    def test_a_comparison_page(self):
        _, dom = self.dataset(self.page("comparison"))
        self.assertEqual(dom.count("<canvas"), 1)
        self.assertIn("Rate over rows", dom)
        self.assertEqual(dom.count(">5 TB/s</td>"), 0)
        self.assertEqual(dom.count(">4 TB/s</td>"), 3)
        self.assertIn("wrong_result", dom)

    def test_a_fusion_page(self):
        _, dom = self.dataset(self.page("fusion"))
        self.assertEqual(dom.count("<canvas"), 1)
        self.assertIn("1.28 [1.25, 1.31]", dom)
        self.assertIn("add, rmsnorm", dom)
        self.assertIn("30.0 %", dom)

    def test_tables_are_whole_on_a_phone(self):
        for what, tables in (("rooflines", "2"), ("roofline", "1")):
            path = self.page(what)
            path.write_text(path.read_text().replace("</body>", NARROW))
            data, _ = self.dataset(path, "--window-size=420,2000")
            if int(data["screen"]) > 500:
                self.skipTest(f"{BROWSER} makes no window as narrow as a phone")
            self.assertEqual(data["stacks"], tables)
            self.assertEqual(data["cut-off"], "0", what)
            self.assertLessEqual(int(data["sideways"]), 0, what)
            self.assertIn("kernel" if what == "rooflines" else "resource",
                          data["first-cell"].replace("&quot;", ""))
            # On a desk it is a table with a head.
            wide, _ = self.dataset(path, "--window-size=1280,2000")
            self.assertEqual(wide["first-cell"], "none")

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
