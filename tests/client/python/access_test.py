# SPDX-License-Identifier: Apache-2.0
"""Who may do what, as users of tunectl and of the package meet it: a daemon at a socket and a port."""
import importlib.util
import json
import os
import pathlib
import socket
import subprocess
import unittest
import unittest.mock

import daemon_kit
import tunectl
from tunectl import _device

CURVE = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]


class AccessTest(daemon_kit.DaemonTest):
    """Its daemon listens at the socket of its user, who is the operator, and at a port."""

    @classmethod
    def start(cls, *flags):
        files = {name: str(cls.home / f"{name}.pem") for name in ("key", "cert")}
        subprocess.run(["openssl", "req", "-x509", *CURVE, "-subj", "/CN=localhost", "-addext",
                        "subjectAltName=IP:127.0.0.1", "-keyout", files["key"], "-out", files["cert"]],
                       check=True, capture_output=True)
        with socket.create_server(("127.0.0.1", 0)) as free:
            cls.port = f"127.0.0.1:{free.getsockname()[1]}"
        super().start("--listen", cls.address, "--listen", cls.port, "--tls-cert", files["cert"],
                      "--tls-key", files["key"], *flags)
        cls.caller = json.loads(cls.tunectl("server", "status", "--json").stdout)["caller"]
        cls.ca = files["cert"]

    def by_port(self, *arguments, ok=True, token=None, **more):
        flags = ["--address", self.port, "--tls-ca", self.ca]
        flags += ["--token-file", token] if token else []
        return self.tunectl(*flags, *arguments, ok=ok, XDG_CONFIG_HOME=str(self.path), **more)

    def token(self, name, role):
        path = str(self.path / f"{name}.token")
        self.tunectl("token", "create", name, "--role", role, "--out", path)
        return path

    def test_the_daemons_user_is_its_operator(self):
        self.assertEqual(self.caller["role"], "PRINCIPAL_ROLE_OPERATOR")

    def test_a_token_says_who_asks(self):
        token = self.token("ci", "submitter")
        self.assertEqual(os.stat(token).st_mode & 0o777, 0o600)
        self.assertIn("ci, submitter", self.by_port("server", "status", token=token).stdout)
        refused = self.by_port("token", "list", token=token, ok=False)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("ListTokens is for operators, and you are ci, a submitter", refused.stderr)
        listed = json.loads(self.tunectl("token", "list", "--json").stdout)["tokens"]
        self.assertNotIn("hash", listed[0])
        again = self.tunectl("token", "create", "x", "--role", "reader", "--out", token, ok=False)
        self.assertIn("File exists", again.stderr)

    def test_without_one_nothing_is_answered(self):
        refused = self.by_port("server", "status", ok=False)
        self.assertIn("tunectl token create", refused.stderr)

    def test_the_environment_and_the_users_own_file(self):
        token = self.token("env", "reader")
        self.by_port("kernel", "list", TUNE_TOKEN_FILE=token)
        with open(token, encoding="ascii") as file:
            secret = file.read().strip()
        self.by_port("kernel", "list", TUNE_TOKEN=secret)
        (self.path / "tunectl").mkdir()
        os.rename(token, self.path / "tunectl/token")
        self.by_port("kernel", "list")

    def test_a_file_that_others_may_read_is_not_used(self):
        token = self.token("open", "reader")
        os.chmod(token, 0o644)
        refused = self.by_port("kernel", "list", token=token, ok=False)
        self.assertIn("chmod 600", refused.stderr)

    def test_a_revoked_token_is_not_taken(self):
        token = self.token("gone", "reader")
        self.by_port("kernel", "list", token=token)
        self.assertIn("of gone is revoked", self.tunectl("token", "revoke", "gone").stdout)
        self.assertIn("was revoked", self.by_port("kernel", "list", token=token, ok=False).stderr)

    def test_a_reader_is_answered_though_its_miss_is_not_recorded(self):
        token = self.token("rita", "reader")
        best = ("best", "softmax", "--rows", 77, "--device", "cpu", "--record-miss")
        answered = self.by_port(*best, token=token)
        self.assertIn("match     default", answered.stdout)
        self.assertRegex(answered.stderr, "not queued: RecordMisses is for submitters and operators, and you are rita")
        self.assertIn("has no dim 'row'", self.tunectl("best", "softmax", "--row", 77, "--record-miss", ok=False).stderr)

    def test_an_export_leaves_out_artifacts_of_others(self):
        owner, reader = self.token("ann", "submitter"), self.token("rob", "reader")
        self.by_port("sweep", daemon_kit.SAXPY, "--n", 4098, "--device", "cpu", "--budget", "1", token=owner)
        kernel = ("--artifacts", "--kernel", "ann/saxpy")
        exported = self.by_port("snapshot", "export", self.path / "all.json", *kernel, token=reader)
        self.assertRegex(exported.stderr, "left out: artifact sha256:[0-9a-f]{64} is of a record of ann's")
        self.assertIn("with 0 of the 1 artifacts", exported.stderr)
        self.assertIn("with 1 of the 1 artifacts", self.by_port(
            "snapshot", "export", self.path / "own.json", *kernel, token=owner).stderr)

    def test_an_entry_of_the_vault_is_its_owners_and_the_operators(self):
        ann, bob, reader = (self.token(name, role) for name, role in
                            (("vann", "submitter"), ("vbob", "submitter"), ("vrob", "reader")))
        one, two = self.path / "one.json", self.path / "two.json"
        one.write_text("1")
        two.write_text("2")
        self.by_port("vault", "put", "helion", "k", one, token=ann)
        self.by_port("vault", "put", "helion", "k", one, token=bob)  # the same
        refused = self.by_port("vault", "put", "helion", "k", two, token=bob, ok=False)
        self.assertIn("the entry belongs to vann, who may replace it", refused.stderr)
        for arguments, who in ((("put", "helion", "k", two), reader), (("remove", "helion", "k"), ann)):
            self.assertIn("is for", self.by_port("vault", *arguments, token=who, ok=False).stderr)
        self.assertEqual(self.by_port("vault", "get", "helion", "k", token=reader).stdout, "1\n")
        self.by_port("vault", "put", "helion", "k", two, token=ann)
        self.tunectl("vault", "put", "helion", "k", one)

    def test_jobs_of_a_token_that_is_revoked_already(self):
        token = self.token("one", "submitter")
        self.by_port("sweep", daemon_kit.SAXPY, "--n", 4099, "--device", "cpu", "--detach", "--fresh", token=token)
        self.tunectl("token", "revoke", "one")
        self.assertIn("no token one that is not revoked", self.tunectl("token", "revoke", "one", ok=False).stderr)
        self.assertRegex(self.tunectl("token", "revoke", "one", "--with-jobs").stdout,
                         "^no token one is valid any more\n(0 jobs are|1 job is) cancelled\n$")

    def test_wrong_names_roles_and_numbers(self):
        for arguments, said in ((("create", "1", "--role", "reader"), "begins with a letter"),
                                (("create", "a", "--role", "king"), "reader, submitter or operator"),
                                (("revoke", "99999"), "no token 99999"), (("revoke", "nobody"), "no token nobody")):
            done = self.tunectl("token", *arguments, ok=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(said, done.stderr)

    @daemon_kit.NEEDS_GRPC
    def test_python_shows_a_token_and_finds_a_submitters_kernel(self):
        alice = self.token("alice", "submitter")
        swept = self.by_port("sweep", daemon_kit.SAXPY, "--n", 4096, "--device", "cpu", "--budget", "1", token=alice)
        self.assertIn("tunectl best alice/saxpy", swept.stdout + swept.stderr)
        self.tunectl("best", "alice/saxpy", "--n", 4096)
        (job,) = [one for one in json.loads(self.tunectl("job", "list", "--json").stdout)["jobs"] if one["owner"] == "alice"]
        self.assertTrue(job["subject"].startswith("alice/saxpy n=4096 "), job)
        self.assertRegex(self.tunectl("best", daemon_kit.SAXPY, ok=False).stderr,
                         r"no kernel 'saxpy'; did you mean alice/saxpy( or ann/saxpy)?\? there is: ")
        os.environ.update(TUNE_ADDRESS=self.port, TUNE_TLS_CA=self.ca, TUNE_STATE_DIR=str(self.path / "elsewhere"),
                          TUNE_TOKEN_FILE=self.token("job", "reader"), XDG_CONFIG_HOME=str(self.path))
        client = tunectl.open(deadline=30)
        self.assertEqual(client.source, "daemon", client.notes)
        self.assertEqual(tunectl.best("alice/saxpy", n=4096, device="cpu").match, "exact")
        with unittest.mock.patch.dict(os.environ, {"TUNE_FETCH": str(daemon_kit.BIN / "tune-fetch"),
                                                   "TUNE_CACHE_DIR": str(self.path / "fetched"), "TUNE_PROTO_SET": "/none"}):
            fetched = tunectl.open("latest", deadline=30)
            self.assertEqual((fetched.source, fetched.digest), ("daemon", client.digest), "without gRPC in Python")
            os.environ["TUNE_TOKEN_FILE"] = alice
            missing = tunectl.open(deadline=30, record_misses=True)
            tunectl.best("alice/saxpy", n=4097, device="cpu")
            self.assertTrue(missing.misses.wait(30))
            note = missing.misses.notes[-1]
            self.assertRegex(note, r": sweep \d+, queued$")
            (missed,) = json.loads(self.tunectl("job", "list", "--unfinished", "--json").stdout)["jobs"]
            self.assertTrue(missed["subject"].startswith("alice/saxpy n=4097 "), missed)
            self.tunectl("job", "cancel", missed["id"])
        del os.environ["TUNE_TOKEN_FILE"]
        os.environ["TUNE_CACHE_DIR"] = str(self.path / "empty")
        self.assertIn("wants to know who asks", " ".join(tunectl.open(deadline=30).notes))
        os.environ["TUNE_TOKEN_FILE"] = str(self.path / "job.token")
        os.chmod(self.path / "job.token", 0o640 if os.geteuid() else 0o604)
        self.assertIn("chmod 600", " ".join(tunectl.open(deadline=30).notes))

    @daemon_kit.NEEDS_GRPC
    @unittest.skipUnless(importlib.util.find_spec("triton"), "Triton is not installed")
    def test_a_submitters_triton_kernel_is_found_and_a_lost_sweep_repeated(self):
        from tunectl.triton import _service

        os.environ.update(TUNE_ADDRESS=self.port, TUNE_TLS_CA=self.ca, TUNE_STATE_DIR=str(self.path / "elsewhere"),
                          TUNE_TOKEN_FILE=self.token("carol", "submitter"))
        folder = pathlib.Path(daemon_kit.SAXPY).parent
        spec = pathlib.Path(daemon_kit.SAXPY).read_text().replace('name: "saxpy"', 'name: "scaled-0123"', 1)
        for large, small in (("1048576", "4096"), ("pow2(64, 1024)", "[64, 256]"), ("[1, 2, 4, 8]", "[1]")):
            spec = spec.replace(large, small)
        kernel = _service.Kernel("scaled-0123", spec, {"saxpy.cu": (folder / "saxpy.cu").read_bytes()})

        def submit(seconds):
            return _service.submit(kernel, seconds, True, "cpu")

        first, other = submit(600), submit(500)
        self.assertNotEqual(first["id"], other["id"], "another budget is another sweep")
        self.assertEqual(submit(600)["id"], first["id"])
        for one in (first, other):
            tunectl.cancel(one)
        again = submit(600)
        self.assertNotIn(again["id"], (first["id"], other["id"]))
        self.assertEqual(submit(600)["id"], again["id"])
        tunectl.cancel(again)
        self.assertEqual(submit(600)["state"], "cancelled", "once by each process")
        done = tunectl.wait(submit(20), timeout=180)
        self.assertEqual(done["kernel_name"], "carol/scaled-0123")
        self.assertTrue(done["result"], done["message"])
        cpu = [_device.local_devices()[-1]]
        with unittest.mock.patch.object(_device, "_of_torch", lambda: cpu):
            for names in ({"scaled-0123": "carol/scaled-0123"}, {}):
                with unittest.mock.patch.object(_service, "_names", names), tunectl.pin("latest", deadline=30):
                    found = _service.find_record("scaled-0123")
                    self.assertIn("THREADS", found or {})


if __name__ == "__main__":
    unittest.main()
