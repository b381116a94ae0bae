# SPDX-License-Identifier: Apache-2.0
"""What tests of libtune beside the Python package share."""
import os
import pathlib
import socket
import stat
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
import kit  # noqa: E402
import libtune  # noqa: E402
import tunectl  # noqa: E402

FIELDS = ("match", "reason", "kernel", "device", "target", "dims", "dtype", "latency_ns", "latency_ns_low",
          "latency_ns_high", "confidence", "record", "published_unix_ms", "evidence", "artifact", "snapshot", "source")


class ParityTest(kit.PackageTest):
    def setUp(self):
        super().setUp()
        os.environ["TUNE_RECORDS_DIR"] = str(self.path / "none")  # not those beside the library

    def assert_alike(self, client, theirs, kernel, **question):
        try:
            expected = theirs.best(kernel, **question)
        except ValueError as error:
            with self.assertRaises(libtune.Failed) as caught:
                client.best(kernel, **question)
            self.assertEqual((caught.exception.status, str(caught.exception)),
                             (libtune.INVALID_ARGUMENT, str(error)))
            return None
        answer = client.best(kernel, **question)
        for field in FIELDS:
            wanted = getattr(expected, field)
            self.assertEqual(getattr(answer, field), dict(wanted) if field == "dims" else wanted, (field, question))
        self.assertEqual([(k, type(v), v) for k, v in answer.config.items()],
                         [(k, type(v), v) for k, v in expected.config.items()], question)
        wanted = expected.expectation
        self.assertEqual(answer.expectation, (wanted.basis, wanted.loss, wanted.loss_low, wanted.loss_high), question)
        self.assertEqual(client.explain(kernel, **question), str(theirs.explain(kernel, **question)))
        return answer

    def both(self, data):
        self.put(data)
        return libtune.Client(), tunectl.open()

    def a_program(self, text):
        """In the place of what asks the daemon, and somebody who listens."""
        program = self.path / "fetch"
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        os.environ["TUNE_FETCH"] = str(program)
        listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(listener.close)
        listener.bind(str(self.path / "d.sock"))
        listener.listen(64)
