// The network to a machine fails, in this computer's own time, while its run prints numbered lines: for a short time,
// and for longer than any keepalive. The run's output waits on the machine meanwhile.
// @module-tag needs/sshd
// @module-tag needs/rsync

import { expect, it } from "vitest";
import { verdict } from "./cell.ts";
import { World } from "./world.ts";

const LINES_A_SECOND = 20;
const BEFORE_AND_AFTER_SECONDS = 30;

it.concurrent.for([
  [20, "podhost"],
  [180, "market"],
  [180, "cloudvm"],
] as const)(
  "a cut of %i s on %s loses no line, doubles none, and ends no run",
  { timeout: 600_000 },
  async ([cutSeconds, provider]) => {
    const seconds = cutSeconds + BEFORE_AND_AFTER_SECONDS;
    const world = await World.start({ provider, factor: 1, seconds, lines: seconds * LINES_A_SECOND });
    try {
      world.once("log", () => world.faults.set("black_hole", cutSeconds * 1_000));
      const ending = await world.live(null, 540_000);
      expect(verdict(world, ending, ["succeeded"])).toEqual([]);
      expect(ending.logs[0]?.match(/^line /gm)).toHaveLength(world.lines);
    } finally {
      await world.close();
    }
  },
);
