// The announcement that a machine is taken back: the script hears TERM, and nothing that goes wrong there disturbs a run.

import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import type { RunnerSpec } from "../../src/schemas/runner.ts";
import { finish, startRun, until } from "./harness.ts";

interface Metadata {
  /** Its present answer. */
  says: string;
  status: number;
  asked: number;
  server: Server;
  notice: NonNullable<RunnerSpec["notice"]>;
}

async function metadata(graceSeconds = 20): Promise<Metadata> {
  const server = createServer((request, response) => {
    it.asked += 1;
    const known = request.url === "/preempted?x=1" && request.headers["metadata-flavor"] === "Google";
    response.writeHead(known ? it.status : 403).end(it.says);
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const headers = { "Metadata-Flavor": "Google" };
  const notice = { host: "127.0.0.1", port, path: "/preempted?x=1", headers, says: "TRUE", grace_seconds: graceSeconds };
  const it: Metadata = { says: "FALSE", status: 200, asked: 0, server, notice };
  return it;
}

const SAVES = "trap 'echo saved; exit 0' TERM; echo up; while :; do sleep 0.05; done";
async function asked(it: Metadata, times: number): Promise<void> {
  await expect.poll(() => it.asked).toBeGreaterThanOrEqual(times);
}

test("A script whose machine is taken back saves, and its end says why", async () => {
  const it = await metadata();
  const run = await startRun(SAVES, { notice: it.notice });
  await until(run, "up");
  await asked(it, 2);
  it.says = "TRUE\n";
  const { status, log } = await finish(run);
  expect(status).toMatchObject({ phase: "exited", preempted: true, stopped: true, exit_code: 0 });
  expect(log.toString()).toContain("saved\n");
});

test("A script that ignores TERM is killed after the grace of the notice, not of the run", async () => {
  const it = await metadata(0.3);
  const run = await startRun("trap '' TERM; echo up; while :; do sleep 0.05; done", {
    notice: it.notice,
    stop_grace_seconds: 3_600,
  });
  await until(run, "up");
  it.says = "TRUE";
  const { status } = await finish(run);
  expect(status).toMatchObject({ preempted: true, exit_code: 137, signal: "SIGKILL" });
});

test("An answer without the announcement does not end the run", async () => {
  const it = await metadata();
  const run = await startRun("echo up; while [ ! -e go ]; do sleep 0.05; done; echo done; exit 3", { notice: it.notice });
  await until(run, "up");
  Object.assign(it, { says: "TRUE", status: 500 });
  await asked(it, it.asked + 2);
  Object.assign(it, { says: "TRUELY", status: 200 });
  await asked(it, it.asked + 2);
  await run.host.stop(20, new AbortController().signal);
  expect((await finish(run)).status).toMatchObject({ preempted: false, stopped: true });
});

test("A missing metadata server does not disturb the run", async () => {
  const it = await metadata();
  await new Promise<void>((resolve) => {
    it.server.closeAllConnections();
    it.server.close(() => resolve());
  });
  const run = await startRun("echo up; sleep 0.5; echo done", { notice: it.notice });
  const { status, log } = await finish(run);
  expect(status).toMatchObject({ exit_code: 0, preempted: false });
  expect(log.toString()).toBe("up\ndone\n");
});
