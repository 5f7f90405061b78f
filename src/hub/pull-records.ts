// Records of pulls: one small file each, replaced atomically. A restarted control plane reads them to resume its pulls.

import { mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { replaceFile } from "../platform/replace-file.ts";
import { HubPull } from "../schemas/hub.ts";
import { homeLayout } from "../platform/home-layout.ts";

const KEPT = 50;

export const PullRecord = z.object({
  pull: HubPull,
  local_dir: z.string().nullable(),
  allow_patterns: z.array(z.string()).nullable(),
  /** Whether it used its own token, which is stored nowhere: then only its caller can resume it. */
  own_token: z.boolean(),
});
export type PullRecord = z.infer<typeof PullRecord>;

export class PullRecords {
  readonly #folder: string;

  constructor(home: string) {
    this.#folder = homeLayout.pulls(home);
  }

  save(record: PullRecord): void {
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
    replaceFile(join(this.#folder, `${record.pull.id}.json`), `${JSON.stringify(record)}\n`);
  }

  /** Oldest first; unreadable records are skipped, and only a limited number of old ones is kept. */
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
