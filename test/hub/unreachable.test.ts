import { expect, it } from "vitest";
import { systemClock, type Clock } from "../../src/domain/clock.ts";
import { Pulling } from "./pulling.ts";

it("A hub that refuses the connection is told after waits of less than ten seconds, and one that answers is tried for longer", async () => {
  let waited = 0;
  const clock: Clock = {
    ...systemClock,
    monotonic: () => waited,
    setTimer: (ms, fn) => {
      waited += ms;
      return systemClock.setTimer(0, fn);
    },
  };
  const patience = { attemptsMax: 8, delayMsMin: 500, delayMsMax: 30_000, askedMsMax: 600_000 };
  const q = await new Pulling().open({ clock, patience });
  try {
    const { url } = q.hub;
    // Nothing listens on the discard port.
    q.settings.url = "http://127.0.0.1:9";
    await expect(q.pull("ann/tiny")).rejects.toMatchObject({ code: "hub_unreachable" });
    expect(waited).toBeGreaterThan(1_000);
    expect(waited).toBeLessThan(10_000);
    [waited, q.settings.url] = [0, url];
    q.hub.commit("ann/tiny", { "config.json": Buffer.from("{}") });
    q.hub.faults.down = 99;
    await expect(q.pull("ann/tiny")).rejects.toMatchObject({ code: "hub_unreachable" });
    expect(waited).toBeGreaterThan(10_000);
  } finally {
    await q.close();
  }
});
