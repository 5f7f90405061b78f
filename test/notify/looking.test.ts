// The checks for notifications that a control plane repeats.

import { expect, it } from "vitest";
import { notificationsOf } from "../../src/app/notify.ts";
import { Redactor } from "../../src/domain/redaction.ts";
import { NotifyWorld } from "./world.ts";

it("A failed read of the store ends one check, and not those after it", async () => {
  const { h } = await NotifyWorld.open();
  const reports: string[] = [];
  const made = notificationsOf({
    home: h.home,
    env: {},
    clock: h.clock,
    store: h.store,
    engine: () => h.engine,
    reads: h.reads,
    redactor: () => new Redactor([]),
    remember: () => undefined,
    learnFrom: () => undefined,
    report: (line) => void reports.push(line),
  });
  made.begin();
  await h.clock.advance(0);
  const { notifier, watch } = made;
  const look = notifier.look.bind(notifier);
  notifier.look = () => {
    throw new Error("disk I/O error");
  };
  await h.clock.advance(10_000);
  expect(reports).toEqual([expect.stringContaining("disk I/O error") as string]);
  notifier.look = look;
  let looks = 0;
  const watched = watch.look.bind(watch);
  watch.look = () => {
    looks++;
    return watched();
  };
  await h.clock.advance(20_000);
  expect(looks).toBe(2);
  await made.stop();
});
