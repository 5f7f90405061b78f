// Notifications that a script declares: targets and rules of `configure`, and rules of a run, against a real control plane and a receiver
// on this computer.

import { createHmac } from "node:crypto";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { spawn } from "node:child_process";
import { afterAll, beforeAll, expect, test } from "vitest";
import { CLI, until, Workplace } from "../cli/serving.ts";
import { DEADLINE_MS } from "../deadline.ts";
import { gathered } from "../gathered.ts";

const ROOT = join(import.meta.dirname, "../..");
const KEY = "a-key-that-nobody-else-has";
const at = new Workplace();
const got: { headers: IncomingHttpHeaders; body: string }[] = [];
const receiver = createServer((request, response) => {
  let body = "";
  request.setEncoding("utf8").on("data", (part: string) => (body += part));
  request.on("end", () => {
    got.push({ headers: request.headers, body });
    response.end();
  });
});
let url = "";

beforeAll(async () => {
  at.env["SVC_BIN"] = CLI;
  at.env["PYTHONPATH"] = join(ROOT, "python");
  at.env["HOOK_KEY"] = KEY;
  at.file("train.py", "import svc, time\nsvc.log({'loss': 3})\nsvc.log({'loss': 11})\ntime.sleep(600)\n");
  await new Promise<void>((up) => receiver.listen(0, "127.0.0.1", up));
  url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/hook`;
  await at.serve();
});
afterAll(async () => {
  await at.close();
  receiver.closeAllConnections();
  receiver.close();
});

async function ran(program: string, ...args: string[]): Promise<unknown> {
  const child = spawn(program, args, { env: at.env, cwd: at.project, stdio: ["ignore", "pipe", "pipe"] });
  const { out, err, exited } = gathered(child);
  expect(await exited, err()).toBe(0);
  return JSON.parse(out());
}

const scripts = {
  Python: (): Promise<unknown> =>
    ran(
      "python3",
      "-c",
      `import json, svc
def refused(call, *args, **given):
    try:
        call(*args, **given)
    except svc.SvcError as error:
        return [field for field, _ in error.errors]
hook = {"kind": "webhook", "url": ${JSON.stringify(url)}, "secret_ref": "env://HOOK_KEY", "allow_private": True}
wrong = []
for given in ({"rules": ["loss ~ 3"]}, {"targets": {"hook": {**hook, "allow_private": False}}}, {"targets": {"phone": {"kind": "ntfy", "topic": "a b"}}}):
    svc.configure({"notifications": given})
    wrong.append(refused(svc.wait, "x"))
svc.configure({"notifications": {"targets": {"hook": hook}, "rules": ["never > 5"]}})
wrong.append(refused(svc.run, svc.Task("train.py"), notify=["waiting 5m", "loss => 3"]))
job = svc.run(svc.Task("train.py"), label="python", notify=["loss > 10, stop"], wait=True)
print(json.dumps({"wrong": wrong, "status": job.status, "error": job.error.code, "notify": job.spec["notify"]}))`,
    ),
  TypeScript: (): Promise<unknown> =>
    ran(
      process.execPath,
      "--input-type=module",
      "-e",
      `import { configure, run, wait } from ${JSON.stringify(join(ROOT, "sdk/index.ts"))};
const refused = (p) => p.then(() => null, (e) => (e.errors ?? []).map(({ field }) => field));
const hook = { kind: "webhook", url: ${JSON.stringify(url)}, secret_ref: "env://HOOK_KEY", allow_private: true };
const wrong = [];
try { configure({ registry: { notifications: { rules: ["loss ~ 3"] } } }) } catch (e) { wrong.push(e.errors.map(({ field }) => field)) }
for (const targets of [{ hook: { ...hook, allow_private: false } }, { phone: { kind: "ntfy", topic: "a b" } }]) {
  configure({ registry: { notifications: { targets } } });
  wrong.push(await refused(wait("x")));
}
configure({ registry: { notifications: { targets: { hook }, rules: ["never > 5"] } } });
wrong.push(await refused(run({ task: { entrypoint: "train.py" }, notify: ["waiting 5m", "loss => 3"] })));
const job = await run({ task: { entrypoint: "train.py" }, label: "typescript", notify: ["loss > 10, stop"], wait: true });
console.log(JSON.stringify({ wrong, status: job.status, error: job.error.code, notify: job.spec.notify }));`,
    ),
};

test.each(["Python", "TypeScript"] as const)(
  "A target and rules that %s declares are refused by their field when wrong, and a run's own rule reports and ends it",
  { timeout: 4 * DEADLINE_MS },
  async (language) => {
    got.length = 0;
    expect(await scripts[language]()).toEqual({
      wrong: [
        ["registry.notifications.rules[0]"],
        ["registry.notifications.targets.hook.url"],
        ["registry.notifications.targets.phone.topic"],
        ["spec.notify[1]"],
      ],
      status: "cancelled",
      error: "stopped_by_rule",
      notify: ["loss > 10, stop"],
    });
    await until(() => got.some(({ body }) => body.includes('"kind":"metric"')), "the message about the rule");
    const { headers, body } = got.find((each) => each.body.includes('"kind":"metric"')) ?? got[0]!;
    expect(JSON.parse(body)).toMatchObject({
      kind: "metric",
      title: `${language.toLowerCase()} meets the rule loss > 10, stop`,
    });
    const signed = createHmac("sha256", KEY)
      .update(`${String(headers["svc-timestamp"])}.${body}`)
      .digest("hex");
    expect(headers["svc-signature"]).toBe(`v1=${signed}`);
    expect(body).not.toContain(KEY);
    const { out } = at.svc("notify", "--json");
    expect(JSON.parse(out)).toMatchObject({
      targets: [{ name: "hook", from: "registry" }],
      registry_rules: ["never > 5"],
    });
    expect(at.svc("notify", "rm", "hook").err).toMatch(/configure\(\)/);
  },
);
