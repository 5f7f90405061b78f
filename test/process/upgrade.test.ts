// The program is upgraded while runs are open: the control plane was killed, and its home is as the first release kept it. A local run
// continues, a rented machine keeps its run, and an order whose answer was lost still finds its machine.
// @module-tag needs/sshd

import Database from "better-sqlite3";
import type { Migration } from "kysely/migration";
import { readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { fingerprint } from "../../src/engine/journal.ts";
import type { CostReport } from "../../src/schemas/costs.ts";
import { openStore, prepareHome } from "../../src/store/database.ts";
import { migrations } from "../../src/store/migrations.ts";
import { DEADLINE_MS } from "../deadline.ts";
import { makeLedger } from "../sim/providers/ledger.ts";
import { gpusOnOffer } from "../sim/providers/start.ts";
import { Place, until } from "./harness.ts";
import { idleMachines } from "./idle-machines.ts";

const place = Place.own("it is killed, and its home is downgraded");
const provider = makeLedger(() => undefined);
let machines: Awaited<ReturnType<typeof idleMachines>>;

beforeAll(async () => {
  machines = await idleMachines(place, provider);
});
afterAll(async () => {
  await place.close();
  await machines.close();
});

const RENTED = {
  entrypoint: "train.py",
  provider: "podhost",
  gpus: gpusOnOffer("podhost"),
  install: "none",
  price_cap: 20,
  terminate_on_exit: false,
};

/** The fields of a run that the first release stored; the others came later. */
const CONTEXT = "job_id max_runtime_ms nodes occupied started_at ended_at outcome exit_code error".split(" ");
const INPUT = ["nodes", "max_runtime_ms", "job_id", "at"];
const LATER_FIELDS = ["stop_grace_seconds", "health"];
const HANDLE = ["v", "provider", "id", "name", "address", "priceMicro", "createdAt", "ssh", "extra"];

type Row = Record<string, unknown>;
const parsed = (text: unknown): Row => JSON.parse(String(text)) as Row;
const only = (names: readonly string[], from: Row): Row =>
  Object.fromEntries(names.flatMap((name) => (name in from ? [[name, from[name]]] : [])));

/** A row of today's store as the first release would have written it. */
function older(table: string, row: Row): Row {
  if (table === "job") {
    const now = parsed(row["snapshot"]) as { value: unknown; context: Row };
    const { text, hash } = fingerprint({ value: now.value, context: only(CONTEXT, now.context) });
    const spec = Object.fromEntries(
      Object.entries(parsed(row["spec"])).filter(([name]) => !LATER_FIELDS.includes(name)),
    );
    return { ...row, version: 1, snapshot: text, hash, spec: JSON.stringify(spec) };
  }
  if (table === "journal" && row["type"] === "job.created") {
    const event = parsed(row["event"]) as { input: Row };
    return { ...row, event: JSON.stringify({ ...event, input: only(INPUT, event.input), version: 1 }) };
  }
  if (table === "machine" && row["handle"] !== null)
    return { ...row, handle: JSON.stringify(only(HANDLE, parsed(row["handle"]))) };
  return row;
}

/** Replaces the store by one with the tables of the first release and the same rows. */
async function downgrade(home: string): Promise<void> {
  const made = join(place.root, "first-release");
  prepareHome(made);
  const [first = ""] = Object.keys(migrations);
  const { db } = await openStore(made, {
    newInstallationId: "replaced",
    now: 0,
    migrations: { [first]: migrations[first] as Migration },
  });
  const file = join(home, "svc.db");
  const now = new Database(file, { readonly: true });
  const tables = db.prepare(
    "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT GLOB 'kysely*' AND name NOT GLOB 'sqlite*'",
  );
  for (const table of tables.pluck().all() as string[]) {
    const columns = db.prepare("SELECT name FROM pragma_table_info(?)").pluck().all(table) as string[];
    const insert = db.prepare(`INSERT OR REPLACE INTO ${table} VALUES (${columns.map((name) => `@${name}`).join()})`);
    for (const row of now.prepare(`SELECT * FROM ${table}`).all() as Row[])
      insert.run(only(columns, older(table, row)));
  }
  now.close();
  db.pragma("journal_mode = DELETE");
  db.close();
  for (const part of ["-wal", "-shm"]) rmSync(file + part, { force: true });
  renameSync(join(made, "svc.db"), file);
}

it(
  "takes up every open run and every machine of a home that the first release left",
  { timeout: 6 * DEADLINE_MS },
  async () => {
    place.file(
      "train.py",
      `import os, sys, time
import svc
n = 0
while not os.path.exists(sys.argv[1]):
    print("line", n, flush=True)
    svc.log({"loss": 1 / (n + 1)}, step=n)
    n += 1
    time.sleep(0.02)
`,
    );
    const go = join(place.root, "go");
    let served = await place.serve();
    const local = await served.submit({ entrypoint: "train.py", args: [go], terminate_on_exit: false });
    const held = await served.submit(RENTED);
    const stateOf = (id: string) => () =>
      place.db((db) => db.prepare("SELECT state FROM machine WHERE job_id = ?").pluck().get(id));
    await until(
      async () => stateOf(held)() === "held" && (await served.job(held)).status === "awaiting_ssh",
      "it is held",
    );
    machines.faults.set("listing_lag", 10 * DEADLINE_MS);
    machines.faults.set("lost_after_create");
    const lost = await served.submit(RENTED);
    await until(() => stateOf(lost)() === "unknown", "the answer to an order is lost");
    await until(async () => (await served.text(`/jobs/${local}/logs`)).includes("line 5\n"), "the local run writes");
    await served.kill();
    const scripts = place.scripts();
    expect(scripts.length).toBeGreaterThan(0);
    await downgrade(place.home);

    machines.faults.clear("listing_lag");
    served = await place.serve();
    expect(readdirSync(join(place.home, "backups")).filter((name) => name.startsWith("svc-schema1-"))).toHaveLength(1);
    // The script was not started again, and loses neither a line nor a number.
    expect(place.scripts()).toEqual(scripts);
    const before = (await served.text(`/jobs/${local}/logs`)).split("\n").length;
    await until(async () => (await served.text(`/jobs/${local}/logs`)).split("\n").length > before + 5, "it goes on");
    writeFileSync(go, "");
    expect([(await served.ended(local)).status, place.scripts()]).toEqual(["succeeded", []]);
    const lines = (await served.text(`/jobs/${local}/logs`)).trimEnd().split("\n");
    expect(lines).toEqual(lines.map((_, n) => `line ${n}`));
    expect((await served.metrics(local)).series["loss"]).toHaveLength(lines.length);

    await until(async () => (await served.job(lost)).status === "awaiting_ssh", "the lost machine is found");
    expect(provider.all()).toHaveLength(2);
    for (const id of [held, lost]) {
      expect((await served.post(`/jobs/${id}/kill`, {})).status).toBe(202);
      const { status, machines } = await served.ended(id);
      expect([status, machines.map(({ state }) => state)]).toEqual(["cancelled", ["released"]]);
    }
    expect(provider.alive()).toEqual([]);
    expect(provider.all()).toHaveLength(2);
    expect(place.refolds()).toBe(3);
    // The costs of the machines before the upgrade count.
    const { total } = await served.get<CostReport>("/v1/costs");
    expect(total).toMatchObject({ machines: 3 });
    expect(total.cost_usd).toBeGreaterThan(0);
  },
);
