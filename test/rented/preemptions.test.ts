// @module-tag needs/sshd
// @module-tag needs/rsync

import { describe, expect, it } from "vitest";
import { preemptions } from "./preemptions.ts";

describe.concurrent("a job whose machines are taken again and again", () => {
  it.for([1, 2, 3])("has the checkpoints of an undisturbed run (seed %d)", async (seed) => {
    const { wrong, preempted, dir } = await preemptions(seed, 3);
    expect(wrong, `${dir}`).toEqual([]);
    expect(preempted).toBe(3);
  });
});
