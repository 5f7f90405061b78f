// Holds the hand-written SQL of src/store to the schema: kysely types the writes, and nothing but this test checks the rest.
//
// Q1. The columns that tables.ts declares are those of a store that the migrations made, with their types and their nulls.
// Q2. SQLite can prepare every literal statement on such a store.
// Q3. A statement returns every column of its declared row type.

import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openStore, type Sqlite } from "../../src/store/database.ts";

const FOLDER = join(import.meta.dirname, "../../src/store");
const SOURCES = readdirSync(FOLDER)
  .filter((name) => name.endsWith(".ts"))
  .map((name) => ({ name, text: readFileSync(join(FOLDER, name), "utf8") }));
const source = (name: string): string => SOURCES.find((each) => each.name === name)?.text ?? "";

/** Literals from `at` on, joined by `+`: the text between their quotes, and the end of the expression. */
function literalAt(text: string, at: number): { value: string; end: number } | null {
  const quote = text[at];
  if (quote !== '"' && quote !== "`" && quote !== "'") return null;
  let depth = 0;
  let i = at + 1;
  for (; i < text.length && (depth > 0 || text[i] !== quote); i++) {
    if (text[i] === "\\") i++;
    else if (quote === "`" && text.startsWith("${", i)) depth++;
    else if (depth > 0 && text[i] === "}") depth--;
  }
  const value = text
    .slice(at + 1, i)
    .replaceAll('\\"', '"')
    .replaceAll("\\\\", "\\");
  const plus = /^\s*\+\s*/.exec(text.slice(i + 1));
  const next = plus ? literalAt(text, i + 1 + plus[0].length) : null;
  return next ? { value: value + next.value, end: next.end } : { value, end: i + 1 };
}

/** The nearest literal that is assigned to a constant with this name, before `at` or anywhere in the folder. */
function constant(text: string, name: string, at = text.length): string | null {
  const found = [...text.matchAll(new RegExp(`\\bconst ${name}(?::[^=]*)? =\\s*`, "g"))]
    .filter((match) => match.index < at)
    .at(-1);
  if (!found) return null;
  const after = found.index + found[0].length;
  return literalAt(text, after)?.value ?? /^[0-9]+\b/.exec(text.slice(after))?.[0] ?? null;
}

/** Names in a statement that stand for one of several texts; the test uses this one. */
const CHOSEN: Readonly<Record<string, string>> = { uncopied: "UNCOPIED_CHECKPOINTS" };

function filledIn(value: string, text: string, at: number): string {
  return value.replace(/\$\{((?:[^{}`]|`(?:[^`$]|\$\{[^}]*\})*`)*)\}/g, (_, code: string) => {
    // The filter of `jobs`; other tests try its conditions.
    if (code === "where") return "";
    if (code === "table") return "timer";
    // A column that the home of an older version lacks.
    const column = /^known\("(\w+)"\)$/.exec(code)?.[1];
    if (column !== undefined) return column;
    const name = CHOSEN[code] ?? code;
    const imported = SOURCES.map((each) => each.text).find((each) => each.includes(`export const ${name} =`));
    const found = constant(text, name, at) ?? (imported === undefined ? null : constant(imported, name));
    expect(found, `what \${${code}} stands for`).not.toBeNull();
    const home = constant(text, name, at) === null ? (imported ?? text) : text;
    return filledIn(found ?? "", home, home.length);
  });
}

interface Statement {
  where: string;
  sql: string;
  /** The declared type of the rows, as source text. */
  rows: string | null;
  text: string;
  at: number;
}

/** Every call that reads rows by SQL, and every prepared statement. */
function statements(): Statement[] {
  return SOURCES.flatMap(({ name, text }) =>
    [...text.matchAll(/(?:this\.#(?:all|get)|\ball|\.prepare)(?:<((?:[^<>(]|<[^<>]*>)*)>)?\(\s*/g)].flatMap((call) => {
      const after = call.index + call[0].length;
      const written = literalAt(text, after)?.value;
      const named = /^([A-Za-z_]+)\s*[,)]/.exec(text.slice(after))?.[1];
      const value = written ?? (named === undefined ? null : constant(text, named, call.index));
      // Skips `prepare(db, kysely)` and the definitions of these functions.
      const sql = value === null ? "" : filledIn(value, text, call.index);
      if (!/^\s*(SELECT|WITH|INSERT|UPDATE|DELETE)\b/.test(sql)) return [];
      const line = text.slice(0, call.index).split("\n").length;
      return [{ where: `${name}:${line}`, sql, rows: call[1]?.trim() ?? null, text, at: call.index }];
    }),
  );
}

/** The declared type of each column, from tables.ts or an inline type. */
type Shape = Record<string, string>;

function shapeIn(braces: string): Shape {
  const plain = braces.replaceAll(/\/\*\*[^]*?\*\//g, "");
  return Object.fromEntries(
    [...plain.matchAll(/(\w+)(\??): ([^;]+?)(?:;|\s*$)/g)].map(([, name = "", optional = "", type = ""]) => [
      name + optional,
      type.trim(),
    ]),
  );
}

const TABLES: Record<string, Shape> = (() => {
  const body = /export interface Tables \{([^]*?)\n\}\n/.exec(source("tables.ts"))?.[1] ?? "";
  return Object.fromEntries(
    [...body.matchAll(/^ {2}(\w+): \{([^]*?)\};$/gm)].map(([, name = "", inner = ""]) => [name, shapeIn(inner)]),
  );
})();

function shapeOf(type: string, { text, at }: Pick<Statement, "text" | "at">): Shape | null {
  const parts = type.split(/\s+&\s+/);
  if (parts.length > 1) return Object.assign({}, ...parts.map((part) => shapeOf(part, { text, at }))) as Shape;
  if (type.startsWith("{")) return shapeIn(type.slice(1, -1));
  const pick = /^Pick<(\w+), (.*)>$/.exec(type);
  if (pick) {
    const whole = shapeOf(pick[1] ?? "", { text, at }) ?? {};
    const names = [...(pick[2] ?? "").matchAll(/"(\w+)"/g)].map(([, name = ""]) => name);
    return Object.fromEntries(names.map((name) => [name, whole[name] ?? "?"]));
  }
  const table = new RegExp(`type ${type} = Selectable<Tables\\["(\\w+)"\\]>`).exec(source("tables.ts"))?.[1];
  if (table !== undefined) return TABLES[table] ?? null;
  const own = [...text.matchAll(new RegExp(`\\b(?:type ${type} =|interface ${type}) \\{([^}]*)\\}`, "g"))];
  const inner = (own.findLast((match) => match.index < at) ?? own[0])?.[1];
  return inner === undefined ? null : shapeIn(inner);
}

/** Whether values that SQLite stores with this affinity fit the declared type. */
function fits(declared: string, affinity: string): boolean {
  const base = declared.replaceAll(/^Generated<|>$|\s*\| null\b/g, "");
  const isText = base === "string" || base.includes('"') || /^[A-Z]\w*$/.test(base);
  return affinity === "TEXT" ? isText : base === "number";
}

const home = mkdtempSync(join(tmpdir(), "svc-sql-"));
let db: Sqlite;
beforeAll(async () => {
  const options = { now: 0, newInstallationId: "i".repeat(20), synchronous: "OFF" as const };
  db = (await openStore(home, options)).db;
});
afterAll(() => {
  db.close();
  rmSync(home, { recursive: true, force: true });
});

describe("src/store/tables.ts", () => {
  test.each(Object.keys(TABLES))("The declared columns of the table %s match the store", (table) => {
    const rows = db.pragma(`table_info(${table})`) as { name: string; type: string; notnull: number; pk: number }[];
    const declared = TABLES[table] ?? {};
    expect(Object.keys(declared).toSorted()).toEqual(rows.map(({ name }) => name).toSorted());
    for (const { name, type, notnull, pk } of rows) {
      const said = declared[name] ?? "";
      expect([name, said, fits(said, type)]).toEqual([name, said, true]);
      expect([name, / \| null\b/.test(said)]).toEqual([name, notnull === 0 && pk === 0]);
    }
  });

  test("Every table of the store is declared", () => {
    const names = db.prepare(
      "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name NOT LIKE 'kysely_%'",
    );
    expect(Object.keys(TABLES).toSorted()).toEqual((names.pluck().all() as string[]).toSorted());
  });
});

describe("hand-written SQL", () => {
  const all = statements();

  test("The scan finds statements in every file that reads or removes", () => {
    const files = new Set(all.map(({ where }) => where.split(":")[0]));
    expect([...files]).toEqual(
      expect.arrayContaining(["open-reads.ts", "series-reads.ts", "sink-reads.ts", "removal-store.ts"]),
    );
    expect(all.length).toBeGreaterThan(45);
  });

  test.each(all.map((each) => [each.where, each] as const))("The statement at %s fits the schema", (_, each) => {
    const statement = db.prepare(each.sql);
    if (each.rows === null || !statement.reader) return;
    const shape = shapeOf(each.rows, each);
    expect(shape, `the columns of ${each.rows}`).not.toBeNull();
    const columns = new Map(statement.columns().map((column) => [column.name, column]));
    for (const [name, declared] of Object.entries(shape ?? {})) {
      if (name.endsWith("?")) continue;
      const column = columns.get(name);
      expect([name, column?.name]).toEqual([name, name]);
      // An expression has no type in SQLite.
      if (column?.type) expect([name, declared, fits(declared, column.type)]).toEqual([name, declared, true]);
    }
  });

  test("The few machines that are not in the sums lead every join, not the many of the ledger", () => {
    const joins = all.filter(({ sql }) => /FROM cost_open o\b/.test(sql));
    expect(joins.length).toBeGreaterThan(4);
    for (const { where, sql } of joins) {
      const plan = db.prepare(`EXPLAIN QUERY PLAN ${sql}`).all(...(sql.includes("?") ? [1] : [])) as {
        detail: string;
      }[];
      expect([where, plan[0]?.detail]).toEqual([where, "SCAN o"]);
    }
  });

  test("Each condition that filters jobs fits the schema", () => {
    const text = source("list-reads.ts");
    const conditions = [...text.matchAll(/\bwhere\(\s*/g)].flatMap((call) => {
      const after = call.index + call[0].length;
      const name = /^([A-Z_]+),/.exec(text.slice(after))?.[1];
      return literalAt(text, after)?.value ?? (name === undefined ? [] : (constant(text, name) ?? []));
    });
    expect(conditions.length).toBeGreaterThan(4);
    for (const condition of conditions) db.prepare(`SELECT * FROM job WHERE ${condition}`);
  });

  test("Every table that a removal empties exists", () => {
    const list = /const AT_ONCE = \[([^\]]*)\]/.exec(source("removal-store.ts"))?.[1] ?? "";
    const tables = [...list.matchAll(/"(\w+)"/g)].map(([, name = ""]) => name);
    expect(tables.length).toBeGreaterThan(3);
    for (const table of tables) db.prepare(`DELETE FROM ${table} WHERE job_id = ?`);
    const portions = source("removal-store.ts");
    const first = portions.indexOf("const IN_PORTIONS = [");
    const texts = [...portions.slice(first, portions.indexOf("\n];", first)).matchAll(/`([^`]*)`/g)];
    expect(texts.length).toBeGreaterThan(4);
    for (const [, sql = ""] of texts) db.prepare(sql);
  });
});
