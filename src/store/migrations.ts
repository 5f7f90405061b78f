// Forward only. A migration is never edited once released; a database with an unknown migration is newer than this
// program.

import { sql, type Kysely } from "kysely";
import type { Migration } from "kysely/migration";
import { SCHEMAS } from "./schemas.ts";

const statements = (all: readonly string[]): Migration => ({
  async up(db: Kysely<unknown>) {
    for (const statement of all) await sql.raw(statement).execute(db);
  },
});

export const migrations: Record<string, Migration> = Object.fromEntries(
  Object.entries(SCHEMAS).map(([name, all]) => [name, statements(all)]),
);
