# SPDX-License-Identifier: Apache-2.0
"""Results in Python against the terminal's: the same text, the same columns, and wrong peers that raise."""
import contextlib
import copy
import csv
import importlib.util
import io
import json
import os
import pickle
import re
import subprocess
import sys
import types
import unittest
import unittest.mock

import daemon_kit
import kit
import tunectl
from daemon_kit import SAXPY
from tunectl import _format, _plot, _progress, _results, _view

HAS_PANDAS = bool(importlib.util.find_spec("pandas"))


def lines_of(text):
    return [line.rstrip() for line in text.strip().splitlines()]


def saxpy(x, y, a):
    return a * memory(x) + memory(y)


def memory(buffer):
    import numpy

    return numpy.asarray(buffer)


def wrong(x, y):
    return memory(x) + memory(y)


class Texts(unittest.TestCase):
    def test_figures_read_as_in_the_terminal(self):
        for nanoseconds, text in ((0, "0 ns"), (999, "999 ns"), (35200, "35.20 us"), (1.5e6, "1.500 ms"), (2.5e12, "2500 s")):
            self.assertEqual(_format.latency(nanoseconds), text)
        for seconds, text in ((9.5, "9.5 s"), (12.4, "12 s"), (200, "3 min 20 s"), (7260, "2 h 1 min")):
            self.assertEqual(_format.duration(seconds), text)
        self.assertEqual([_format.si(value, "B/s") for value in (3.81e12, 999.6e6, 5, 2e21)],
                         ["3.81 TB/s", "1000 MB/s", "5 B/s", "2000000 PB/s"])
        self.assertEqual([_format.value(one) for one in (True, 2, 2.0, 0.1, "mma")], ["True", "2", "2", "0.1", "mma"])
        self.assertEqual(_format.config({"A": 1, "B": 2}, ["B"]), "A=1")
        self.assertEqual(_format.config({"B": 2}, ["B"]), "B=2", "all have one value")
        self.assertEqual(_format.telling_line("head: compile_failed: a.cu: In f:\na.cu:3: error: no\nmore"),
                         "head: compile_failed: a.cu:3: error: no")
        self.assertEqual(_format.telling_line("a.cu: In f:\nwarning"), "a.cu: In f:")

    def test_a_table_aligns_numbers_and_escapes(self):
        table = _view.Table(["id", "text"], [["7", "<b>\x1b\nx"], ["12", ""]])
        self.assertEqual(table.text(), "id  text\n 7  <b>? x\n12")
        self.assertIn("&lt;b&gt;? x", table.html())
        self.assertIn('text-align: right; padding: 0 1em 0 0; vertical-align: top">12<', table.html())

    def test_flat_rows_have_the_columns_of_all(self):
        class Kind(_results.Rows):
            def _flat(self, row):
                return row

        rows = Kind([{"id": 1, "A": 1, "end": 0}, {"id": 2, "A": 2, "B": 3, "end": 0}, {"id": 3}])
        self.assertEqual(rows.flat(), [{"id": 1, "A": 1, "B": None, "end": 0}, {"id": 2, "A": 2, "B": 3, "end": 0},
                                       {"id": 3, "A": None, "B": None, "end": None}])
        self.assertEqual((type(rows[1:]), rows[1:].flat()[0]["B"], rows[0]["A"]), (Kind, 3, 1))
        self.assertEqual(_results._beside({"id": 1}, {"id": 2, "n": 3}), {"id": 1, "id_": 2, "n": 3})
        with unittest.mock.patch.dict(sys.modules, pandas=None), self.assertRaisesRegex(
                ImportError, "pip install pandas; without it, flat.. returns the same"):
            rows.to_frame()

    def test_a_row_that_was_changed_still_prints(self):
        self.assertEqual(repr(tunectl.Comparison({"id": 1})), "{'id': 1}")
        self.assertIsNone(tunectl.Comparison({"id": 1})._repr_html_())

    def test_the_package_lists_its_public_names(self):
        names = dir(tunectl)
        self.assertEqual([name for name in names if name.startswith("_")], ["__version__"])
        self.assertLessEqual(set(tunectl.__all__), set(names))
        for name in ("os", "operator", "annotations", "TYPE_CHECKING", "current"):
            self.assertNotIn(name, names)

    def test_an_explanation_prints_as_its_text(self):
        from tunectl._explain import Explanation

        explanation = Explanation(None, ())
        explanation.text = "asked  n=1"
        self.assertEqual(repr(explanation), "asked  n=1")


class Plots(unittest.TestCase):
    @staticmethod
    def trial(number, time, outcome="ok", purpose="search"):
        return {"id": number, "purpose": purpose, "outcome": outcome,
                "measurement": {"latency_ns_median": time} if outcome == "ok" else None}

    def test_the_course_of_a_sweep(self):
        course = _plot.Course()
        self.assertEqual((course.best(), course.svg()), ([], ""))
        course.add([self.trial(4, 9e3), self.trial(5, 7e3), self.trial(6, 0, "faulted"), self.trial(9, 1.0, purpose="confirm")])
        course.add([self.trial(5, 7e3), self.trial(7, 8e3), self.trial(8, 5e3)])
        self.assertEqual((len(course), course.best()), (5, [(1, 9e3), (2, 7e3), (5, 5e3)]))
        svg = course.svg()
        self.assertEqual(svg.count("<circle"), 4, "the trial that was not ok has no time")
        self.assertIn("Best so far over trials: 5.000 us after 5", svg)
        self.assertRegex(svg, r'<path d="M70.0,14.0H189.5V[\d.]+H548.0V186.0H548.0" fill="none"')

    def test_one_trial_and_very_many(self):
        course = _plot.Course()
        course.add([self.trial(1, 5e3)])
        self.assertIn('<circle cx="70.0" cy="186.0"', course.svg())
        course.add(self.trial(number, 5e3 + number) for number in range(2, 40000))
        self.assertLessEqual(course.svg().count("<circle"), 1500)

    def test_a_notebook_shows_the_plot_of_a_running_sweep(self):
        ipython = types.ModuleType("IPython")
        ipython.get_ipython = lambda: types.SimpleNamespace(kernel=object())
        ipython.display = unittest.mock.Mock()
        row = {"id": 7, "kernel_name": "k", "state": "running", "message": "", "budget": None,
               "progress": {"planned": 4, "done": 1, "best_latency_ns": 9e3}}
        with unittest.mock.patch.dict("sys.modules", IPython=ipython):
            bar = _progress.Bar()
            bar(row, [self.trial(1, 9e3)])
            bar({**row, "progress": {**row["progress"], "done": 3}}, [self.trial(2, 7e3)])
            self.assertTrue(bar.lacks_trials({"progress": {"done": 3}}))
            self.assertFalse(bar.lacks_trials({"progress": {"done": 2}}))
        (first,), (second,) = ipython.display.display.call_args.args, ipython.display.display().update.call_args.args
        self.assertEqual(repr(first), "sweep 7 of k: running, 1 configs, best 9.00 us")
        self.assertIn('value="0.750"', second._repr_html_())
        self.assertEqual(second._repr_html_().count("<circle"), 2)


@daemon_kit.NEEDS_GRPC
class Results(daemon_kit.DaemonTest):
    @classmethod
    def prepare(cls):
        cls.sweep(4096)

    def setUp(self):
        super().setUp()
        os.environ.update(self.environment())

    def csv(self, *command):
        return list(csv.reader(io.StringIO(self.tunectl(*command).stdout)))

    def check_csv(self, flat, table):
        """The columns, and each cell: numbers as far as CSV has them."""
        titles, *lines = table
        self.assertEqual([list(row) for row in flat], [titles] * len(lines))
        for row, line in zip(flat, lines):
            for name, cell in zip(titles, line):
                with self.subTest(name):
                    if isinstance(row[name], float):
                        self.assertAlmostEqual(row[name] / float(cell) if row[name] else 1, 1, 4)
                    else:
                        self.assertEqual("" if row[name] is None else str(row[name]), cell)

    def test_a_sweep_prints_as_in_the_terminal(self):
        sweep = tunectl.wait(1)
        shown = lines_of(self.tunectl("sweep", "watch", "1").stdout)
        ours = lines_of(repr(sweep))
        self.assertEqual(ours[:-1], [line.replace(" with --fresh", "") for line in shown[:-1]])
        self.assertEqual((shown[-1], ours[-1]), ("next      tunectl best saxpy --n 4096 --dtype f32 --device cpu",
                                                 'next      tunectl.best("saxpy", n=4096, dtype="f32", device="cpu")'))
        self.assertEqual(str(sweep), repr(sweep))
        self.assertIn("<b>THREADS=", sweep._repr_html_())
        of_program = _results.of_json(json.loads(self.tunectl("sweep", "watch", "1", "--json").stdout))
        self.assertEqual((repr(tunectl.Sweep(of_program)), of_program["problem"]), (repr(sweep), sweep["problem"]))
        for same in (pickle.loads(pickle.dumps(sweep)), copy.deepcopy(sweep)):
            self.assertEqual((same, repr(same), type(same)), (sweep, repr(sweep), tunectl.Sweep))
        self.assertEqual(json.loads(json.dumps(sweep))["id"], 1)

    def test_a_sweep_without_a_result_says_why(self):
        source = "__global__ void broken(float* y) { y[0] = nothing; }\n"
        (self.path / "broken.cu").write_text(source + "__global__ void right(double* y) { y[0] = 0; }\n")
        (self.path / "broken.textproto").write_text(
            'name: "broken" source: "broken.cu" entry: "broken" dtypes: "f32" dims { name: "n" default_value: 1 min: 1 }\n'
            'params { name: "T" values: "[32, 64]" default_value: "32" }\n'
            'args { name: "y" buffer { dtype: "f32" shape: "1" role: ROLE_OUTPUT } } launch { grid: "1" block: "T" }\n'
            'reference { entry: "right" launch { grid: "1" block: "1" } }\n')
        queued = tunectl.submit(str(self.path / "broken.textproto"), device="cpu", trials=2)
        self.assertIn("state     queued", repr(queued))
        self.assertIn(f"next      tunectl.wait({queued['id']}, progress=True)", repr(queued))
        sweep = tunectl.wait(queued, timeout=240)
        shown = lines_of(self.tunectl("sweep", "watch", sweep["id"], ok=False).stdout)
        self.assertEqual(lines_of(repr(sweep)), [line.replace(f"tunectl trial list --sweep {sweep['id']}",
                                                              f"tunectl.trials({sweep['id']})") for line in shown])
        self.assertIn("nothing", repr(sweep))

    def test_lists_print_and_are_flat_as_in_the_terminal(self):
        trials = tunectl.trials(1)
        self.assertEqual(lines_of(repr(trials)), lines_of(self.tunectl("trial", "list", 1).stdout))
        self.check_csv(trials.flat(), self.csv("trial", "list", 1, "--csv"))
        self.assertEqual(trials[:1].flat(), trials.flat()[:1])
        for rows, command in ((tunectl.sweeps(), "sweep"), (tunectl.jobs(), "job"), (tunectl.records("saxpy"), "record")):
            with self.subTest(command):
                ours = lines_of(repr(rows))
                shown = lines_of(self.tunectl(command, "list", *(["saxpy"] if command == "record" else [])).stdout)
                if command == "job":  # jobs() does not ask for their sweeps' numbers
                    shown = [re.sub(r"\bsweep:\d+ *", "sweep ", line) for line in shown]
                self.assertEqual([re.sub(" +", " ", line) for line in ours], [re.sub(" +", " ", line) for line in shown])
                for row in rows.flat():
                    self.assertFalse([one for one in row.values() if isinstance(one, (dict, list))])
        (record,) = tunectl.records("saxpy").flat()
        self.assertEqual((record["n"], record["dtype"], record["kernel"]), (4096, "f32", "saxpy"))
        self.assertIn("THREADS", record)
        self.assertEqual(record["published"].tzname(), "UTC")
        self.assertEqual(repr(tunectl.records("no_such_kernel")), "no records")

    @unittest.skipUnless(HAS_PANDAS, "pandas is not installed")
    def test_frames_have_a_column_for_each_param(self):
        frame = tunectl.trials(1).to_frame()
        self.assertEqual(list(frame.columns), self.csv("trial", "list", 1, "--csv")[0])
        self.assertGreater(frame.groupby("THREADS").latency_ns_median.min().iloc[0], 0)
        self.assertEqual(list(tunectl.trials(1).to_pandas().columns), list(frame.columns))
        self.assertEqual(list(tunectl.trials(1)[:0].to_frame().columns),
                         [name for name in frame.columns if name not in ("THREADS", "ITEMS")])

    def test_an_answer_shows_as_in_the_terminal(self):
        tunectl.open()
        answer = tunectl.best("saxpy", n=4096, device="cpu")
        shown = answer._repr_html_()
        for line in self.tunectl("best", "saxpy", "--n", "4096", "--device", "cpu").stdout.splitlines()[:2]:
            self.assertIn(line.removeprefix("match").strip(), shown)
        self.assertIn("grid ", shown)
        self.assertIn(_format.latency(answer.latency_ns), shown)
        self.assertIn("default: ", tunectl.best("softmax", rows=3, cols=5, device="cpu", default={"A": 1})._repr_html_())


@daemon_kit.NEEDS_GRPC
@unittest.skipUnless(importlib.util.find_spec("numpy"), "NumPy is not installed")
class Comparisons(daemon_kit.DaemonTest):
    QUICK = {"device": "cpu", "rounds": 2, "leg_seconds": 0.002, "default": True, "warm": True, "timeout": 600,
             "arrays": "numpy"}

    def test_it_prints_and_is_flat_as_in_the_terminal(self):
        row = tunectl.compare(SAXPY, {"numpy": saxpy}, sweep={"n": [256, 512]}, **self.QUICK)
        self.assertEqual(lines_of(repr(row)), lines_of(self.tunectl("compare", "show", row["id"]).stdout))
        Results.check_csv(self, row.flat(), Results.csv(self, "compare", "show", row["id"], "--csv"))
        self.assertIn("<b>numpy takes ", row._repr_html_().replace("<b>numpy is ", "<b>numpy takes "))
        if HAS_PANDAS:
            self.assertEqual(list(row.to_frame().n), [256, 256, 512, 512])

    def test_wrong_results_raise_and_name_the_peer(self):
        with self.assertRaisesRegex(tunectl.WrongResults, r"(?s)^wrong: its results differ against the reference of saxpy: out\["
                                                          r".*\nallow_wrong=True returns the comparison all the same$") as caught:
            tunectl.compare(SAXPY, {"numpy": saxpy, "wrong": wrong}, n=300, **self.QUICK)
        row = caught.exception.comparison
        self.assertGreater(next(one for one in row.flat() if one["kernel"] == "numpy")["median_ns"], 0)
        self.assertNotIn("numpy:", str(caught.exception))
        self.assertIn("wrong !differs", repr(row))
        self.assertEqual(str(pickle.loads(pickle.dumps(caught.exception))), str(caught.exception))
        again = tunectl.compare(SAXPY, {"wrong": wrong}, n=300, allow_wrong=True, **self.QUICK)
        self.assertIn("wrong_result", [one["agreement"] for one in again.flat()])


if __name__ == "__main__":
    unittest.main()
