// Defaults for runs of this home: `settings.json`, written by its owner.

import { readFileSync } from "node:fs";
import { z } from "zod";
import { isMissing, messageOf, SvcError } from "../errors/index.ts";
import { KeepCheckpoints } from "../schemas/spec.ts";
import { homeLayout } from "../platform/home-layout.ts";

const HomeDefaults = z.strictObject({ keep_checkpoints: KeepCheckpoints.optional() });
export type HomeDefaults = z.infer<typeof HomeDefaults>;

/** Throws `home_unusable`, naming the file, if it cannot be read or is malformed. */
export function homeDefaults(home: string): HomeDefaults {
  const file = homeLayout.settings(home);
  try {
    return HomeDefaults.parse(JSON.parse(readFileSync(file, "utf8")));
  } catch (e) {
    if (isMissing(e)) return {};
    const why = e instanceof z.ZodError ? (e.issues[0]?.message ?? "") : messageOf(e);
    throw new SvcError(
      "home_unusable",
      { home, why: `has a settings.json that cannot be used (${why})` },
      { cause: e },
    );
  }
}
