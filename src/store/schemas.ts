// Every version of the SQL schema, in order: a new table or column is a new file and one line here. The migrations run them, and the reads build an empty store from them: those must not load the
// migrator.

import { SCHEMA_0001 } from "./schema-0001.ts";
import { SCHEMA_0002 } from "./schema-0002.ts";
import { SCHEMA_0003 } from "./schema-0003.ts";
import { SCHEMA_0004 } from "./schema-0004.ts";
import { SCHEMA_0005 } from "./schema-0005.ts";
import { SCHEMA_0006 } from "./schema-0006.ts";
import { SCHEMA_0007 } from "./schema-0007.ts";
import { SCHEMA_0008 } from "./schema-0008.ts";
import { SCHEMA_0009 } from "./schema-0009.ts";
import { SCHEMA_0010 } from "./schema-0010.ts";
import { SCHEMA_0011 } from "./schema-0011.ts";
import { SCHEMA_0012 } from "./schema-0012.ts";
import { SCHEMA_0013 } from "./schema-0013.ts";
import { SCHEMA_0014 } from "./schema-0014.ts";
import { SCHEMA_0015 } from "./schema-0015.ts";
import { SCHEMA_0016 } from "./schema-0016.ts";

export const SCHEMAS: Readonly<Record<string, readonly string[]>> = {
  "0001-first-tables": SCHEMA_0001,
  "0002-price-changes": SCHEMA_0002,
  "0003-sinks": SCHEMA_0003,
  "0004-accounts": SCHEMA_0004,
  "0005-left-out": SCHEMA_0005,
  "0006-removal": SCHEMA_0006,
  "0007-placements": SCHEMA_0007,
  "0008-hosts": SCHEMA_0008,
  "0009-costs": SCHEMA_0009,
  "0010-notifications": SCHEMA_0010,
  "0011-limits": SCHEMA_0011,
  "0012-unproven-orders": SCHEMA_0012,
  "0013-checkpoint-removal": SCHEMA_0013,
  "0014-retention": SCHEMA_0014,
  "0015-tags": SCHEMA_0015,
  "0016-checkpoint-placements": SCHEMA_0016,
};
