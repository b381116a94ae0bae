# SPDX-License-Identifier: Apache-2.0
"""The package of tools/deb.sh: lintian accepts it, and in a fresh Debian it installs, serves, tunes and goes.
The host is a chroot that debootstrap makes. Needs root, debootstrap and the distribution's mirror. $TUNE_DEB is a
package to test that was made before."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MIRROR = "http://deb.debian.org/debian"
SECONDS = 1800
# The unit is not started in a chroot: these lines do what it does.
SERVE = """set -e
install -d -o tunerd -g tunerd -m 0755 /run/tunerd
runuser -u tunerd -- /usr/sbin/tunerd --config /etc/tunerd/tunerd.toml --check-config
runuser -u tunerd -- /usr/sbin/tunerd --config /etc/tunerd/tunerd.toml 2> /tmp/log &
for i in $(seq 200); do TUNE_DAEMON_USER=tunerd tunectl server status > /dev/null 2>&1 && break; sleep 0.1; done
export TUNE_DAEMON_USER=tunerd TUNE_ADDRESS=unix:/run/tunerd/tunerd.sock
tunectl server status
tunectl sweep softmax --rows 64 --cols 512 --device cpu --budget 20
tunectl store backup
tunectl server stop
"""


def run(*command, **options):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=SECONDS, check=False,
                          **options)


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0 or not shutil.which("debootstrap"):
            raise unittest.SkipTest("a host is made by root and debootstrap")
        cls.folder = tempfile.TemporaryDirectory(prefix="tune-deb-")
        cls.addClassCleanup(cls.folder.cleanup)
        if "TUNE_DEB" in os.environ:
            cls.package = pathlib.Path(os.environ["TUNE_DEB"])
            return
        made = run(ROOT / "tools/deb.sh", cls.folder.name)
        if made.returncode != 0:
            raise AssertionError(made.stdout + made.stderr)
        cls.package = pathlib.Path(made.stdout.split()[-1])

    def test_lintian_accepts_it(self):
        done = run("lintian", "--allow-root", "--fail-on", "error,warning", self.package)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_it_installs_serves_tunes_and_goes(self):
        place = pathlib.Path(self.folder.name) / "host"
        made = run("debootstrap", "--variant=minbase", "bookworm", place, MIRROR)
        if made.returncode != 0:
            self.skipTest(f"debootstrap makes no host here: {made.stdout[-500:]}{made.stderr[-500:]}")
        shutil.copy(self.package, place / "tmp/tunectl.deb")

        def enter(command):
            mounts = f"mount -t proc proc {place}/proc && mount --rbind /dev {place}/dev && exec chroot {place} sh -c \"$1\""
            done = run("unshare", "--mount", "--pid", "--fork", "sh", "-c", mounts, "sh", command,
                       env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "DEBIAN_FRONTEND": "noninteractive"})
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            return done.stdout

        enter("apt-get update && apt-get install -y /tmp/tunectl.deb systemd")
        self.assertIn("tunerd", enter("getent passwd tunerd"))
        self.assertRegex(enter(SERVE), r"(?s)as a daemon.*tried +20 of 20 configs.*/var/lib/tunerd/backups/.*has stopped")
        enter("apt-get purge -y tunectl && test ! -e /usr/bin/tunectl && test ! -e /etc/tunerd/tunerd.toml")


if __name__ == "__main__":
    sys.exit(unittest.main())
