# SPDX-License-Identifier: Apache-2.0
"""The expressions of specs, by the table of docs/expressions.md, and what hostile ones may not do."""
import json
import time
import unittest

import kit
from tunectl._expression import Expression, ExpressionError


def table():
    """Of each row: the expression, and its value or the error."""
    text = (kit.ROOT / "docs/expressions.md").read_text()
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(" | ")]
        if not line.startswith("| `") or len(cells) != 3:
            continue
        yield cells[0].strip("|` "), cells[2].rstrip("| ")


class Expressions(unittest.TestCase):
    # What only the parser of specs refuses: a snapshot's kernels have passed it.
    LENIENT = {"0x10", "1_000", "'a\\n'"}

    def test_the_table_of_the_documents(self):
        rows = list(table())
        self.assertGreater(len(rows), 15)
        for text, here in rows:
            if text in self.LENIENT:
                continue
            with self.subTest(text):
                if here.startswith("error"):
                    with self.assertRaises(ExpressionError):
                        Expression(text).evaluate({})
                    continue
                value = Expression(text).evaluate({})
                wanted = {"True": True, "False": False}.get(here.strip("`"))
                self.assertEqual(value, json.loads(here.strip("`")) if wanted is None else wanted)

    def test_names_lets_and_conditions(self):
        scope = {"n": 4096, "target": "sm_90a", "B": 64}
        for text, value in (("ceil_div(n, B)", 64), ("n % B == 0 and B in [32, 64]", True),
                            ("'wgmma' if target == 'sm_90a' else 'plain'", "wgmma"),
                            ("1 < B <= 64 < n", True), ("not n or B", 64), ("min(n, B, 7)", 7),
                            ("max([1, 2]) << 3", 16), ("-7 // 2", -4), ("-7 % 3", 2), ("~B & 255", 191),
                            ("round(2.5)", 2), ("math.floor(3.7)", 3), ("[1] + [2] == [1, 2]", True)):
            with self.subTest(text):
                self.assertEqual(Expression(text).evaluate(scope), value)

    def test_what_is_not_an_expression(self):
        for text in ("__import__('os')", "n.__class__", "(lambda: 1)()", "[x for x in n]", "f'{n}'",
                     "n[0]", "{1: 2}", "await n", "n := 2", "1j", "b'x'", "...", "print(n)", "pow2(3, 8)",
                     "min(*n)", "int(x=1)", "1 @ 2", "n is n", "", "1 +", "(" * 10_000, "9" * 5_000,
                     "x" * 5_000):
            with self.subTest(text[:40]), self.assertRaises(ExpressionError):
                Expression(text).evaluate({"n": [1]})

    def test_no_expression_takes_long(self):
        began = time.process_time()
        for text in ("2 ** 2 ** 2 ** 2 ** 2 ** 2", "1 << 10 ** 9", "range(0, 10 ** 12)", "9 ** 9 ** 9",
                     "'a' + 'b'" + " + 'c'" * 500, "1.5 ** 10 ** 9", "[0] * 10 ** 9"):
            with self.subTest(text[:40]):
                try:
                    Expression(text).evaluate({})
                except ExpressionError:
                    pass
        self.assertLess(time.process_time() - began, 5)


if __name__ == "__main__":
    unittest.main()
