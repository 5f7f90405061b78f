// Data on its way to a machine: a real sshd, the agent, rsync, and tar with parts of files if rsync is missing.
// @module-tag needs/sshd
// @module-tag needs/rsync

import { createHash, randomBytes } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { addData } from "../../src/files/data/add.ts";
import { readManifest } from "../../src/files/data/store.ts";
import type { MachineAccess } from "../../src/providers/host.ts";
import type { MachineHandle } from "../../src/providers/provider.ts";
import type { MachineLink } from "../../src/ssh/machine-link.ts";
import { RemoteAccess } from "../../src/ssh/remote-access.ts";
import { sendData } from "../../src/steps/launch/place-data.ts";
import type { StepContext } from "../../src/steps/step.ts";
import { gate, runner } from "../runner/programs.ts";
import { never, TestMachine } from "./machine.ts";

let machine: TestMachine;
let link: MachineLink;
let access: MachineAccess;
let top: string;
let set: string;
let told: Record<string, unknown>[];
let stop: AbortController;

beforeAll(async () => void (machine = await TestMachine.start()), 60_000);
afterAll(() => machine.close());
beforeEach(() => {
  machine.endpoints = [machine.sshd.endpoint];
  rmSync(machine.base, { recursive: true, force: true });
  top = realpathSync(mkdtempSync(join(tmpdir(), "svc-send-")));
  set = join(top, "set");
  mkdirSync(join(set, "deep/er"), { recursive: true });
  told = [];
  stop = new AbortController();
  link = machine.link();
  const handle = { v: 1, provider: "podhost", id: "1", name: machine.name, extra: { home: machine.home } };
  access = new RemoteAccess(
    handle as unknown as MachineHandle,
    () => link,
    runner,
    () => gate.text,
  );
});
afterEach(() => {
  link.close();
  rmSync(top, { recursive: true, force: true });
});

async function add(...paths: string[]) {
  const options = { home: join(top, "home"), now: 0, signal: never };
  await addData({ name: "set", paths: paths.length > 0 ? paths : [set], followLinks: false }, options);
  return readManifest(options.home, "set");
}
const context = () =>
  ({
    jobId: "j",
    node: 0,
    attempt: 1,
    effectId: 1,
    signal: stop.signal,
    firstFailedAt: () => null,
    progress: (detail) => void told.push(detail),
  }) satisfies StepContext;
const send = async (data: Awaited<ReturnType<typeof add>>) => sendData([data], access, machine.name, context());
const there = (path: string): string => join(machine.base, "data/set", path);
const files = (): string[] =>
  readdirSync(there(""), { recursive: true, encoding: "utf8" })
    .filter((path) => statSync(there(path)).isFile())
    .toSorted();
const sha = (path: string): string => createHash("sha256").update(readFileSync(path)).digest("hex");

/**
 * A machine with one endpoint, whose owner pays for traffic: svc does not use rsync, which needs a connection of its
 * own.
 */
function metered(): void {
  machine.endpoints = [{ ...machine.sshd.endpoint, metered: true }];
}

describe.each([
  ["with rsync", false],
  ["without rsync", true],
])("data, %s", (_, isMetered) => {
  beforeEach(() => {
    if (isMetered) metered();
    writeFileSync(join(set, "a b'c\nd"), "odd name");
    writeFileSync(join(set, "deep/er/small"), "x".repeat(5_000));
    writeFileSync(join(set, "large"), randomBytes(12 * 1024 * 1024));
  });

  it("arrives completely, is compared there, and is sent once", async () => {
    symlinkSync("deep/er/small", join(set, "link"));
    symlinkSync("deep", join(set, "folder"));
    const data = await add();
    const detail = await send(data);
    expect(detail).toMatchObject({ data: { set: { files: 5, bytes: data.bytes, sha256: data.sha256 } } });
    expect(files()).toEqual(["a b'c\nd", "deep/er/small", "folder/er/small", "large", "link"]);
    for (const [path, , sha256] of data.files) expect([path, sha(there(path))]).toEqual([path, sha256]);
    expect(new Set(told.map((t) => t["doing"]))).toEqual(new Set(["sending the data set", "verifying the data set"]));
    expect(told.at(-1)).toMatchObject({ files: 5, bytes: data.bytes, files_total: 5, bytes_total: data.bytes });
    const again = (await send(data)) as { data_sent_bytes: Record<string, number> };
    expect(again.data_sent_bytes["set"]).toBeLessThan(100_000);
  });

  it("is sent again if its content is wrong, even with the right size and time", async () => {
    const data = await add();
    await send(data);
    const { mtime } = statSync(there("large"));
    const { utimesSync } = await import("node:fs");
    for (const path of ["large", "deep/er/small"]) {
      const times = path === "large" ? mtime : statSync(there(path)).mtime;
      writeFileSync(there(path), Buffer.alloc(statSync(there(path)).size));
      utimesSync(there(path), times, times);
    }
    // The first attempt may notice the damage only after everything is sent; the damaged file is then removed, and the
    // next attempt sends it.
    await send(data).catch((e: unknown) =>
      expect(e).toMatchObject({ code: "sync_failed", message: expect.stringContaining("content") as string }),
    );
    await send(data);
    for (const [path, , sha256] of data.files) expect(sha(there(path))).toBe(sha256);
  });
});

it("Data is stored under the names of its paths if it has several", async () => {
  writeFileSync(join(set, "deep/er/x"), "1");
  writeFileSync(join(top, "labels.csv"), "2");
  await send(await add(join(set, "deep"), join(top, "labels.csv")));
  expect(files()).toEqual(["deep/er/x", "labels.csv"]);
});

it("a large file continues where a lost connection left it", async () => {
  metered();
  writeFileSync(join(set, "large"), randomBytes(24 * 1024 * 1024));
  const data = await add();
  const cut = context();
  cut.progress = (detail) => {
    told.push(detail);
    if (detail["doing"] === "sending the data set" && Number(detail["bytes"]) > 8 * 1024 * 1024)
      stop.abort(new Error("cut"));
  };
  await expect(sendData([data], access, machine.name, cut)).rejects.toThrowError("cut");
  expect(existsSync(there("large"))).toBe(false);
  stop = new AbortController();
  const { data_sent_bytes } = (await send(data)) as { data_sent_bytes: Record<string, number> };
  expect(data_sent_bytes["set"]).toBeLessThan(17 * 1024 * 1024);
  expect([files(), sha(there("large"))]).toEqual([["large"], data.files[0]![2]]);
});

it("Data is not sent repeatedly if the local file has changed with its size and times unchanged", async () => {
  writeFileSync(join(set, "a"), "1");
  const data = await add();
  data.files[0]![2] = "0".repeat(64);
  await expect(send(data)).rejects.toMatchObject({
    code: "data_changed",
    message: expect.stringContaining("a has different content") as string,
  });
  expect(existsSync(there("a"))).toBe(false);
});

it("The upload ends before anything is sent if the data has changed here, or does not fit there", async () => {
  writeFileSync(join(set, "a"), "1");
  const data = await add();
  writeFileSync(join(set, "a"), "2");
  await expect(send(data)).rejects.toMatchObject({
    code: "data_changed",
    message: expect.stringContaining("a has changed") as string,
  });
  const greet = access.greet.bind(access);
  access.greet = async (signal) => ({ ...(await greet(signal)), disk_free_bytes: 1_000 });
  await expect(send(await add())).rejects.toMatchObject({ code: "data_too_large" });
  expect(existsSync(there("a"))).toBe(false);
});
