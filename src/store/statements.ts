// Kysely writes the SQL, typed against the tables; better-sqlite3 prepares it once and runs it synchronously. An
// awaited transaction would occupy the one connection across turns and cost 1.5 to 3 times as much; this costs one
// bind.

import {
  DummyDriver,
  Kysely,
  sql,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
  type Compilable,
} from "kysely";
import type { Sqlite } from "./database.ts";
import type { Tables } from "./tables.ts";

class Placeholder {
  readonly name: string;
  constructor(name: string) {
    this.name = name;
  }
}

/** Names a value that is bound at each run. */
// The cast is the point: `never` fits every column, and the value arrives at each run.
export const p = (name: string): never => new Placeholder(name) as never;

/** A literal in the SQL itself: the planner uses a partial index only if it can see the value. */
export const lit = <T extends string | null>(value: T) => sql.lit<T>(value);

export const q = new Kysely<Tables>({
  dialect: {
    createAdapter: () => new SqliteAdapter(),
    createDriver: () => new DummyDriver(),
    createIntrospector: (db) => new SqliteIntrospector(db),
    createQueryCompiler: () => new SqliteQueryCompiler(),
  },
});

export type Args = Record<string, unknown>;

export interface Statement<Row> {
  run(args: Args): { changes: number; lastInsertRowid: number | bigint };
  get(args: Args): Row | undefined;
  all(args: Args): Row[];
}

export function prepare<Row>(db: Sqlite, query: Compilable<Row>): Statement<Row> {
  const { sql, parameters } = query.compile();
  const statement = db.prepare(sql);
  const names = parameters.map((v) => (v instanceof Placeholder ? v.name : null));
  const bind = (args: Args): unknown[] => {
    const bound = parameters.slice();
    for (let i = 0; i < names.length; i++) {
      const name = names[i];
      if (name !== null && name !== undefined) bound[i] = args[name];
    }
    return bound;
  };
  return {
    run: (args) => statement.run(...bind(args)),
    get: (args) => statement.get(...bind(args)) as Row | undefined,
    all: (args) => statement.all(...bind(args)) as Row[],
  };
}

/** `{a: p("a"), b: p("b")}` for the named columns. */
export function columns<K extends string>(...names: K[]): { [N in K]: never } {
  return Object.fromEntries(names.map((n) => [n, p(n)])) as { [N in K]: never };
}
