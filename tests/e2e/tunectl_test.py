# SPDX-License-Identifier: Apache-2.0
"""Drives the real programs as a user would, on the CPU device. Run by ctest; needs TUNE_BIN."""
import os
import pathlib
import subprocess
import unittest

from tunectl_kit import ROOT, SAXPY, TIMEOUT_SECONDS, Tunectl


class Usage(Tunectl):
    def test_help_shows_the_dims_of_a_kernel(self):
        for command, flag in {"sweep": "--budget", "best": "--require-exact", "explain": "--at-most", "bench": "--samples",
                              "profile": "--top"}.items():
            with self.subTest(command):
                text = self.run_tunectl(command, "attention", "--help").stdout
                self.assertIn("--seq INT", text)
                self.assertIn(flag, text)
                self.assertNotIn("--seq INT", self.run_tunectl(command, "--help").stdout)

    def test_wrong_usage_is_exit_code_2(self):
        for arguments in (["sweep"], ["sweep", "no_such_kernel"], ["frobnicate"],
                          ["sweep", "softmax", "--no-such-dim", "3"],
                          ["sweep", "softmax", "--rows", "many"],
                          ["sweep", "softmax", "--rows", "0"],
                          ["sweep", "softmax", "--dtype", "f7"],
                          ["sweep", "softmax", "--device", "cuda:99"],
                          ["sweep", "softmax", "--strategy", "guess"],
                          ["sweep", "softmax", "--budget", "-1"],
                          ["sweep", "--kernel", "/no/such/file.textproto"],
                          ["best", "softmax", "--nope", "1"],
                          ["kernel", "show", "no_such_kernel"],
                          [], ["snapshot"], ["snapshot", "import"], ["bench", "softmax", "--samples", "x"]):
            with self.subTest(arguments=arguments):
                done = self.run_tunectl(*arguments, expect=2)
                self.assertRegex(done.stderr, "(?m)^tunectl: .", "an error says what to do")

    def test_a_kernel_is_a_name_or_a_path_everywhere(self):
        for kernel in ([SAXPY], ["--kernel", SAXPY], ["softmax"], ["--kernel", "softmax"]):
            with self.subTest(kernel=kernel):
                self.assertIn("--budget", self.run_tunectl("sweep", *kernel, "--help").stdout)
                self.assertIn("params", self.run_tunectl("kernel", "show", *kernel).stdout)
                self.run_tunectl("kernel", "check", *kernel, "--target", "cpu")
                self.assertGreater(self.json_of("space", "count", *kernel, "--target", "cpu")["valid"], 0)
                self.run_tunectl("history", *kernel)
        for command in (["best"], ["kernel", "show"], ["kernel", "check"], ["history"], ["profile"], ["bench"]):
            with self.subTest(command=command):
                self.assertIn("name", self.run_tunectl(*command, expect=2).stderr)

    def test_lists_have_one_shape(self):
        for command, name in ((["sweep", "list"], "sweeps"), (["kernel", "list"], "kernels"),
                              (["device", "list"], "devices"), (["gate", "list"], "gates"),
                              (["baseline", "list"], "baselines"), (["strategy", "list"], "strategies")):
            with self.subTest(command=command):
                listed = self.json_of(*command)
                self.assertEqual(list(listed), [name])
                self.assertIsInstance(listed[name], list)

    def test_a_profile_that_fails_prints_no_list(self):
        for why, arguments in (("no trial 99", ["--device", "cpu", "--trial", "99"]),
                               ("cuda:99", ["--device", "cuda:99"])):
            with self.subTest(why=why):
                done = subprocess.run(self.command("profile", "softmax", *arguments, "--json"),
                                      env=self.env, capture_output=True, text=True,
                                      timeout=TIMEOUT_SECONDS, check=False)
                self.assertNotEqual(done.returncode, 0)
                self.assertEqual(done.stdout, "")
                self.assertIn(why, done.stderr)

    def test_a_compile_log_does_not_steer_the_terminal(self):
        (self.path / "saxpy.textproto").write_text(pathlib.Path(SAXPY).read_text())
        source = pathlib.Path(SAXPY).with_suffix(".cu").read_text()
        (self.path / "saxpy.cu").write_text(
            source + "\n#if !TUNE_REFERENCE\n#error \033[2J\033]0;owned\a \u202e over\n#endif\n")
        spec = str(self.path / "saxpy.textproto")
        done = self.run_tunectl("kernel", "check", spec, "--target", "cpu", expect=1)
        self.assertIn("\\x1b[2J", done.stdout + done.stderr)
        self.run_tunectl("sweep", spec, "--device", "cpu", "--n", "4096", "--budget", "1", expect=4)
        sweep = self.json_of("sweep", "list")["sweeps"][0]["id"]
        for arguments in (["kernel", "check", spec, "--target", "cpu"], ["trial", "list", "--sweep", sweep],
                          ["trial", "list", "--sweep", sweep, "--csv"],
                          ["trial", "list", "--sweep", sweep, "--json"], ["report", "sweep", sweep],
                          ["report", "sweep", sweep, "--format", "md"],
                          ["report", "sweep", sweep, "--format", "svg"],
                          ["report", "sweep", sweep, "--format", "html"]):
            with self.subTest(arguments=arguments):
                done = subprocess.run(self.command(*arguments), env=self.env, capture_output=True, text=True,
                                      timeout=TIMEOUT_SECONDS, check=False)
                for bad in ("\033", "\a", "\u202e"):
                    self.assertNotIn(bad, done.stdout + done.stderr)

    def test_no_daemon_at_the_address_is_exit_code_3(self):
        done = self.run_tunectl("--address", f"unix:{self.path}/none", "device", "list", expect=3)
        self.assertIn("tunerd", done.stderr)

    def test_where_a_daemon_was_looked_for_is_said(self):
        self.run_tunectl("sweep", SAXPY, "--n", 4096, "--device", "cpu", "--budget", 1)
        self.env["TUNE_ADDRESS"] = ""  # is as if it were not set
        default = "/run/tunerd" if os.getuid() == 0 else self.path
        looked = f"inside tunectl: no daemon answers at unix:{default}/tunerd.sock"
        self.assertIn(f"{looked}; --address or TUNE_ADDRESS names another's",
                      self.run_tunectl("server", "status").stdout)
        daemon = self.start_daemon()
        self.env["TUNE_ADDRESS"] = ""
        self.assertIn(f"{looked}, but tunerd (process {daemon.pid}) has this state folder: name its address with --address or",
                      self.run_tunectl("server", "status").stdout)

    def test_the_manual_is_up_to_date(self):
        manual = self.run_tunectl("help", "--markdown").stdout
        self.assertEqual((ROOT / "docs/cli.md").read_text(), manual,
                         "docs/cli.md is stale: tunectl help --markdown > docs/cli.md")

    def test_the_compile_cache_is_emptied(self):
        sweep = ("sweep", SAXPY, "--n", 4096, "--device", "cpu", "--budget", 1, "--fresh")
        self.run_tunectl(*sweep)
        self.assertGreater(self.json_of("server", "cache", "clear")["removed_bytes"], 1000)
        self.assertEqual(self.run_tunectl("server", "cache", "clear").stdout, "removed 0 B of compiled variants\n")
        self.run_tunectl(*sweep)

    def test_lists(self):
        names = [k["spec"]["name"] for k in self.json_of("kernel", "list")["kernels"]]
        self.assertEqual(names, sorted(names))
        self.assertLessEqual({"attention", "rope", "softmax"}, set(names))
        devices = {d["id"]: d for d in self.json_of("device", "list")["devices"]}
        self.assertEqual(devices["cpu"]["state"], "DEVICE_STATE_HEALTHY")
        self.assertIn("embedded", self.json_of("server", "status"))


class Spaces(Tunectl):
    HOTSPOT = str(ROOT / "bench/data/spaces/hotspot.json")

    def test_count_show_and_sample(self):
        self.assertEqual(self.json_of("space", "count", self.HOTSPOT)["valid"], 349853)
        self.assertIn("349853", self.run_tunectl("space", "count", self.HOTSPOT).stdout)
        show = self.run_tunectl("space", "show", "softmax", "--cols", "512", "--target", "cpu").stdout
        self.assertIn("cols=512", show)
        self.assertIn("rejects", show)
        first = self.run_tunectl("space", "sample", "--kernel", SAXPY, "-n", "3", "--seed", "5").stdout
        self.assertEqual(len(set(first.splitlines())), 3)
        again = self.run_tunectl("space", "sample", SAXPY, "-n", "3", "--seed", "5").stdout
        self.assertEqual(first, again)

    def test_what_is_wrong_is_exit_code_2(self):
        empty = self.path / "empty.json"
        empty.write_text('{"tune_params": {"A": [1, 2]}, "restrictions": ["A > 2"]}')
        done = self.run_tunectl("space", "count", str(empty), expect=2)
        self.assertIn("constraint 'A > 2' rejects every one", done.stderr)
        for arguments in (["count"], ["count", "no_such_kernel"], ["count", "/no/such/file.json"],
                          ["sample", "softmax", "-n", "0"], ["show", "softmax", "--rows", "many"]):
            with self.subTest(arguments=arguments):
                self.run_tunectl("space", *arguments, expect=2)


class OwnKernel(Tunectl):
    """docs/adding-a-kernel.md, as it is written."""

    def test_the_worked_example(self):
        check = self.run_tunectl("kernel", "check", SAXPY, "--target", "cpu", "--all")
        self.assertIn("0 findings", check.stdout)
        sweep = self.json_of("sweep", "--kernel", SAXPY, "--n", "64Ki", "--device", "cpu")
        self.assertEqual(sweep["state"], "JOB_STATE_DONE")
        self.assertEqual(sweep["progress"]["outcomes"]["ok"], sweep["progress"]["done"])
        self.assertGreater(sweep["result"]["best"]["measurement"]["latency_ns_median"], 0)

        again = self.json_of("sweep", "--kernel", SAXPY, "--n", "64Ki", "--device", "cpu")
        self.assertEqual(again["progress"]["reused"], again["progress"]["done"])

        exact = self.json_of("best", "saxpy", "--n", "64Ki", "--device", "cpu")
        self.assertEqual(exact["match"], "MATCH_EXACT")
        best = again["result"]["best"]  # measured anew, so its ties are its own
        self.assertEqual(exact["config"], best["config"])
        self.assertEqual({type(value) for value in best["config"].values()}, {int})
        self.assertEqual(exact["record"]["problem"], {"dims": {"n": 65536}, "dtype": "f32"})
        record = exact["record"]
        self.assertEqual(record["resources"]["binary_sha256"], best["resources"]["binary_sha256"])
        self.assertEqual(record["seed"], 1)
        self.assertEqual([tie["config"] for tie in record.get("ties", [])],
                         [tie["config"] for tie in again["result"].get("ties", [])])
        near = self.json_of("best", "saxpy", "--n", "100000", "--device", "cpu")
        self.assertEqual(near["match"], "MATCH_NEAREST")
        self.assertIn("65536", near["reason"])

        trials = self.run_tunectl("trial", "list", "--sweep", sweep["id"], "--csv").stdout.splitlines()
        self.assertIn("latency_ns_median", trials[0])
        self.assertGreaterEqual(len(trials) - 1, int(sweep["progress"]["done"]))
        listed = {purpose: self.json_of("trial", "list", "--sweep", sweep["id"], "--purpose", purpose)["trials"]
                  for purpose in ("search", "confirm")}
        self.assertEqual(len(listed["search"]) + len(listed["confirm"]), len(trials) - 1)
        self.assertIn(sweep["result"]["best"]["id"], [t["id"] for t in listed["confirm"]])
        self.assertEqual({t["purpose"] for t in listed["search"]}, {"TRIAL_PURPOSE_SEARCH"})
        self.run_tunectl("trial", "list", "--sweep", sweep["id"], "--purpose", "both", expect=2)
        by_time = self.json_of("trial", "list", sweep["id"], "--sort", "time")["trials"]
        times = [trial["measurement"]["latency_ns_median"] for trial in by_time]
        self.assertEqual(times, sorted(times))
        self.assertEqual(sorted(trial["id"] for trial in by_time),
                         [trial["id"] for trial in self.json_of("trial", "list", sweep["id"])["trials"]])
        self.run_tunectl("trial", "list", sweep["id"], "--sort", "error", expect=2)

    def test_a_config_is_told_whole(self):
        """Of params that have one value on this device, too, and as another command of the same problem has it."""
        problem = ("softmax", "--rows", 64, "--cols", 256, "--dtype", "f32", "--device", "cpu")
        swept = self.run_tunectl("sweep", *problem, "--budget", 2).stdout
        self.assertRegex(swept, r"\n +with .*STORES=cached.*, which have no other value here\n")
        self.assertIn("tunectl best softmax --rows 64 --cols 256 --dtype f32 --device cpu\n", swept)
        told = [self.run_tunectl(command, *problem).stdout.splitlines()[0] for command in ("best", "explain")]
        config = self.json_of("best", *problem)["config"]
        self.assertEqual(told, [" ".join(f"{name}={value}" for name, value in config.items())] * 2)

    def test_a_wrong_spec_names_file_line_and_column(self):
        bad = self.path / "saxpy.textproto"
        text = pathlib.Path(SAXPY).read_text()
        (self.path / "saxpy.cu").write_text((ROOT / "docs/examples/saxpy/saxpy.cu").read_text())
        for broken, where in ((text.replace("ceil_div(n, THREADS", "ceil_div(N, THREADS"), "saxpy.textproto:"),
                              (text.replace("role: ROLE_OUTPUT", "role: ROLE_OUTPT"), "saxpy.textproto:17:"),
                              (text.replace('entry: "saxpy"', 'entri: "saxpy"'), "saxpy.textproto:6:")):
            bad.write_text(broken)
            done = self.run_tunectl("sweep", "--kernel", str(bad), expect=2)
            self.assertIn(where, done.stderr)
        bad.write_text(text.replace("ceil_div(n, THREADS", "ceil_div(N, THREADS"))
        done = self.run_tunectl("kernel", "check", str(bad), expect=2)
        self.assertIn("'N'", done.stderr)
        self.assertIn("THREADS", done.stderr, "the names in scope are listed")

    def test_a_wrong_kernel_is_an_outcome(self):
        source = (ROOT / "docs/examples/saxpy/saxpy.cu").read_text()
        (self.path / "saxpy.textproto").write_text(pathlib.Path(SAXPY).read_text())
        (self.path / "saxpy.cu").write_text(source.replace("a * x[i] + y[i];\n  }\n}\n#endif",
                                                           "ITEMS == 4 ? 0 : a * x[i] + y[i];\n  }\n}\n#endif"))
        sweep = self.json_of("sweep", "--kernel", str(self.path / "saxpy.textproto"), "--n", "64Ki",
                             "--device", "cpu")
        self.assertGreater(int(sweep["progress"]["outcomes"]["wrong_result"]), 0)
        self.assertGreater(int(sweep["progress"]["outcomes"]["ok"]), 0)


    def test_without_an_ok_config_the_failures_are_shown(self):
        source = (ROOT / "docs/examples/saxpy/saxpy.cu").read_text()
        (self.path / "saxpy.textproto").write_text(pathlib.Path(SAXPY).read_text())
        (self.path / "saxpy.cu").write_text(source.replace(
            "a * x[i] + y[i];\n  }\n}\n#endif", "missing + y[i];\n  }\n}\n#endif"))
        done = self.run_tunectl("sweep", "--kernel", str(self.path / "saxpy.textproto"), "--n", "64Ki",
                                "--device", "cpu", "--budget", "3", "--strategy", "random", expect=4)
        self.assertIn("no config was ok", done.stdout)
        self.assertIn("3 compile_failed", done.stdout)
        self.assertIn("3 like trial", done.stdout)
        self.assertIn("missing", done.stdout)


class Replay(Tunectl):
    A100 = str(ROOT / "tests/data/convolution-A100.json")
    A4000 = str(ROOT / "tests/data/convolution-A4000.json")

    def test_a_replayed_sweep_leaves_nothing_behind(self):
        replay = self.json_of("sweep", "--replay", self.A100, "--strategy", "random", "--budget", "100",
                              "--seed", "7")
        self.assertEqual(replay["recording"]["device"], "replay:NVIDIA A100-PCIE-40GB")
        self.assertEqual(replay["evaluations"], 100)
        self.assertGreaterEqual(replay["optimum_ratio"], 1)
        again = self.json_of("sweep", "--replay", self.A100, "--strategy", "random", "--budget", "100",
                             "--seed", "7")
        self.assertEqual(replay["best_latency_ns"], again["best_latency_ns"])
        text = self.run_tunectl("sweep", "--replay", self.A100, "--budget", "100", "--in-flight", "8").stdout
        self.assertIn("replay:NVIDIA A100", text)
        self.assertFalse((self.path / "state").exists(), "a replay needs no store")
        for arguments in (["softmax"], ["--device", "cpu"], ["--fresh"], ["--budget", "zero"]):
            with self.subTest(arguments=arguments):
                done = self.run_tunectl("sweep", "--replay", self.A100, *arguments, expect=2)
                self.assertTrue(done.stderr)
        missing = self.run_tunectl("sweep", "--replay", "/no/such.json", expect=2)
        self.assertIn("/no/such.json", missing.stderr)

    def test_strategies_are_compared(self):
        names = [s["name"] for s in self.json_of("strategy", "list")["strategies"]]
        self.assertLessEqual({"exhaustive", "random"}, set(names))
        svg = self.path / "compare.svg"
        compared = self.json_of("strategy", "compare", "--replay", self.A100, self.A4000, "--strategies",
                                "random,exhaustive", "--seeds", "4", "--budget", "50", "--svg", str(svg))
        self.assertEqual([s["name"] for s in compared["strategies"]], ["random", "exhaustive"])
        self.assertEqual(compared["budgets"], [25, 50])
        picture = svg.read_text()
        self.assertEqual(picture.count("</svg>"), 3, "one in which there are two")
        for name in ("convolution-A100", "convolution-A4000", "random", "exhaustive"):
            self.assertIn(name, picture)
        table = self.run_tunectl("strategy", "compare", "--replay", self.A100, "--strategies", "random",
                                 "--seeds", "3", "--budget", "25").stdout
        self.assertIn("(random, exact)", table)
        done = self.run_tunectl("strategy", "compare", "--replay", self.A100, "--strategies", "guess", expect=2)
        self.assertIn("random", done.stderr)

    def test_data_goes_out_and_comes_back(self):
        for form in ("kernel-tuner", "t4", "neutral"):
            out = str(self.path / form)
            self.run_tunectl("recording", "convert", self.A4000, out, "--format", form)
            info = self.json_of("recording", "show", out + ".json")
            self.assertEqual(info["configs"], 4362)
            self.assertEqual(info["ok"], 4201)
            self.assertAlmostEqual(info["best_latency_ns"], 1021171, delta=1000)
            self.assertEqual(info["best_config"],
                             self.json_of("recording", "show", self.A4000)["best_config"])
        refused = self.run_tunectl("recording", "convert", self.A4000, str(self.path / "t4"), "--format", "t4",
                                   expect=1)
        self.assertIn("--force", refused.stderr)
        spec = self.run_tunectl("recording", "spec", self.A4000).stdout
        self.assertIn("block_size_x*block_size_y<=1024", spec)

    def test_a_sweep_of_ours_is_a_recording(self):
        first = self.json_of("sweep", "--kernel", SAXPY, "--n", "64Ki", "--device", "cpu", "--budget", "4")
        sweep = self.json_of("sweep", "--kernel", SAXPY, "--n", "64Ki", "--device", "cpu")
        self.assertEqual(sweep["progress"]["reused"], 4)
        out = str(self.path / "saxpy")
        self.run_tunectl("recording", "from-sweep", sweep["id"], out)
        info = self.json_of("recording", "show", out + ".json")
        self.assertEqual(info["configs"], sweep["progress"]["space_size"], "reused trials are in it")
        self.assertTrue(info["device"].startswith("replay:cpu:"))
        replay = self.json_of("sweep", "--replay", out + ".json", "--strategy", "exhaustive")
        self.assertEqual(replay["optimum_ratio"], 1)
        best = self.json_of("best", "saxpy", "--n", "64Ki", "--device", "cpu")
        self.assertEqual(best["match"], "MATCH_EXACT")
        self.assertEqual(first["state"], "JOB_STATE_DONE")

    def test_a_sweep_starts_from_another_shape(self):
        self.json_of("sweep", "--kernel", SAXPY, "--n", "64Ki", "--device", "cpu")
        warm = self.json_of("sweep", "--kernel", SAXPY, "--n", "128Ki", "--device", "cpu", "--strategy",
                            "surrogate", "--budget", "3")
        self.assertIn("n=65536", warm["warm_start"]["sources"][0])
        self.assertEqual(warm["end"], "SWEEP_END_TRIALS")
        self.assertIn("budget", warm["end_message"])
        cold = self.json_of("sweep", "--kernel", SAXPY, "--n", "256Ki", "--device", "cpu", "--strategy",
                            "surrogate", "--budget", "3", "--no-warm-start")
        self.assertNotIn("warm_start", cold)
        stopped = self.json_of("sweep", "--kernel", SAXPY, "--n", "32Ki", "--device", "cpu", "--strategy",
                               "random", "--stop-no-improvement", "1")
        self.assertEqual(stopped["stop"]["trials_without_improvement"], 1)


class Gate(Tunectl):
    def test_identical_baseline_list_and_replay(self):
        example = str(pathlib.Path(SAXPY).parent)
        head = self.path / "head"
        head.mkdir()
        for name in ("saxpy.cu", "saxpy.textproto"):
            (head / name).write_text((pathlib.Path(example) / name).read_text())
        source = head / "saxpy.cu"
        source.write_text("// A comment that changes nothing.\n" + source.read_text())
        sides = ("--base", example, "--head", str(head), "--device", "cpu", "--n", "64Ki")
        run = self.json_of("gate", *sides, "--markdown", str(self.path / "gate.md"), "--junit",
                           str(self.path / "gate.xml"))
        self.assertEqual(run["verdicts"], {"IDENTICAL": 1})
        self.assertIn("1 IDENTICAL", (self.path / "gate.md").read_text())
        self.assertIn('tests="1" failures="0"', (self.path / "gate.xml").read_text())
        recomputed = self.json_of("gate", "recompute", run["id"])
        self.assertNotIn("differences", recomputed)
        self.assertEqual(self.json_of("gate", "list")["gates"][0]["id"], run["id"])

        self.run_tunectl("baseline", "set", "released", "--from", example)
        self.assertIn("released", self.run_tunectl("baseline", "list").stdout)
        gated = self.run_tunectl("gate", "--baseline", "released", "--head", str(head), "--device",
                                 "cpu", "--n", "64Ki")
        self.assertRegex(gated.stderr, r"(?m)^gate  (waiting|compiling|screen)")
        self.assertNotRegex(gated.stderr, r"(?m)^gate *$")

    def test_a_thousand_kernels_are_one_request(self):
        example = pathlib.Path(SAXPY).parent
        spec = (example / "saxpy.textproto").read_text()
        source = (example / "saxpy.cu").read_text() + "// " + "." * 2000 + "\n"
        folder = self.path / "many"
        for i in range(1000):
            kernel = folder / f"k{i}"
            kernel.mkdir(parents=True)
            (kernel / f"k{i}.textproto").write_text(spec.replace('name: "saxpy"', f'name: "k{i}"'))
            (kernel / "saxpy.cu").write_text(source)
        # A dim that none has is found out when all are there; to time them would take too long.
        done = self.run_tunectl("gate", "--base", str(folder), "--head", str(folder), "--device", "cpu",
                                "--rows", "3", expect=2)
        self.assertIn("no kernel has the dim 'rows'", done.stderr)
        self.run_tunectl("baseline", "set", "many", "--from", str(folder))
        done = self.run_tunectl("gate", "--baseline", "many", "--head", str(folder), "--device", "cpu",
                                "--rows", "3", expect=2)
        self.assertIn("no kernel has the dim 'rows'", done.stderr)

    def test_a_broken_head_is_exit_code_6(self):
        example = pathlib.Path(SAXPY).parent
        for name in ("saxpy.cu", "saxpy.textproto"):
            (self.path / name).write_text((example / name).read_text())
        with open(self.path / "saxpy.cu", "a", encoding="utf-8") as source:
            source.write("#error broken on purpose\n")
        done = self.run_tunectl("gate", "--base", SAXPY, "--head", str(self.path / "saxpy.textproto"),
                                "--device", "cpu", expect=6)
        self.assertIn("INVALID", done.stdout)
        self.assertIn("broken on purpose", done.stdout)

    def test_wrong_usage_is_exit_code_2(self):
        example = str(pathlib.Path(SAXPY).parent)
        for arguments in (["gate"], ["gate", "--base", example],
                          ["gate", "--base", "no-such-revision", "--head", example],
                          ["gate", "--base", example, "--head", example, "--kernels", "nope"],
                          ["gate", "--base", example, "--head", example, "--delta0", "much"],
                          ["gate", "--base", example, "--head", example, "--nope", "3"],
                          ["gate", "--baseline", "nope", "--head", example],
                          ["gate", "show", "99"], ["history"], ["baseline", "set", "a b"]):
            with self.subTest(arguments=arguments):
                done = self.run_tunectl(*arguments, expect=2)
                self.assertRegex(done.stderr, "(?m)^tunectl: .", "an error says what to do")


if __name__ == "__main__":
    unittest.main(verbosity=2)
