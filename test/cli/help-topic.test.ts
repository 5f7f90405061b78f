// `svc help TOPIC` and `svc docs PAGE`: pages that are shipped, through a pager on a terminal.

import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { CLI, Workplace } from "./serving.ts";

const at = new Workplace();
afterAll(() => at.close());
const QUICKSTART = readFileSync(join(import.meta.dirname, "../../docs/guide/quickstart.md"), "utf8");

test("A topic is a page of the documentation, and a command is its help", () => {
  expect(at.svc("help", "quickstart")).toEqual({ code: 0, out: QUICKSTART, err: "" });
  expect(at.svc("help", "guide/quickstart").out).toBe(QUICKSTART);
  expect(at.svc("help", "logs").out).toContain("svc logs: Print the log of a run");
  expect(at.svc("help", "lgos").err).toContain("Did you mean `svc logs`?");
  expect(at.svc("help", "ps").err).toContain("svc jobs");
  const none = at.svc("help", "quickstrat");
  expect([none.code, none.err]).toEqual([2, expect.stringContaining("quickstart")]);
});

test("A subject without a page is answered with the pages that say most about it", () => {
  const resume = at.svc("docs", "resume");
  expect([resume.code, resume.err]).toEqual([2, expect.stringMatching(/These say most about it: .*guide\/resuming/)]);
  expect(JSON.parse(at.svc("docs", "--json").out).pages).toContain("guide/resuming");
  expect(JSON.parse(at.svc("docs", "resuming", "--json").out)).toMatchObject({
    page: "guide/resuming",
    text: expect.stringContaining("# Resuming"),
  });
  expect(at.svc("docs", "xyzzy-nowhere").err).toContain("`svc docs` lists all pages.");
});

test("`svc offers` without a provider names no credential that does not exist", () => {
  const missing = `The home ${at.home} does not exist, so it has no runs. If you expected some, check SVC_HOME.\n`;
  const r = at.svc("offers");
  expect([r.code, r.err]).toEqual([
    4,
    `${missing}No provider that rents out machines is connected.\n` +
      "`svc credentials set NAME` connects one; NAME is one of podhost, market, cloudvm.\n",
  ]);
  const one = at.svc("offers", "H100", "--provider", "market");
  const words = "market is not connected.\n`svc credentials set market` connects it.\n";
  expect([one.code, one.err]).toEqual([4, missing + words]);
  const none = at.svc("offers", "--provider", "notebook");
  expect([none.code, none.err]).toEqual([2, expect.stringContaining("notebook rents out no machines.\n")]);
});

test("`svc sim` lists the faults when it does not know one, and names no page that does not exist", () => {
  const r = at.svc("sim", "podhost", "--fault", "no_such_fault");
  expect([r.code, r.err]).toEqual([2, expect.stringContaining("no_such_fault is not a fault; there are ")]);
  expect(r.err).not.toContain("svc docs");
});

test.each([
  ["sed 's/^/PAGED: /'", "PAGED: # "],
  ["no-such-pager", "# "],
  ["cat", "# "],
])("On a terminal PAGER=%s shows lines that begin with %j", (pager, begin) => {
  const program = `import os, pty, sys
code = pty.spawn([sys.argv[1], "help", "quickstart"])
sys.exit(os.waitstatus_to_exitcode(code))`;
  const env = { ...at.env, PAGER: pager, TERM: "xterm" };
  const r = spawnSync("python3", ["-c", program, CLI], { env, encoding: "utf8", input: "" });
  expect([r.status, r.stdout.includes(begin)], r.stdout + r.stderr).toEqual([0, true]);
  expect(r.stdout.includes("PAGED")).toBe(begin.startsWith("PAGED"));
});
