// The list of instances: pages of at most 25, filters and orders over stored columns only.

export class BadList extends Error {}

const PAGE_MAX = 25;
/** Stored columns; a request cannot use computed ones. */
const STORED = new Set([
  "id",
  "label",
  "actual_status",
  "intended_status",
  "cur_state",
  "gpu_name",
  "verification",
  "machine_id",
  "host_id",
]);
const KNOWN = new Set(["limit", "after_token", "select_filters", "order_by", "select_cols", "api_key"]);

type Row = Record<string, unknown>;

export function listPage(rows: readonly Row[], query: URLSearchParams, pageSize = PAGE_MAX): Row {
  for (const name of query.keys()) if (!KNOWN.has(name)) throw new BadList(`unknown parameter ${name}`);
  const asked = Number(query.get("limit") ?? PAGE_MAX);
  if (!Number.isInteger(asked)) throw new BadList("limit");
  const limit = Math.min(asked <= 0 ? 5 : Math.min(asked, PAGE_MAX), pageSize);
  const found = rows.filter(filterOf(query.get("select_filters")));
  const order = orderOf(query.get("order_by"));
  found.sort((a, b) => order.sign * compare(a[order.column], b[order.column]));
  const from = offsetOf(query.get("after_token"));
  const page = found.slice(from, from + limit);
  const columns = columnsOf(query.get("select_cols"));
  const labels = new Map<string, number>();
  for (const row of rows) {
    const label = typeof row["label"] === "string" ? row["label"] : "";
    labels.set(label, (labels.get(label) ?? 0) + 1);
  }
  return {
    success: true,
    instances:
      columns === null ? page : page.map((row) => Object.fromEntries(columns.map((name) => [name, row[name] ?? null]))),
    instances_found: found.length,
    total_instances: rows.length,
    label_counts: Object.fromEntries(labels),
    next_token: from + limit < found.length ? Buffer.from(`o${from + limit}`).toString("base64url") : null,
  };
}

function offsetOf(token: string | null): number {
  if (token === null || token === "") return 0;
  const offset = /^o([0-9]+)$/.exec(Buffer.from(token, "base64url").toString("utf8"))?.[1];
  if (offset === undefined) throw new BadList("after_token");
  return Number(offset);
}

function json(name: string, text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw new BadList(`${name} is not JSON`);
  }
}

function filterOf(text: string | null): (row: Row) => boolean {
  if (text === null || text === "") return () => true;
  const filters = json("select_filters", text);
  if (typeof filters !== "object" || filters === null || Array.isArray(filters)) throw new BadList("select_filters");
  const tests = Object.entries(filters).flatMap(([column, conditions]) => {
    if (!STORED.has(column)) throw new BadList(`select_filters: ${column} is not a stored column`);
    if (typeof conditions !== "object" || conditions === null) throw new BadList(`select_filters: ${column}`);
    return Object.entries(conditions as Row).map(([operator, want]) => {
      switch (operator) {
        case "eq":
          return (row: Row) => row[column] === want;
        case "neq":
          return (row: Row) => row[column] !== want;
        case "in":
          if (Array.isArray(want)) return (row: Row) => want.includes(row[column]);
          break;
        case "notin":
          if (Array.isArray(want)) return (row: Row) => !want.includes(row[column]);
          break;
        default:
      }
      throw new BadList(`select_filters: ${column}: ${operator}`);
    });
  });
  return (row) => tests.every((holds) => holds(row));
}

function orderOf(text: string | null): { column: string; sign: number } {
  if (text === null || text === "") return { column: "id", sign: 1 };
  const order = json("order_by", text);
  const [first] = Array.isArray(order) ? (order as unknown[]) : [];
  if (typeof first !== "object" || first === null) throw new BadList("order_by");
  const { col, dir } = first as Row;
  if (typeof col !== "string" || !STORED.has(col) || (dir !== "asc" && dir !== "desc")) throw new BadList("order_by");
  return { column: col, sign: dir === "desc" ? -1 : 1 };
}

function columnsOf(text: string | null): string[] | null {
  if (text === null || text === "") return null;
  const columns = json("select_cols", text);
  if (!Array.isArray(columns) || !columns.every((name) => typeof name === "string")) throw new BadList("select_cols");
  return columns.includes("*") ? null : columns;
}

const compare = (a: unknown, b: unknown): number =>
  typeof a === "number" && typeof b === "number" ? a - b : String(a) < String(b) ? -1 : String(a) > String(b) ? 1 : 0;
