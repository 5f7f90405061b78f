// The plainest way to the same rows: records the engine's writes, statement by statement, and repeats them in a new
// store with the same settings, by prepared statements, each group between the same BEGIN IMMEDIATE and COMMIT. It
// decides nothing, reads nothing and checks no epoch.

import type Database from "better-sqlite3";
import type { Sqlite } from "../../src/store/database.ts";

const WRITES = /^(insert|update|delete|replace)/i;

export type Transactions = { sql: string; args: unknown[] }[][];

/** From now on records every write of each transaction that `db` commits. */
export function recording(db: Sqlite): Transactions {
  const done: Transactions = [];
  let open: Transactions[number] = [];
  const prepare = db.prepare.bind(db);
  db.prepare = ((sql: string) => {
    const statement = prepare(sql);
    const run = statement.run.bind(statement);
    const keep = WRITES.test(sql)
      ? (args: unknown[]) => void open.push({ sql, args })
      : sql === "COMMIT"
        ? () => {
            done.push(open);
            open = [];
          }
        : null;
    if (keep)
      statement.run = (...args: unknown[]) => {
        keep(args);
        return run(...args);
      };
    return statement;
  }) as typeof db.prepare;
  return done;
}

/** Repeats the writes; resolves with the milliseconds of each transaction. */
export function replay(db: Sqlite, transactions: Transactions): number[] {
  const begin = db.prepare("BEGIN IMMEDIATE");
  const commit = db.prepare("COMMIT");
  const prepared = new Map<string, Database.Statement>();
  const plan = transactions.map((writes) =>
    writes.map(({ sql, args }) => {
      let statement = prepared.get(sql);
      if (!statement) prepared.set(sql, (statement = db.prepare(sql)));
      return { statement, args };
    }),
  );
  return plan.map((writes) => {
    const start = performance.now();
    begin.run();
    for (const { statement, args } of writes) statement.run(...args);
    commit.run();
    return performance.now() - start;
  });
}
