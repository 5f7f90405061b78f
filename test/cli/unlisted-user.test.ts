// @module-tag needs/mapped-user
// Commands of a user of whom the system's list of users does not know, as in a container that runs under any user id.

import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { DEADLINE_MS } from "../deadline.ts";
import { CLI, Workplace } from "./serving.ts";

const UID = 54_321;
const PYTHON = { PYTHONPATH: join(import.meta.dirname, "../../python") };
let at: Workplace;
beforeEach(() => void (at = new Workplace()));
afterEach(() => at.close());

interface Ended {
  code: number | null;
  out: string;
  err: string;
}

/** Runs a program as the unlisted user, who owns the files of the user who runs the tests. */
function asUnlisted(env: NodeJS.ProcessEnv, program: string, ...args: string[]): Ended {
  const words = ["--user", `--map-user=${UID}`, `--map-group=${UID}`, program, ...args];
  const options = { env: { ...at.env, SVC_HOME: undefined, HOME: undefined, ...env }, cwd: at.project };
  const r = spawnSync("unshare", words, { ...options, encoding: "utf8", timeout: DEADLINE_MS });
  return { code: r.status, out: r.stdout, err: r.stderr };
}

test("Without HOME and SVC_HOME, a command says that the user's home folder is unknown", () => {
  const r = asUnlisted({}, CLI, "jobs", "--json");
  expect([r.code, JSON.parse(r.out || r.err)]).toMatchObject([1, { error: { code: "user_home_unknown" } }]);
  expect(r.out + r.err).toContain(`uid ${UID}`);
  const python = "import svc\ntry:\n    svc.reconcile()\nexcept svc.ConfigError as e:\n    print(e.code, e)";
  const p = asUnlisted(PYTHON, "python3", "-c", python);
  expect(p.out).toContain(`user_home_unknown`);
  expect(p.out).toContain(`uid ${UID}`);
});

test("With SVC_HOME alone, commands work, and the doctor says what OpenSSH refuses to do", () => {
  const env = { SVC_HOME: at.home };
  expect(asUnlisted(env, CLI, "jobs", "--json")).toMatchObject({
    code: 0,
    err: expect.stringContaining("does not exist"),
  });
  const { checks } = JSON.parse(asUnlisted(env, CLI, "doctor", "--json").out) as {
    checks: { name: string; status: string }[];
  };
  expect(checks.map(({ name }) => name)).toContain("home place");
  expect(checks.find(({ name }) => name === "ssh")).toMatchObject({ status: "warn" });
});

test("A run of an unlisted user ends well", () => {
  at.file("train.py", "import os\nprint('uid', os.getuid())\n");
  const script =
    "import svc\njob = svc.run({'entrypoint': 'train.py'})\nprint(*svc.stream(job.id), svc.wait(job.id).status)";
  const r = asUnlisted({ ...PYTHON, SVC_HOME: at.home }, "python3", "-c", script);
  expect(r.err + r.out).toContain(`uid ${UID}`);
  expect(r.out).toContain("succeeded");
});

test("`svc sim` refuses to start for a user whom sshd would not let log in", { tags: "needs/sshd" }, () => {
  const r = asUnlisted({ SVC_HOME: at.home }, CLI, "sim");
  expect([r.code, r.out]).toEqual([1, ""]);
  expect(r.err).toContain(`no entry for uid ${UID}`);
  expect(existsSync(at.home)).toBe(false);
});
