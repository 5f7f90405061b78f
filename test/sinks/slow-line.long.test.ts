// A slow connection, and a store that stops reading a file.

import { setTimeout as after } from "node:timers/promises";
import { expect, it } from "vitest";
import { fileOf, storeOf, turn } from "./own-server.ts";
import { MIB, noise } from "./world.ts";

const PACE = { quietMs: 3_000, bytesPerSecondMin: 100 * MIB };
/** More than the kernel's buffers hold. */
const BYTES = 32 * MIB;

it.each(["s3", "gs"] as const)("A slow line delivers a file to %s, however long that takes in all", async (scheme) => {
  const file = fileOf(noise(BYTES));
  let taken = 0;
  let length = "";
  const store = await storeOf(
    scheme,
    async (request, response) => {
      length = request.headers["content-length"] ?? "none";
      let due = MIB / 2;
      for await (const piece of request) {
        taken += (piece as Buffer).length;
        if (taken < due) continue;
        due += MIB / 2;
        await after(100);
      }
      response.setHeader("etag", `"${file.md5.toString("hex")}"`);
      response.end(JSON.stringify({ size: file.size, md5Hash: file.md5.toString("base64") }));
    },
    PACE,
  );
  const began = performance.now();
  await store.upload(file, turn());
  expect(taken).toBeGreaterThanOrEqual(BYTES);
  expect(length).toBe(String(taken));
  expect(performance.now() - began).toBeGreaterThan(PACE.quietMs);
});

it.each(["s3", "gs"] as const)("A store of %s that stops taking a file is given up", async (scheme) => {
  const store = await storeOf(scheme, (request) => void request.once("data", () => request.pause()), PACE);
  await expect(store.upload(fileOf(noise(BYTES)), turn())).rejects.toMatchObject({
    code: "sink_unreachable",
    message: expect.stringMatching(/nothing moved for \d+ s/) as string,
  });
});
