// Forward only. A migration is never edited once released; a database with an unknown migration is newer than this
// program.

import { sql, type Kysely } from "kysely";
import type { Migration } from "kysely/migration";
import { SCHEMA_0001 } from "./schema-0001.ts";
import { SCHEMA_0002 } from "./schema-0002.ts";
import { SCHEMA_0003 } from "./schema-0003.ts";
import { SCHEMA_0004 } from "./schema-0004.ts";
import { SCHEMA_0005 } from "./schema-0005.ts";
import { SCHEMA_0006 } from "./schema-0006.ts";
import { SCHEMA_0007 } from "./schema-0007.ts";

const statements = (all: readonly string[]): Migration => ({
  async up(db: Kysely<unknown>) {
    for (const statement of all) await sql.raw(statement).execute(db);
  },
});

export const migrations: Record<string, Migration> = {
  "0001-first-tables": statements(SCHEMA_0001),
  "0002-price-changes": statements(SCHEMA_0002),
  "0003-sinks": statements(SCHEMA_0003),
  "0004-accounts": statements(SCHEMA_0004),
  "0005-left-out": statements(SCHEMA_0005),
  "0006-removal": statements(SCHEMA_0006),
  "0007-placements": statements(SCHEMA_0007),
};
