import { existsSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { DiskReserve } from "../../src/store/disk-reserve.ts";

let home: string;
beforeEach(() => void (home = mkdtempSync(join(tmpdir(), "svc-reserve-"))));
afterEach(() => rmSync(home, { recursive: true, force: true }));

it("The disk's reserve is taken, released, and taken again", () => {
  const reserve = new DiskReserve(home);
  expect([reserve.stands, reserve.restore(), reserve.stands]).toEqual([false, true, true]);
  // A file of holes would have the size, and reserve nothing.
  expect(statSync(join(home, "reserve")).blocks * 512).toBeGreaterThanOrEqual(4 * 1024 * 1024);
  reserve.spend();
  expect([reserve.stands, existsSync(join(home, "reserve"))]).toEqual([false, false]);
  expect(reserve.restore()).toBe(true);
  reserve.spendIfFull();
  expect(reserve.stands).toBe(true);
});

it("The reserve treats a removed home as a full disk: the control plane keeps ending machines", () => {
  const reserve = new DiskReserve(home);
  rmSync(home, { recursive: true });
  expect(reserve.restore()).toBe(false);
  expect(() => reserve.spendIfFull()).not.toThrow();
});
