// Tests of source text with times (node --test; run by test_page.py).
import assert from "node:assert/strict";
import { test } from "node:test";
import { coloured, Listing } from "../../../taupy/report/static/listing.js";

const TEXT = String.raw`"""Docs of
two lines: def if # no comment, \""" no end
"""
def f(iffy, *, é=None):  # for a "word
    a = rb'\'#' + F"{x!r} and" ''
    return f'''{
        a if b else c}''' + 'it''s'
`;

test("keywords, strings and comments have colours, over lines, too", () => {
  const lines = TEXT.split("\n");
  const parts = coloured(lines);
  assert.deepEqual(parts.map((line) => line.map(([, text]) => text).join("")), lines);
  assert.deepEqual(parts.map((line) => line.filter(([kind]) => kind)), [
    [["s", '"""Docs of']],
    [["s", String.raw`two lines: def if # no comment, \""" no end`]],
    [["s", '"""']],
    [["k", "def"], ["k", "None"], ["c", '# for a "word']],
    [["s", String.raw`rb'\'#'`], ["s", 'F"{x!r} and"'], ["s", "''"]],
    [["k", "return"], ["s", "f'''{"]],
    [["s", "        a if b else c}'''"], ["s", "'it'"], ["s", "'s'"]],
    [],
  ]);
});

test("a string that does not end does not hide what follows its line", () => {
  assert.deepEqual(coloured(["a = 'x", "if a:"]), [[["", "a = 'x"]], [["k", "if"], ["", " a:"]]]);
});

test("around a line stands its routine, not the next one", () => {
  const text = ["import a", "def f():", "    x = 1", "    return x", "", "def g():", "    pass"].join("\n");
  const routine = { ns: 1, parts: {} };
  const listing = new Listing().read({
    text, routines: [{ ...routine, line: 2 }, { ...routine, line: 6 }], lines: [{ ...routine, line: 3 }],
  });
  assert.deepEqual([3, 7, 1].map((line) => listing.around(line)), [[2, 4], [6, 7], [1, 7]]);
});
