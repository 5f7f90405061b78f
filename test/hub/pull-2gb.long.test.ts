// A model of 2 GB, pulled while its connection is cut five times.

import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { largeContent } from "./double.ts";
import { Pulling } from "./pulling.ts";

const GIB = 1024 ** 3;
let p: Pulling;
beforeEach(async () => {
  p = await new Pulling().open();
});
afterEach(() => p.close());

it("2 GB arrive completely over a connection that is cut five times, and no byte is requested twice except the last mebibytes", async () => {
  const large = largeContent(2 * GIB);
  p.hub.commit("ann/large", { "config.json": "{}", "model.safetensors": large });
  p.hub.faults.cutAfter = [0.3 * GIB, 0.2 * GIB, 0.5 * GIB, 1_000, 0.4 * GIB].map(Math.floor);
  const { path, bytes } = await p.pull("ann/large");
  expect(bytes).toBe(large.size + 2);
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(join(path, "model.safetensors"), { highWaterMark: 1024 * 1024 }))
    hash.update(chunk as Buffer);
  expect(hash.digest("hex")).toBe(large.sha256);
  const begins = p.hub.filesAsked("cdn").map((a) => Number(/^bytes=(\d+)-$/.exec(a.range ?? "")?.[1] ?? 0));
  expect(begins).toHaveLength(6);
  const cuts = [0, 0.3, 0.2, 0.5, 0, 0.4].map((gib) => gib * GIB);
  for (let i = 1; i < begins.length; i++) {
    const gained = (begins[i] ?? 0) - (begins[i - 1] ?? 0);
    // The buffers' content at the moment of each cut is downloaded again.
    expect(gained).toBeGreaterThanOrEqual((cuts[i] ?? 0) - 32 * 1024 * 1024);
  }
  expect(p.pulls.list()[0]).toMatchObject({ status: "succeeded", bytes_done: bytes });
});
