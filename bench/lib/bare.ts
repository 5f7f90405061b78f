// The plainest way to the same rows: what the engine wrote is recorded, statement by statement, and written again into a fresh
// store of the same settings by statements prepared once, each group between the same BEGIN IMMEDIATE and COMMIT. It decides
// nothing, reads nothing and checks no epoch.

import type Database from "better-sqlite3";
import type { Sqlite } from "../../src/store/database.ts";

const WRITES = /^(insert|update|delete|replace)/i;

export type Transactions = { sql: string; args: unknown[] }[][];

/** Makes `db` note every write of each transaction that commits, from now on. */
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

/** Writes them again; resolves to the milliseconds that each transaction took. */
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
