// A few dozen of the trials of `npm run campaign`; each seed is one system call that fails or is the last.

import { expect, it } from "vitest";
import { seedOf } from "./harness.ts";
import { canInject, trialOf, tryCall } from "./syscalls.ts";

const TRIALS = 24;

it.skipIf(!canInject())(
  `${TRIALS} system calls of a control plane that fail or are its last: no run is lost, none told wrong (needs strace)`,
  { timeout: 900_000 },
  async () => {
    const seed = seedOf("syscalls") * 1_000;
    const wrong: string[] = [];
    for (let k = 0; k < TRIALS; k++) {
      const trial = trialOf(seed + k);
      const why = await tryCall(trial);
      if (why !== null) wrong.push(`${JSON.stringify(trial)}: ${why}`);
    }
    expect(wrong).toEqual([]);
  },
);
