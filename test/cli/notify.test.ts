// `svc notify` as a person uses it: real commands, with and without a control plane, and a receiver on this computer.

import { createHmac } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { DEADLINE_MS } from "../deadline.ts";
import { until, Workplace } from "./serving.ts";

const KEY = "a-key-that-nobody-else-has";
const LONG_MS = 4 * DEADLINE_MS;
const at = new Workplace();
const got: { signature: string; stamp: string; body: string }[] = [];
let status = 200;
const receiver = createServer((request, response) => {
  let body = "";
  request.setEncoding("utf8").on("data", (part: string) => (body += part));
  request.on("end", () => {
    const { "svc-signature": signature, "svc-timestamp": stamp } = request.headers;
    got.push({ signature: String(signature), stamp: String(stamp), body });
    response.writeHead(status).end();
  });
});
let hook = "";

beforeAll(async () => {
  await new Promise<void>((up) => receiver.listen(0, "127.0.0.1", up));
  hook = `url=http://127.0.0.1:${(receiver.address() as AddressInfo).port}/hook`;
});
afterAll(async () => {
  await at.close();
  receiver.closeAllConnections();
  receiver.close();
});

/** Runs `svc notify` to its end, with this standard input; the receiver answers meanwhile. */
async function notify(args: readonly string[], input = ""): Promise<{ code: number | null; out: string; err: string }> {
  const { child, out, err, exited } = at.start("notify", ...args);
  child.stdin?.end(input);
  return { code: await exited, out: out(), err: err() };
}

it(
  "A home without a control plane has its first rule and no target, and keeps what is set",
  { timeout: LONG_MS },
  async () => {
    expect(await notify([])).toMatchObject({
      code: 0,
      out: "",
      err: expect.stringMatching(/no target.*\nrule: waiting 30m\n/s),
    });
    expect(await notify(["rules", "loss > 10", "loss is nan, stop"])).toEqual({
      code: 0,
      out: "loss > 10\nloss is nan, stop\n",
      err: "",
    });
    expect(await notify(["history"])).toEqual({ code: 0, out: "", err: "svc has not sent anything yet.\n" });
    expect((await notify(["add", "desk", "desktop", "events=failed,stuck"])).code).toBe(0);
    expect((await notify(["list"])).out).toMatch(/^desk\tdesktop\t0\t/);
  },
);

it(
  "A target gets its secret from standard input, a test message, and the message of a run's end",
  { timeout: LONG_MS },
  async () => {
    const served = await at.serve();
    const added = await notify(["add", "hook", "webhook", hook, "allow_private=true", "secret"], `${KEY}\n`);
    expect(added).toEqual({ code: 0, out: "", err: "Saved hook. `svc notify test hook` sends a test message.\n" });
    expect(readFileSync(join(at.home, "credentials.json"), "utf8")).toContain(KEY);
    const listed = await notify(["list", "--json"]);
    expect(JSON.parse(listed.out)).toMatchObject({
      targets: [
        { name: "desk", settings: { events: ["failed", "stuck"] } },
        { name: "hook", kind: "webhook", has_secret: true, from: "home" },
      ],
      rules: ["loss > 10", "loss is nan, stop"],
      registry_rules: [],
    });
    expect(listed.out).not.toContain(KEY);

    expect(await notify(["test", "hook"])).toMatchObject({
      code: 0,
      err: expect.stringMatching(/^hook has accepted a test message after \d+\.\d s\.\n$/),
    });
    const [{ signature, stamp, body }] = got as [(typeof got)[number]];
    expect(signature).toBe(`v1=${createHmac("sha256", KEY).update(`${stamp}.${body}`).digest("hex")}`);

    await notify(["rm", "desk"]);
    at.file("train.py", "print('done')\n");
    const id = await at.submit(served, "train.py");
    await until(() => got.length > 1, "the message of the run's end");
    expect(JSON.parse(got[1]?.body ?? "")).toMatchObject({ kind: "finished", run: { id } });

    status = 500;
    const failed = await notify(["test", "hook"]);
    expect([failed.code, failed.err]).toEqual([1, expect.stringMatching(/did not reach the target hook.*500/)]);
    const { out } = await notify(["history"]);
    const rows = out
      .trimEnd()
      .split("\n")
      .map((line) => line.split("\t").slice(1, 5).join(" "));
    expect(rows).toEqual([
      "hook gave_up 1 svc: a test message",
      expect.stringMatching(/^hook sent 1 .*succeeded/),
      "hook sent 1 svc: a test message",
    ]);
    expect(JSON.parse((await notify(["history", "--json"])).out)).toMatchObject({
      deliveries: [
        { state: "gave_up", kind: "test" },
        { state: "sent", kind: "finished", job_id: id },
        { state: "sent" },
      ],
    });

    expect(await notify(["rules", "none"])).toEqual({ code: 0, out: "", err: "There are no rules.\n" });
    expect(await notify(["rm", "hook"])).toEqual({ code: 0, out: "", err: "Removed hook.\n" });
    expect(await notify(["test", "hook"])).toMatchObject({
      code: 3,
      err: expect.stringContaining("no notification target named hook"),
    });
    expect(readFileSync(join(at.home, "credentials.json"), "utf8")).not.toContain(KEY);
  },
);

it.each([
  [["send"], "Unknown action `svc notify send`.\nUse list, add, test, rm, rules, history.\n"],
  [["list", "hook"], "`svc notify list` takes no further arguments.\n`svc notify list` lists everything.\n"],
  [["test"], "`svc notify test` needs NAME.\n`svc notify` lists the targets.\n"],
  [
    ["add", "phone"],
    /^`svc notify add` needs NAME and KIND\.\nWrite `svc notify add NAME KIND`, where KIND is ntfy, slack, /,
  ],
  [["add", "phone", "pager"], /^Unknown kind pager\.\nWrite `svc notify add NAME KIND`, where KIND is ntfy, slack, /],
  [["add", "phone", "ntfy"], /topic is required\.\n/],
  [["add", "phone", "ntfy", "topic"], /^topic is not KEY=VALUE\.\n/],
  [["add", "cmd", "command"], /argv must name a program\.\n/],
  [
    ["add", "cmd", "command", "argv=/root/n.sh", "now"],
    /^A command target has no settings such as argv=[^]*`svc notify add NAME command \/root\/n\.sh now`\. Nothing was changed\.\n/,
  ],
  [
    ["add", "h", "webhook", "url=https://example.com", "port=4"],
    /A target of the kind webhook has no setting port\.\nIt has url, secret_ref, events, allow_private, secret\. Nothing was changed\.\n/,
  ],
  [
    ["add", "h", "ntfy", "topc=x"],
    /A target of the kind ntfy has no setting topc\.\nDid you mean topic\? It has url, topic, /,
  ],
  [
    ["add", "h", "webhook", "url=https://example.com", "allow_private=yes"],
    /allow_private must be true or false, not text\.\n/,
  ],
  [
    ["add", "h", "webhook", "url=http://example.com"],
    /target\.url must begin with https:\/\/, unless allow_private=true allows an address of this network\.\n/,
  ],
  [["add", "m", "email", "host=h", "port=abc", "from=a@b", "to=c@d"], /port must be a (whole )?number, not text\.\n/],
  [
    ["add", "m", "email", "host=h", "from=a@b", "to=c@d", "events=finished,boom"],
    /events\[1\] must be one of finished, failed/,
  ],
  [["add", "m", "email", "host=h", "from=a@b", "to=c@d", "secret=hush"], /^A secret on the command line is visible/],
  [["add", "team", "slack"], /^The secret of the slack target is empty\.\nIt is read from standard input: /],
  [["rules", "loss <> 3"], /rules\[0\] would watch a metric named `loss <`: the operators are >, >=, < and <=, /],
  [["rules", "waiting 5m", "loss ~ 3"], /rules\[1\] is not a rule, such as `waiting 30m`[^(]*\.\n/],
] as const)("%j is wrong usage and says why in plain words, once", { timeout: LONG_MS }, async (args, why) => {
  const { code, out, err } = await notify(args);
  expect([code, out]).toEqual([2, ""]);
  expect(err).toMatch(why);
  expect(err).not.toMatch(/hush|Invalid|Too small|Unrecognized|NaN/);
});
