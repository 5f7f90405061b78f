// A few dozen of the trials of `npm run campaign`; each is one system call that fails or is the last.

import { expect, it } from "vitest";
import { seedOf } from "./harness.ts";
import { trialsOf, tryCall } from "./syscalls.ts";

const TRIALS = 24;

it(
  `${TRIALS} system calls of a control plane that fail or are its last: no run is lost, none told wrong`,
  { tags: "needs/strace", timeout: 900_000 },
  async () => {
    const wrong: string[] = [];
    for (const trial of trialsOf(seedOf("syscalls")).slice(0, TRIALS)) {
      const why = await tryCall(trial);
      if (why !== null) wrong.push(`${JSON.stringify(trial)}: ${why}`);
    }
    expect(wrong).toEqual([]);
  },
);
