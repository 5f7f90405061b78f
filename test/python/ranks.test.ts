import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { hear } from "../../bench/lib/ranks.ts";

for (const into of ["file", "pipe"] as const) {
  test(`every record of eight ranks with progress bars on one ${into} is read, and none is invented`, async () => {
    const folder = mkdtempSync(join(tmpdir(), "svc-ranks-"));
    try {
      const heard = await hear({ ranks: 8, recordsEach: 2_000, into, python: "python3", folder });
      expect(heard).toMatchObject({ lost: 0, invented: 0, textMissing: 0 });
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
}
