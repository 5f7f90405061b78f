import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { readPlainFile } from "../../src/secrets/store-file.ts";

it("a file is read to its end, even if its reported size is smaller", () => {
  // The kernel reports a size of 0 for these files.
  const file = "/proc/self/maps";
  const first = readFileSync(file, "utf8").split("\n")[0]!;
  const text = readPlainFile(file, { bytesMax: 1024 * 1024, ownersAlone: false });
  expect(text?.length).toBeGreaterThan(4_096);
  expect(text?.split("\n")[0]).toBe(first);
  expect(() => readPlainFile(file, { bytesMax: 1_024, ownersAlone: false })).toThrow("larger than 1 KiB");
});
