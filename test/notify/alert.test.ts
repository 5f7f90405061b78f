// `svc.alert`: from a script to a message, with known secrets masked.

import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { expect, it } from "vitest";
import { parseLog, type LogRecord } from "../../src/domain/log-stream.ts";
import { Redactor } from "../../src/domain/redaction.ts";
import { ALERTS_MAX, DurableStorySink } from "../../src/engine/run-log-writer.ts";
import { NotifyWorld, Receiver } from "./world.ts";

const SECRET = "canary-5f2d8a91c7";
const parsed = (bytes: Buffer): LogRecord[] =>
  parseLog(bytes, { mark: "m", redactor: new Redactor([SECRET]), final: true }).records;

it("a script's alert arrives as a record, cut to a line that pipes accept, and an eleventh in a minute does not", () => {
  const script = `import svc\nsvc.alert("the loss is odd: ${SECRET}")\nsvc.alert("é" * 9000)\nfor n in range(20): svc.alert(str(n))\nsvc.alert("")\n`;
  const env = {
    ...process.env,
    SVC_METRICS_MARK: "m",
    SVC_RECORDS: "",
    PYTHONPATH: join(import.meta.dirname, "../../python"),
  };
  const out = execFileSync("python3", ["-c", script], { env, stdio: ["ignore", "pipe", "ignore"] });
  const alerts = parsed(out).filter((record) => record.kind === "alert");
  expect(alerts[0]?.message).toBe("the loss is odd: ***redacted***");
  expect(alerts[1]?.message).toMatch(/^é{100,}$/);
  expect(alerts.slice(2).map(({ message }) => message)).toEqual(["0", "1", "2", "3", "4", "5", "6", "7"]);
  for (const line of out.toString("latin1").split("\n")) expect(line.length).toBeLessThan(4_096);
});

it("text that is not an alert stays text", () => {
  for (const text of ['""', "7", "null", `"${"x".repeat(2_001)}"`])
    expect(parsed(Buffer.from(`\x1esvc1:m {"k":"a","r":0,"text":${text}}\n`))).toEqual([]);
});

it("alerts of several ranks become one notice, and a flood of them a bounded number", async () => {
  const world = await NotifyWorld.open();
  await world.h.create();
  const sink = new DurableStorySink({ engine: world.h.engine, home: world.h.home, hint: () => undefined });
  const alert = (message: string, rank: number): LogRecord => ({ kind: "alert", message, rank, offset: 0 });
  const records = [
    alert("odd", 0),
    alert("odd", 1),
    alert("odd", 2),
    ...Array.from({ length: 50 }, (_, n) => alert(`${n}`, 0)),
  ];
  const from = { sourceOffset: 0, samplesOffset: 0 };
  const to = { sourceOffset: 10, samplesOffset: 0 };
  await sink.append({
    jobId: "job1",
    node: 0,
    stream: "run",
    text: Buffer.alloc(0),
    records,
    samples: [],
    from,
    to,
    times: [],
  });
  const { notices } = world.service.notices({ limit: 50 });
  expect(notices).toHaveLength(ALERTS_MAX);
  expect(notices.at(-1)).toMatchObject({ kind: "alert", title: "job1 reports: odd", text: "odd" });
  await sink.close();
});

it("no payload holds a secret that svc knows, wherever it came from", async () => {
  const [world, receiver] = [await NotifyWorld.open(), await Receiver.open()];
  await world.addWebhook("hook", receiver, "the key of the hook");
  world.secrets.push(SECRET);
  world.notifier.begin();
  await world.tell(`reports: ${SECRET} and ${Buffer.from(SECRET).toString("base64")}`);
  await receiver.received(1);
  const { body } = receiver.got[0]!;
  expect(body).toContain("***redacted***");
  for (const form of [SECRET, Buffer.from(SECRET).toString("base64"), "the key of the hook"])
    expect(body).not.toContain(form);
});

it("no payload holds a part of a secret, wherever a text of it is cut", async () => {
  const [world, receiver] = [await NotifyWorld.open(), await Receiver.open()];
  await world.addWebhook("hook", receiver);
  world.secrets.push(SECRET);
  world.notifier.begin();
  // A title is cut after 200 characters, a cause after 1,000. They were stored before the secret was known.
  for (const [n, at] of [150, 170, 180, 960, 980, 990].entries()) {
    await world.tell(`${"x".repeat(at)} ${SECRET}`);
    await receiver.received(n + 1);
  }
  for (const { body } of receiver.got) expect(body).not.toContain(SECRET.slice(0, 6));
});
