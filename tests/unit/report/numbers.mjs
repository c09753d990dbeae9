// Each line of input has a kind and a value; each line of output is the text on the page.
import { createInterface } from "node:readline";
import { shown } from "../../../taupy/report/static/numbers.js";

for await (const line of createInterface({ input: process.stdin })) {
  const [kind, value] = JSON.parse(line);
  console.log(shown(value, kind));
}
