import { expect, it } from "vitest";
import { seedOf } from "./harness.ts";
import { killLoop } from "./kill-loop.ts";

const KILLS = 16;

it(
  `${KILLS} kills: every run ends correctly, no byte lost or doubled, no process left`,
  { timeout: 480_000 },
  async () => {
    const { runs, attachments } = await killLoop(KILLS, seedOf("kill-loop"));
    console.log(`kill-loop: ${runs} runs, up to ${attachments} attachments of one run`);
    expect(attachments, "some run was re-attached again and again").toBeGreaterThan(1);
  },
);
