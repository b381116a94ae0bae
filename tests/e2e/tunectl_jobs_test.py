# SPDX-License-Identifier: Apache-2.0
"""Jobs as a user sees them: interrupted, out of time, with and without a daemon. Run by ctest; needs TUNE_BIN."""
import pathlib
import re
import signal
import subprocess
import time
import unittest

from tunectl_kit import BIN, SAXPY, Tunectl


# Lasts for ten seconds on a quick machine, so that a test can meet it while it runs.
LONG = ("gemm", "--device", "cpu")


class Interrupt(Tunectl):
    def test_ctrl_c_keeps_what_is_finished_and_the_same_command_continues(self):
        arguments = ("sweep", *LONG)
        sweep = subprocess.Popen(self.command(*arguments), env=self.env, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True)
        kept = 0
        for line in sweep.stderr:  # a plain line every few seconds: "gemm  3/64  ..."
            match = re.match(r"gemm  (\d+)/", line)
            if match and int(match.group(1)) > 0:
                kept = int(match.group(1))
                break
        started = time.monotonic()
        sweep.send_signal(signal.SIGINT)
        out, err = sweep.communicate(timeout=30)
        stopped = time.monotonic() - started
        self.assertEqual(sweep.returncode, 130, err)
        self.assertLess(stopped, 2, "0.2 s on an idle machine; CI is not one")
        self.assertIn("cancelled", out)
        self.assertIn("continues where this stopped", out)
        again = self.json_of(*arguments, "--budget", str(kept + 2))
        self.assertGreaterEqual(int(again["progress"]["reused"]), kept)

    def test_ctrl_c_on_a_comparison_that_waits_says_that_nothing_is_stored(self):
        self.start_daemon()
        self.run_tunectl("sweep", "gemm", "--device", "cpu", "--budget", "60s", "--detach")
        compare = subprocess.Popen(self.command("compare", SAXPY, f"other={SAXPY}", "--default", "--device", "cpu"),
                                   env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(200):
            if any(job["kind"] == "JOB_KIND_COMPARISON" for job in self.json_of("job", "list")["jobs"]):
                break
            time.sleep(0.05)
        compare.send_signal(signal.SIGINT)
        _, err = compare.communicate(timeout=30)
        self.assertEqual(compare.returncode, 130, err)
        self.assertIn("it had not started, so nothing is stored", err)


# Four configs that never end beside one that does, as somebody's first try of a kernel may be.
HANGING_SPEC = '''name: "stuck"
source: "stuck.cu"
entry: "stuck"
dims { name: "n" default_value: 4096 }
dtypes: "f32"
params { name: "SPIN" values: "[0, 1, 2, 3, 4]" default_value: "0" }
args { name: "y" buffer { dtype: "dtype" shape: "n" role: ROLE_OUTPUT } }
args { name: "n" scalar { dtype: "i32" value: "n" } }
launch { grid: "ceil_div(n, 64)" block: "64" }
reference { entry: "stuck_reference" dtype: "f32" launch { grid: "ceil_div(n, 64)" block: "64" } }
'''
HANGING_SOURCE = '''
#ifdef TUNE_REFERENCE
extern "C" __global__ void stuck_reference(float* y, int n) {
  volatile int go_on = @REFERENCE_SPINS;
  while (go_on) {}
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 1.0f;
}
#else
extern "C" __global__ void stuck(float* y, int n) {
  volatile int go_on = SPIN;
  while (go_on) {}
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 1.0f;
}
#endif
'''


class Budget(Tunectl):
    def write_kernel(self, reference_spins):
        (self.path / "stuck.textproto").write_text(HANGING_SPEC)
        (self.path / "stuck.cu").write_text(
            HANGING_SOURCE.replace("@REFERENCE_SPINS", str(reference_spins)))
        return str(self.path / "stuck.textproto")

    def test_hanging_kernels_end_with_the_budget(self):
        spec = self.write_kernel(reference_spins=0)
        self.run_tunectl("sweep", "--kernel", SAXPY, "--device", "cpu", "--budget", "1")  # ceilings
        begin = time.monotonic()
        done = self.run_tunectl("sweep", "--kernel", spec, "--device", "cpu", "--budget", "8s")
        took = time.monotonic() - begin
        self.assertIn("searching for at most 8.0 s", done.stderr)
        self.assertIn("adds at most 8.0 s", done.stderr)
        self.assertLess(took, 8 + 8 + 20, "starting and stopping on a busy machine included")
        self.assertIn("do not count as tried", done.stdout)
        self.assertIn("the budget of 8 s was spent", done.stdout)
        sweep = self.json_of("sweep", "list")["sweeps"][0]
        self.assertEqual(set(sweep["progress"]["outcomes"]), {"ok"}, "nobody is blamed for the budget")

    def test_a_reference_that_hangs_is_named(self):
        spec = self.write_kernel(reference_spins=1)
        done = self.run_tunectl("sweep", "--kernel", spec, "--device", "cpu", "--budget", "3s",
                                expect=1)
        self.assertIn("the reference kernel was still running", done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"tried +none of \d+ configs\n", "and in no time of its own")


class WithoutADaemon(Tunectl):
    def test_a_running_sweep_locks_out_only_what_writes(self):
        arguments = ("sweep", *LONG, "--budget", "60s")
        sweep = subprocess.Popen(self.command(*arguments), env=self.env, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.PIPE, text=True)
        self.addCleanup(sweep.wait)
        self.addCleanup(sweep.kill)
        for line in sweep.stderr:
            match = re.match(r"gemm  (\d+)/", line)
            if match and int(match.group(1)) > 0:
                break
        # What needs no store, and what reads it.
        self.run_tunectl("space", "count", "softmax")
        self.run_tunectl("kernel", "check", SAXPY, "--target", "cpu")
        self.run_tunectl("kernel", "list")
        listed = self.json_of("sweep", "list")["sweeps"]
        self.assertEqual(listed[0]["state"], "JOB_STATE_RUNNING")
        self.assertIn(f"tunectl (process {sweep.pid})", listed[0]["message"])
        self.assertTrue(self.run_tunectl("trial", "list", "--sweep", listed[0]["id"]).stdout)
        for reading in (("best", *LONG), ("server", "status"),
                        ("device", "list"), ("gate", "list"), ("baseline", "list")):
            with self.subTest(reading=reading):
                self.run_tunectl(*reading)
        # What writes says who is in the way, and how to share.
        for writing in (("sweep", "--kernel", SAXPY, "--device", "cpu"),
                        ("sweep", "cancel", listed[0]["id"]), ("device", "retry")):
            with self.subTest(writing=writing):
                refused = self.run_tunectl(*writing, expect=1)
                self.assertIn(f"tunectl (process {sweep.pid})", refused.stderr)
                self.assertIn("start tunerd to share", refused.stderr)
                self.assertIn(f"TUNE_STATE_DIR={self.path}/state tunerd", refused.stderr)
        sweep.send_signal(signal.SIGTERM)
        sweep.wait(timeout=30)
        listed = self.json_of("sweep", "list")["sweeps"]
        self.assertEqual(listed[0]["state"], "JOB_STATE_CANCELLED")
        self.assertTrue(listed[0]["interrupted"])
        self.assertRegex(self.run_tunectl("job", "list").stdout, rf"sweep:{listed[0]['id']} +interrupted ")
        # A daemon leaves it alone; the same command goes on from its trials.
        self.start_daemon()
        listed = self.json_of("sweep", "list")["sweeps"]
        self.assertEqual([s["interrupted"] for s in listed], [True])
        self.assertNotIn("running_jobs", self.json_of("server", "status"))
        again = self.json_of("sweep", *LONG, "--budget", "2")
        self.assertGreaterEqual(int(again["progress"]["reused"]), 1)


class Daemon(Tunectl):
    def test_detach_watch_list_cancel(self):
        self.start_daemon()
        queued = self.json_of("sweep", "--kernel", SAXPY, "--n", "64Ki", "--device", "cpu", "--detach")
        watched = self.json_of("sweep", "watch", queued["id"])
        self.assertEqual(watched["state"], "JOB_STATE_DONE")
        other = self.json_of("sweep", "softmax", "--device", "cpu", "--detach")
        status = self.json_of("server", "status")
        self.assertEqual(status.get("running_jobs", 0) + status.get("queued_jobs", 0), 1)
        self.run_tunectl("sweep", "cancel", other["id"])
        states = {s["id"]: s["state"] for s in self.json_of("sweep", "list")["sweeps"]}
        self.assertEqual(states[queued["id"]], "JOB_STATE_DONE")
        self.assertEqual(states[other["id"]], "JOB_STATE_CANCELLED")
        jobs = self.json_of("job", "list", "--kind", "sweep")["jobs"]
        self.assertEqual([job["id"] for job in jobs], [other["job_id"], queued["job_id"]])
        self.assertEqual(self.json_of("job", "list", "--kind", "gate")["jobs"], [])
        self.run_tunectl("job", "list", "--kind", "knitting", expect=2)
        self.assertRegex(self.run_tunectl("job", "list").stdout, rf"\n *{queued['job_id']} +sweep:{queued['id']} +done ")
        done, job = queued["id"], queued["job_id"]
        for named in (done, f"sweep:{done}", f"job:{job}"):
            self.assertTrue(self.json_of("trial", "list", named)["trials"])
        for named in (job, f"job:{job}", f"sweep:{done}"):
            self.assertEqual(self.json_of("job", "wait", named)["id"], job)
        self.assertRegex(self.run_tunectl("job", "wait", job).stdout, rf"^job {job}, sweep of saxpy .*: done")
        for words, kind, newest in ((("job", "cancel"), "job", other["job_id"]), (("trial", "list"), "sweep", other["id"]),
                                    (("sweep", "watch"), "sweep", other["id"])):
            said = self.run_tunectl(*words, 999, expect=2).stderr
            self.assertIn(f"no {kind} 999; the newest: {newest}, ", said)
            self.assertIn("is no id: give a number", self.run_tunectl(*words, "first", expect=2).stderr)
        self.assertIn("0 running, 0 queued", self.run_tunectl("server", "status").stdout)
        self.assertEqual(self.json_of("best", "saxpy", "--n", "64Ki", "--device", "cpu")["match"],
                         "MATCH_EXACT")

    def test_every_kind_of_job_is_detached_and_its_result_is_kept(self):
        self.start_daemon()
        said = self.run_tunectl("bench", SAXPY, "--n", "64Ki", "--device", "cpu", "--default", "--samples", "3",
                                "--detach").stdout
        bench = re.search(r"^job (\d+) is queued", said)[1]
        profile = self.json_of("profile", SAXPY, "--n", "64Ki", "--device", "cpu", "--detach")
        gate = self.json_of("gate", "--base", SAXPY, "--head", SAXPY, "--n", "64Ki", "--device", "cpu", "--detach")
        compared = self.json_of("compare", f"a={SAXPY}", f"b={SAXPY}", "--default", "--n", "64Ki", "--device", "cpu",
                                "--rounds", "1", "--detach")
        for job, name in ((bench, "BenchResult"), (profile["id"], "Profile"), (gate["id"], "GateRun"),
                          (compared["id"], "Comparison")):
            with self.subTest(name=name):
                ended = self.json_of("job", "wait", job)
                self.assertEqual(ended["state"], "JOB_STATE_DONE", ended)
                self.assertIn(f"tune.v1.{name}", [result["@type"] for result in ended["results"]])

    def test_following_a_sweep_without_an_ok_config_is_no_success(self):
        self.start_daemon()
        (self.path / "saxpy.textproto").write_text(pathlib.Path(SAXPY).read_text())
        source = pathlib.Path(SAXPY).with_name("saxpy.cu").read_text()
        (self.path / "saxpy.cu").write_text(source.replace("out[i] = a * x[i]", "out[i] = missing * x[i]"))
        sweep = self.json_of("sweep", self.path / "saxpy.textproto", "--n", "64Ki", "--device", "cpu", "--budget", "3",
                             "--strategy", "random", "--detach")
        watched = self.run_tunectl("sweep", "watch", sweep["id"], expect=4).stdout
        self.assertRegex(watched, r"^compile_failed: .*missing")
        self.assertIn("\nstate     done: no config was ok, 3 of 3 ended as compile_failed: ", watched)
        for verb in ("watch", "wait"):
            self.assertIn("no config was ok, 3 of 3 ended as compile_failed",
                          self.run_tunectl("job", verb, sweep["job_id"], expect=4).stdout)
        self.assertRegex(self.run_tunectl("sweep", "list").stdout, r" done .* 3/3 +none ")

    def test_following_what_a_stopping_daemon_leaves_is_no_success(self):
        daemon = self.start_daemon()
        sweep = self.json_of("sweep", "softmax", "--device", "cpu", "--budget", "60s", "--detach")
        follow = [subprocess.Popen(self.command(noun, "watch", ident), env=self.env, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                  for noun, ident in (("job", sweep["job_id"]), ("sweep", sweep["id"]))]
        for watch in follow:
            self.addCleanup(watch.kill)
        self.assertIn(f"job {sweep['job_id']}, sweep of softmax", follow[0].stdout.readline())
        self.assertIn("softmax", follow[1].stderr.readline())
        daemon.terminate()
        for watch in follow:
            stderr = watch.communicate(timeout=60)[1]
            self.assertNotEqual(watch.returncode, 0, stderr)
            self.assertIn("tunectl: ", stderr)

    def test_who_waits_for_the_device_says_so(self):
        self.start_daemon()
        ceilings = subprocess.Popen(self.command("device", "ceilings", "cpu", "--processes", "20"),
                                    env=self.env, stdout=subprocess.DEVNULL,
                                    stderr=subprocess.DEVNULL)
        self.addCleanup(ceilings.wait)
        self.addCleanup(ceilings.kill)
        while ceilings.poll() is None:  # until it has the device
            queued = self.json_of("sweep", "--kernel", SAXPY, "--device", "cpu", "--detach")
            seen = queued
            while seen["state"] == "JOB_STATE_QUEUED":
                seen = self.json_of("sweep", "list")["sweeps"][0]
            self.run_tunectl("sweep", "cancel", queued["id"])
            if seen["state"] == "JOB_STATE_WAITING":
                break
        self.assertEqual(seen["state"], "JOB_STATE_WAITING")
        self.assertEqual(seen["message"], "waiting for cpu, which a measurement of ceilings has")

    def test_devices_that_are_well_need_no_retry(self):
        self.start_daemon()
        self.run_tunectl("device", "list")
        tried = self.run_tunectl("device", "retry", "cpu").stdout
        self.assertIn("healthy", tried)
        self.run_tunectl("device", "retry", "cuda:99", expect=2)

    def test_a_killed_daemon_resumes_its_queue(self):
        daemon = self.start_daemon()
        sweep = self.json_of("sweep", "softmax", "--device", "cpu", "--budget", "8", "--detach")
        for _ in range(300):
            trials = self.json_of("trial", "list", "--sweep", sweep["id"])["trials"]
            if len(trials) >= 2:
                break
            time.sleep(0.1)
        daemon.kill()
        daemon.wait()
        reported = {trial["id"] for trial in trials}
        self.start_daemon()
        finished = self.json_of("sweep", "watch", sweep["id"])
        self.assertEqual(finished["state"], "JOB_STATE_DONE")
        kept = self.json_of("trial", "list", "--sweep", sweep["id"])["trials"]
        self.assertLessEqual(reported, {trial["id"] for trial in kept})

    def test_a_second_daemon_on_the_same_state_is_refused(self):
        self.start_daemon()
        second = subprocess.run([str(BIN / "tunerd"), "--listen", f"unix:{self.path}/e.sock"],
                                env=self.env, capture_output=True, text=True, timeout=20, check=False)
        self.assertNotEqual(second.returncode, 0)
        self.assertIn("process", second.stderr + second.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
