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
});
