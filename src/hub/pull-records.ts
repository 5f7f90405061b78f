// What is remembered of pulls: a small file each, replaced as a whole. It tells a restarted control plane what to go on with.

import { mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { replaceFile } from "../platform/replace-file.ts";
import { HubPull } from "../schemas/hub.ts";

const KEPT = 50;

export const PullRecord = z.object({
  pull: HubPull,
  local_dir: z.string().nullable(),
  allow_patterns: z.array(z.string()).nullable(),
  /** Whether it was given a token of its own, which is stored nowhere: then only its owner can go on with it. */
  own_token: z.boolean(),
});
export type PullRecord = z.infer<typeof PullRecord>;

export class PullRecords {
  readonly #folder: string;

  constructor(home: string) {
    this.#folder = join(home, "hub", "pulls");
  }

  save(record: PullRecord): void {
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
    replaceFile(join(this.#folder, `${record.pull.id}.json`), `${JSON.stringify(record)}\n`);
  }

  /** Oldest first; what cannot be read is passed over, and of the old ones only so many are kept. */
  load(): PullRecord[] {
    const names = this.#names();
    for (const name of names.slice(0, -KEPT)) rmSync(join(this.#folder, name), { force: true });
    return names.slice(-KEPT).flatMap((name) => {
      try {
        return [PullRecord.parse(JSON.parse(readFileSync(join(this.#folder, name), "utf8")))];
      } catch {
        return [];
      }
    });
  }

  #names(): string[] {
    try {
      return readdirSync(this.#folder)
        .filter((name) => name.endsWith(".json"))
        .sort();
    } catch {
      return []; // none was made yet
    }
  }
}
