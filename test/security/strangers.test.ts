// Attacks by another user of this computer, with all rights of a user: the tests switch to the uid of "nobody", so they
// need root.

import {
  chmodSync,
  chownSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { clientOf } from "../../sdk/control-planes.ts";
import { storeOfHome } from "../../src/cli/store.ts";
import type { Io } from "../../src/cli/io.ts";
import { openStore } from "../../src/store/database.ts";

const NOBODY = 65534;

let top: string;
beforeEach(() => {
  top = mkdtempSync(join(tmpdir(), "svc-strangers-"));
});
afterEach(() => rmSync(top, { recursive: true, force: true }));

describe("another user of this computer", { tags: "needs/root" }, () => {
  it.each([
    ["belongs to another user", NOBODY, 0o755],
    ["can be written by every user", 0, 0o777],
  ])("gets nothing written through a home that %s", async (why, uid, mode) => {
    const home = join(top, "home");
    const mine = join(top, "mine");
    mkdirSync(home);
    writeFileSync(mine, "as it was", { mode: 0o644 });
    symlinkSync(mine, join(home, "control-plane.log"));
    chownSync(home, uid, uid);
    chmodSync(home, mode);
    await expect(clientOf(home)).rejects.toMatchObject({
      code: "home_unusable",
      message: expect.stringContaining(why) as string,
    });
    expect(readFileSync(mine, "utf8")).toBe("as it was");
    expect(statSync(mine).mode & 0o777).toBe(0o644);
  });

  it.each<[string, (home: string) => void]>([
    ["belongs to another user", (home) => chownSync(home, NOBODY, NOBODY)],
    ["can be written by every user", (home) => chmodSync(home, 0o777)],
    ["holds svc.db of another user", (home) => chownSync(join(home, "svc.db"), NOBODY, NOBODY)],
    ["holds control-plane.json of another user", (home) => plant(join(home, "control-plane.json"))],
  ])("names no machine and no command to a reading command by a home that %s", async (why, change) => {
    const home = join(top, "home");
    mkdirSync(home, { mode: 0o700 });
    const { db } = await openStore(home, { newInstallationId: "i", now: 0 });
    db.close();
    const io = { home: () => home, env: {} } as unknown as Io;
    (await storeOfHome(io))?.close();
    change(home);
    await expect(storeOfHome(io)).rejects.toMatchObject({
      code: "home_unusable",
      message: expect.stringContaining(why) as string,
    });
  });
});

it("a symlink in place of the SDK's log is not followed, in a home of one's own as well", async () => {
  const home = join(top, "home");
  const mine = join(top, "mine");
  mkdirSync(home, { mode: 0o770 });
  writeFileSync(mine, "as it was", { mode: 0o644 });
  symlinkSync(mine, join(home, "control-plane.log"));
  await expect(clientOf(home)).rejects.toMatchObject({ code: "home_unusable" });
  expect([readFileSync(mine, "utf8"), statSync(mine).mode & 0o777]).toEqual(["as it was", 0o644]);
});

function plant(file: string): void {
  writeFileSync(file, "{}");
  chownSync(file, NOBODY, NOBODY);
}
