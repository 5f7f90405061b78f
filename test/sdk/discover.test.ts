// Which programs the SDK takes for the control plane of a home.

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { chownSync, mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { findControlPlane } from "../../sdk/discover.ts";

let root: string;
let home: string;
let file: string;
let port: number;
/** What the program at that port says of itself. */
let health: object;
const server = createServer((_, answer) => void answer.end(JSON.stringify({ status: "ok", ...health })));

beforeAll(async () => {
  root = mkdtempSync(join(tmpdir(), "svc-found-"));
  // Without an address it listens on those of IPv4 and IPv6, and so on what `localhost` means.
  await new Promise<void>((done) => server.listen(0, done));
  port = (server.address() as AddressInfo).port;
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
  rmSync(root, { recursive: true });
});
beforeEach(() => {
  home = mkdtempSync(join(root, "home-"));
  file = join(home, "control-plane.json");
  health = { installation_id: "mine", home };
  name(`http://127.0.0.1:${port}`);
});

function name(url: string): void {
  writeFileSync(file, JSON.stringify({ url, pid: process.pid, started_at: "", installation_id: "mine" }));
}
const found = async (): Promise<string> => (await findControlPlane(home)).state;

test("a control plane is found by the file of its home, also through a symlink to the home", async () => {
  expect(await found()).toBe("running");
  const link = join(root, "link");
  symlinkSync(home, link);
  expect((await findControlPlane(link)).state).toBe("running");
});

test("a program that answers for another installation or another home is left alone", async () => {
  health = { installation_id: "theirs", home };
  expect(await found()).toBe("none");
  const other = join(root, "other");
  mkdirSync(other);
  health = { installation_id: "mine", home: other };
  expect(await found()).toBe("none");
});

test("a symlink in place of the file names no control plane", async () => {
  renameSync(file, join(root, "elsewhere.json"));
  symlinkSync(join(root, "elsewhere.json"), file);
  expect(await found()).toBe("none");
});

test("the file of another user names no control plane", { tags: "needs/root" }, async () => {
  chownSync(file, 65_534, 65_534);
  expect(await found()).toBe("none");
});

test.each(["localhost", "svc.example", "127.0.0.1.example"])("the name %s is not connected to", async (host) => {
  name(`http://${host}:${port}`);
  expect(await found()).toBe("none");
});
