// Writes the archive of a debug dump. The texts are in a temporary folder meanwhile.

import { createWriteStream, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGzip } from "node:zlib";
import { SvcError, systemCode } from "../../../errors/index.ts";
import { tarOf } from "../../../files/tar-writer.ts";

/** Returns the size of the archive in bytes. Throws `command_unavailable` if a file of that name exists. */
export async function writeArchive(contents: Readonly<Record<string, string>>, target: string): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), "svc-dump-"));
  try {
    const files = Object.entries(contents).map(([name, text]) => {
      writeFileSync(join(folder, name), text, { mode: 0o600 });
      return { path: name, size: Buffer.byteLength(text), executable: false };
    });
    await pack(folder, files, target);
    return statSync(target).size;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function pack(
  folder: string,
  files: { path: string; size: number; executable: boolean }[],
  target: string,
): Promise<void> {
  try {
    const out = createWriteStream(target, { flags: "wx", mode: 0o600 });
    await pipeline(Readable.from(tarOf(folder, files, () => {})), createGzip(), out);
  } catch (cause) {
    if (systemCode(cause) !== "EEXIST") throw cause;
    throw new SvcError(
      "command_unavailable",
      {
        what: `${target} already exists; svc did not overwrite it.`,
        instead: "Remove it, or name another file with --output.",
      },
      { cause },
    );
  }
}
