# SPDX-License-Identifier: Apache-2.0
"""TLS that fails says why: from tunectl, from tune-fetch, by which libtune asks, and from Python. Needs openssl."""
import contextlib
import os
import pathlib
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

import daemon_kit
import kit
import tunectl
from tunectl import _tls

CURVE = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
SECONDS = 30


def make_pair(folder, name, days=2, host="IP:127.0.0.1"):
    """A certificate that vouches for itself, and its key."""
    key, request, certificate = (str(folder / f"{name}.{kind}") for kind in ("key", "csr", "pem"))
    for words in (["req", *CURVE, "-subj", f"/CN={name}", "-addext", f"subjectAltName={host}", "-keyout", key, "-out", request],
                  ["x509", "-req", "-in", request, "-signkey", key, "-copy_extensions", "copyall", "-days", str(days),
                   "-out", certificate]):
        subprocess.run(["openssl", *words], check=True, capture_output=True)
    os.chmod(key, 0o600)
    return certificate, key


@contextlib.contextmanager
def server(certificate=None, key=None, authority=None):
    """Shakes hands and says nothing more; without a certificate it talks at once, and no TLS. Gives the address."""
    context = None
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        context.set_alpn_protocols(["h2"])
    if authority:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(authority)

    def loop():
        while True:
            try:
                plain, _ = listening.accept()
            except OSError:
                return
            held.append(plain)
            try:
                if context is None:
                    plain.sendall(b"220 a server of mail\r\n")
                else:
                    held.append(context.wrap_socket(plain, server_side=True))
            except OSError:
                plain.close()

    held = []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=loop, daemon=True).start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
        for connection in held:
            connection.close()


def daemon_at_a_port(ends, folder, certificate, key):
    """A tunerd that takes clients' certificates of the authority of its own; gives the address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    daemon = subprocess.Popen([daemon_kit.BIN / "tunerd", "--state-dir", folder / "state", "--listen", address, "--tls-cert",
                               certificate, "--tls-key", key, "--tls-ca", certificate],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    ends.callback(daemon.wait, timeout=SECONDS)
    ends.callback(daemon.kill)
    host, port = address.split(":")
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex((host, int(port))) == 0:
                return address
        time.sleep(0.05)
    raise AssertionError("tunerd does not answer")


@unittest.skipUnless(shutil.which("openssl"), "there is no openssl")
class Tls(kit.PackageTest):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="tune-")
        cls.addClassCleanup(folder.cleanup)
        cls.home = pathlib.Path(folder.name)
        cls.good = make_pair(cls.home, "good")
        cls.other = make_pair(cls.home, "other")
        cls.ended = make_pair(cls.home, "ended", days=-1)
        cls.elsewhere = make_pair(cls.home, "elsewhere", host="DNS:tuner.example,IP:10.1.2.3")

    def said(self, address, **files):
        """What each client says of a connection that does not come about."""
        variables = {f"TUNE_TLS_{name.upper()}": path for name, path in files.items()}
        env = {**os.environ, **variables, "XDG_CONFIG_HOME": str(self.path), "XDG_STATE_HOME": str(self.path),
               "TUNE_ADDRESS": address, "TUNE_CACHE_DIR": str(self.path / "cache")}
        texts = {}
        for name, command in (("tunectl", [daemon_kit.BIN / "tunectl", "server", "status"]),
                              ("tune-fetch", [daemon_kit.BIN / "tune-fetch", "snapshot", "", address, "20000", "1000"])):
            done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=SECONDS, check=False)
            self.assertNotEqual(done.returncode, 0)
            texts[name] = done.stderr
        texts["_tls"] = _tls.why_not(address, *(files.get(name, "") for name in ("ca", "cert", "key")), SECONDS)
        with unittest.mock.patch.dict(os.environ, env):
            texts["package"] = " ".join(tunectl.open("latest", deadline=SECONDS).notes)
        if not daemon_kit.HAS_GRPC:
            del texts["package"]
        return texts

    def assert_said(self, texts, pattern):
        for who, text in texts.items():
            with self.subTest(who):
                self.assertRegex(text, pattern)

    def test_an_authority_that_is_not_trusted(self):
        with server(*self.good) as address:
            self.assert_said(self.said(address, ca=self.other[0]), "of an authority that the file of .*TUNE_TLS_CA does not have")
            self.assert_said(self.said(address), "this system does not trust; name it with .*TUNE_TLS_CA")

    def test_a_certificate_that_has_ended(self):
        with server(*self.ended) as address:
            self.assert_said(self.said(address, ca=self.ended[0]), "the daemon's certificate (ended on|has ended)")

    def test_a_certificate_of_another_host(self):
        with server(*self.elsewhere) as address:
            texts = self.said(address, ca=self.elsewhere[0])
        self.assert_said(texts, "127.0.0.1")
        self.assertIn("is for tuner.example, 10.1.2.3, not for 127.0.0.1", texts["tunectl"])
        self.assertIn("for another host", texts["_tls"])

    def test_a_certificate_of_ours_that_is_not_taken(self):
        with server(*self.good, authority=self.good[0]) as address:
            self.assert_said(self.said(address, ca=self.good[0], cert=self.other[0], key=self.other[1]),
                             "the daemon does not take this client's certificate .*TUNE_TLS_CERT.*unknown (ca|CA)")

    def test_a_certificate_of_ours_that_a_daemon_hangs_up_on(self):
        """As tunerd does, which sends no alert."""
        with contextlib.ExitStack() as ends:
            daemon = daemon_at_a_port(ends, self.path, *self.good)
            for one, why in ((self.other, "has not signed it"), (self.ended, "ended on|not valid now")):
                self.assert_said(self.said(daemon, ca=self.good[0], cert=one[0], key=one[1]),
                                 f"the daemon does not take this client's certificate .*TUNE_TLS_CERT.*({why})")

    def test_no_tls_at_all(self):
        with server() as address:
            self.assert_said(self.said(address, ca=self.good[0]), "does not speak TLS")

    def test_nobody_is_there(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            address = f"127.0.0.1:{free.getsockname()[1]}"
        texts = self.said(address, ca=self.good[0])
        self.assertRegex(texts["tunectl"], "no daemon answers at .*refused; start one with 'tunerd'")
        self.assertIn("refused", texts["tune-fetch"])

    def test_files_that_do_not_fit(self):
        no_pem = self.path / "no.pem"
        no_pem.write_text("this is no certificate\n")
        (no_key := self.path / "no.key").write_text("this is no key\n")
        no_key.chmod(0o600)
        with server(*self.good) as address:
            self.assert_said(self.said(address, ca=str(no_pem)), "TUNE_TLS_CA names a file without a certificate in PEM")
            self.assert_said(self.said(address, ca=self.good[0], cert=self.good[0], key=self.other[1]),
                             "TUNE_TLS_KEY is not the key of|TUNE_TLS_KEY are no certificate and its key")
            self.assert_said(self.said(address, ca=self.good[0], cert=self.good[0], key=str(no_key)), "TUNE_TLS_KEY")

    def test_one_of_a_pair(self):
        for files, wanted in (({"cert": self.good[0]}, "TUNE_TLS_CERT is given without its key: .*TUNE_TLS_KEY"),
                              ({"key": self.good[1]}, "TUNE_TLS_KEY is given without its certificate: .*TUNE_TLS_CERT")):
            with server(*self.good) as address:
                texts = self.said(address, ca=self.good[0], **files)
            texts["_tls"] = _tls.check_pair(files.get("cert"), files.get("key"))
            self.assert_said(texts, wanted)


if __name__ == "__main__":
    sys.exit(unittest.main())
