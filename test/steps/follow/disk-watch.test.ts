// A rented machine whose disk fills up under a run.

import { afterAll, afterEach, beforeEach, expect, test } from "vitest";
import type { RunLook } from "../../../src/providers/host.ts";
import type { DiskFault } from "../../../src/schemas/runner.ts";
import { FullDisk } from "../../../src/steps/follow/disk-watch.ts";
import type { RunServices } from "../../../src/steps/run-services.ts";
import type { StepContext } from "../../../src/steps/step.ts";
import { removeHomes } from "../../engine/harness.ts";
import { Rent } from "../rent.ts";
import { noteOfMachine } from "../../../src/store/stored-note.ts";

let rent: Rent;
let said: string[];
let disk: FullDisk;
beforeEach(async () => {
  rent = await Rent.open();
  said = [];
  const name = rent.name(1);
  await rent.ledger.intend({ name, jobId: "job1", node: 0, ordinal: 1, provider: "podhost", horizonAt: 0 });
  const sink = { notice: async (_: string, level: string) => void said.push(level) };
  // The watch uses only these.
  const services = { ...rent.ports, sink } as unknown as RunServices;
  disk = new FullDisk(services, { jobId: "job1", node: 0 } as StepContext, name);
});
afterEach(() => void rent.h.store.db.close());
afterAll(removeHomes);

const look = (disk_free: number | null, disk_fault: DiskFault | null = null): RunLook =>
  ({ disk_free, disk_fault }) as RunLook;
const note = () => {
  const row = rent.ledger.row(rent.name(1));
  return row ? noteOfMachine(row) : null;
};

test("A full disk is reported once, and again when there is room", async () => {
  for (const free of [5e9, 0, 4096, 0]) await disk.saw(look(free), true);
  expect(said).toEqual(["warning"]);
  expect(note()).toEqual({
    kind: "disk_full",
    message: expect.stringMatching(/machine's disk is full/) as string,
  });
  expect(disk.detail).toEqual({ disk: "full" });
  await disk.saw(look(5e9), true);
  expect([said, note(), disk.detail]).toEqual([["warning", "info"], null, {}]);
});

test("A full disk ends a stalled run after ten minutes, and never one that makes progress", async () => {
  for (let minute = 0; minute < 30; minute++) {
    await disk.saw(look(0), minute % 9 === 0);
    await rent.h.clock.advance(60_000);
  }
  await disk.saw(look(0), true);
  await rent.h.clock.advance(10 * 60_000);
  await expect(disk.saw(look(0), false)).rejects.toMatchObject({
    code: "machine_disk_full",
    message: expect.stringContaining("waits for free space"),
  });
});

test("A full disk is ignored if the free space is unknown", async () => {
  await disk.saw(look(null), false);
  await rent.h.clock.advance(60 * 60_000);
  await disk.saw(look(null), false);
  expect([said, note()]).toEqual([[], null]);
});

test.each<[DiskFault, string, RegExp, RegExp]>([
  ["EDQUOT", "machine_disk_full", /disk is full/, /free space within its quota/],
  ["ENOSPC", "machine_disk_full", /disk is full/, /waits for free space/],
  ["EROFS", "machine_unfit", /takes no bytes: it is read-only/, /takes no bytes \(it is read-only\)/],
])("A disk with free space that refuses a file with %s counts as full", async (fault, code, told, why) => {
  await disk.saw(look(5e9, fault), true);
  expect([said, note()?.message]).toEqual([["warning"], expect.stringMatching(told)]);
  await rent.h.clock.advance(9 * 60_000);
  await disk.saw(look(5e9, fault), false);
  await rent.h.clock.advance(60_000);
  await expect(disk.saw(look(null, fault), false)).rejects.toMatchObject({
    code,
    message: expect.stringMatching(why) as string,
  });
  await disk.saw(look(5e9), true);
  expect([said, note()]).toEqual([["warning", "info"], null]);
});
