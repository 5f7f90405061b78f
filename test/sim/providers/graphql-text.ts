// The part of GraphQL that a strict double of a GraphQL API needs: one operation, fields with aliases and arguments,
// literals and variables. No fragments, no directives.

export interface Field {
  alias: string;
  name: string;
  args: Record<string, unknown>;
  fields: Field[] | null;
}

/** Errors that the real API answers with 400. */
export class BadQuery extends Error {}

export interface Operation {
  kind: "query" | "mutation";
  fields: Field[];
}

export function parseQuery(text: unknown, variables: unknown): Operation {
  if (typeof text !== "string" || text.trim() === "")
    throw new BadQuery("GraphQL operations must contain a non-empty `query`.");
  const given = typeof variables === "object" && variables !== null ? (variables as Record<string, unknown>) : {};
  const tokens =
    text.match(/"""[\s\S]*?"""|"(?:\\.|[^"\\])*"|[A-Za-z_]\w*|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|\.\.\.|[^\s,]/g) ?? [];
  let at = 0;
  const peek = (): string => tokens[at] ?? "";
  const next = (): string => tokens[at++] ?? "";
  const expect = (token: string): void => {
    if (next() !== token)
      throw new BadQuery(`Syntax Error: Expected "${token}", found "${tokens[at - 1] ?? "<EOF>"}".`);
  };
  const word = (): string => {
    if (!/^[A-Za-z_]\w*$/.test(peek()))
      throw new BadQuery(`Syntax Error: Expected Name, found "${peek() || "<EOF>"}".`);
    return next();
  };

  function value(): unknown {
    const token = next();
    if (token === "$") {
      const name = word();
      if (given[name] === undefined && required.has(name))
        throw new BadQuery(`Variable "$${name}" of required type was not provided.`);
      return given[name];
    }
    if (token.startsWith('"""')) return token.slice(3, -3);
    if (token.startsWith('"')) return JSON.parse(token) as unknown;
    if (/^-?\d/.test(token)) return Number(token);
    if (token === "[") return until("]", value);
    if (token === "{")
      return Object.fromEntries(
        until("}", (): [string, unknown] => {
          const key = word();
          expect(":");
          return [key, value()];
        }),
      );
    const named: Record<string, unknown> = { true: true, false: false, null: null };
    if (token in named) return named[token];
    if (/^[A-Za-z_]/.test(token)) return token;
    throw new BadQuery(`Syntax Error: Unexpected "${token || "<EOF>"}".`);
  }

  function until<T>(end: string, one: () => T): T[] {
    const all: T[] = [];
    while (peek() !== end) {
      if (at >= tokens.length) throw new BadQuery("Syntax Error: Expected Name, found <EOF>.");
      all.push(one());
    }
    next();
    return all;
  }

  function fieldOf(): Field {
    let name = word();
    const alias = name;
    if (peek() === ":") {
      next();
      name = word();
    }
    const args: Record<string, unknown> = {};
    if (peek() === "(") {
      next();
      until(")", () => {
        const key = word();
        expect(":");
        args[key] = value();
      });
    }
    const fields = peek() === "{" ? (next(), until("}", fieldOf)) : null;
    return { alias, name, args, fields };
  }

  const required = new Set<string>();
  let kind: Operation["kind"] = "query";
  if (peek() !== "{") {
    const said = word();
    if (said !== "query" && said !== "mutation") throw new BadQuery(`Syntax Error: Unexpected Name "${said}".`);
    kind = said;
    if (/^[A-Za-z_]/.test(peek())) next();
    if (peek() === "(") {
      next();
      until(")", () => {
        expect("$");
        const name = word();
        expect(":");
        let last = "";
        while (at < tokens.length && peek() !== "$" && peek() !== ")") last = next();
        if (last === "!") required.add(name);
      });
    }
  }
  expect("{");
  const fields = until("}", fieldOf);
  if (at < tokens.length) throw new BadQuery(`Syntax Error: Unexpected "${peek()}".`);
  for (const name of required)
    if (given[name] === undefined || given[name] === null)
      throw new BadQuery(`Variable "$${name}" of required type was not provided.`);
  return { kind, fields };
}

/** For each field: the type of its value, or null for a plain value. */
export type Shapes = Readonly<Record<string, Readonly<Record<string, string | null>>>>;

/** Only the requested fields, under the requested names; a field that the type does not have is a bad query. */
export function project(value: unknown, type: string, fields: readonly Field[] | null, shapes: Shapes): unknown {
  const shape = shapes[type];
  if (!shape) return value;
  if (!fields) throw new BadQuery(`Field of type "${type}" must have a selection of subfields.`);
  for (const { name } of fields)
    if (name !== "__typename" && !(name in shape))
      throw new BadQuery(`Cannot query field "${name}" on type "${type}".`);
  if (value === null || value === undefined) return null;
  if (Array.isArray(value)) return value.map((each) => project(each, type, fields, shapes));
  const record = value as Record<string, unknown>;
  return Object.fromEntries(
    fields.map(({ alias, name, fields: below }) => {
      const inner = shape[name];
      if (name === "__typename") return [alias, type];
      return [
        alias,
        inner === null || inner === undefined ? (record[name] ?? null) : project(record[name], inner, below, shapes),
      ];
    }),
  );
}
