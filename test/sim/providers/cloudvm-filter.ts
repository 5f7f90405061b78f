// The filter language of list calls: comparisons joined by AND, OR and parentheses.

export class BadFilter extends Error {}

type Test = (row: unknown) => boolean;

/**
 * Parses `labels.a=b`, `status!=RUNNING`, `labels.a:*`, `name=x AND (a=b OR c=d)`. An empty filter matches everything.
 */
export function parseFilter(text: string): Test {
  const tokens = text.match(/\(|\)|"(?:[^"\\]|\\.)*"|!=|>=|<=|[=:<>]|[^\s()=!:<>"]+|\S/g) ?? [];
  let at = 0;
  if (tokens.length === 0) return () => true;

  const either = (): Test => {
    const tests = [both()];
    while (tokens[at] === "OR") {
      at += 1;
      tests.push(both());
    }
    return (row) => tests.some((test) => test(row));
  };
  const both = (): Test => {
    const tests = [one()];
    while (tokens[at] === "AND" || (tokens[at] !== undefined && tokens[at] !== ")" && tokens[at] !== "OR")) {
      if (tokens[at] === "AND") at += 1;
      tests.push(one());
    }
    return (row) => tests.every((test) => test(row));
  };
  const one = (): Test => {
    if (tokens[at] === "(") {
      at += 1;
      const inner = either();
      if (tokens[at] !== ")") throw new BadFilter(text);
      at += 1;
      return inner;
    }
    const [field, operator, raw] = [tokens[at], tokens[at + 1], tokens[at + 2]];
    at += 3;
    if (field === undefined || operator === undefined || raw === undefined) throw new BadFilter(text);
    if (!/^[A-Za-z][A-Za-z0-9_.-]*$/.test(field)) throw new BadFilter(text);
    const want = raw.startsWith('"') ? raw.slice(1, -1) : raw;
    return comparison(field, operator, want, text);
  };

  const whole = either();
  if (at !== tokens.length) throw new BadFilter(text);
  return whole;
}

function comparison(field: string, operator: string, want: string, text: string): Test {
  const have = (row: unknown): string | undefined => {
    const value = at(row, field);
    return typeof value === "string" || typeof value === "number" || typeof value === "boolean"
      ? String(value)
      : undefined;
  };
  switch (operator) {
    case "=":
      return (row) => matches(have(row), want);
    case "!=":
      return (row) => !matches(have(row), want);
    case ":":
      return (row) => (want === "*" ? have(row) !== undefined : (have(row)?.includes(want) ?? false));
    default:
      throw new BadFilter(text);
  }
}

/** A value that ends in `*` matches every text that begins with the rest. */
function matches(have: string | undefined, want: string): boolean {
  if (have === undefined) return false;
  return want.endsWith("*") ? have.startsWith(want.slice(0, -1)) : have === want;
}

/** The value at `labels.svc-owner` or `scheduling.preemptible`; the name of a label contains no dot. */
function at(row: unknown, path: string): unknown {
  let value = row;
  for (const part of path.split(".")) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, part)) return undefined;
    value = (value as Record<string, unknown>)[part];
  }
  return value;
}
