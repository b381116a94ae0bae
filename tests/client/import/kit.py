# SPDX-License-Identifier: Apache-2.0
"""What the tests of the import share: scripts are read, or run, by the modules behind `tunectl import` as they are in the
tree, without a build."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]


MARK = 'constraints { expression: "left_to_write"'


class Answer:
    """What the import made of a script. `spec`: its text; `left`: one text; `error`: why there is nothing."""

    def __init__(self, answer):
        self.error = answer.get("error", "")
        self.left = "\n".join(answer.get("left", ()))
        self.notes = "\n".join(answer.get("notes", ()))
        self.files = answer.get("files", {})
        specs = [text for name, text in self.files.items() if name.endswith(".textproto")]
        self.spec = specs[0] if specs else ""

    def constraints(self):
        found = re.findall(r'^constraints \{ expression: "((?:[^"\\]|\\.)*)"', self.spec, re.M)
        return [text for text in found if text != "left_to_write"]

    def marks(self):
        return self.spec.count(MARK)


class Import(unittest.TestCase):
    def read(self, text, *arguments, run=False, call=1, files=(), name="script.py"):
        """The answer to a script; `files`: others beside it, {path: text}; `name`: of the one that is imported."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, name)
            for other, content in {"script.py": text, **dict(files)}.items():
                pathlib.Path(folder, other).parent.mkdir(parents=True, exist_ok=True)
                pathlib.Path(folder, other).write_text(content)
            program = f"import sys; sys.path.insert(0, {str(ROOT / 'client/import')!r}); import script_import; " \
                "script_import.main()"
            words = [sys.executable, *([] if run else ["-I"]), "-c", program, str(path), str(call)]
            done = subprocess.run([*words, *(["--run", *arguments] if run else [])], capture_output=True, text=True,
                                  timeout=120, check=False, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}, cwd=folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        answer = Answer(json.loads(done.stdout))
        # Whatever is left has a mark in the spec that no check lets pass, and a line of the script or a name.
        if not answer.error:
            self.assertEqual(answer.marks(), len(set(answer.left.split("\n"))) if answer.left else 0, answer.left)
        return answer
