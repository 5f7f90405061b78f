// Costs of 20,000 runs with 100,000 machines by HTTP, over sums that the control plane has made and with 50 machines that are not in them.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { localCalendar } from "../src/domain/calendar.ts";
import { COST_DIMENSIONS } from "../src/schemas/cost-names.ts";
import { CostStore } from "../src/store/cost-store.ts";
import type { Sqlite } from "../src/store/database.ts";
import { newJobId, openHome, specText, withFolder } from "./lib/home.ts";
import { median, rowOf, type Bench, type Row } from "./lib/measure.ts";
import { Served } from "./lib/served.ts";

const JOBS = 20_000;
const MACHINES_PER_JOB = 5;
const OPEN_JOBS = 10;
const DAYS = 365;
const HOUR_MS = 3_600_000;
const ROUNDS = 5;
const ASKS = 20;

/** Rows as the engine writes them, without its work: only the ledger and the ends of scripts matter here. */
function fill(db: Sqlite): void {
  const job = db.prepare(
    `INSERT INTO job (id, seq, version, state, status, snapshot, hash, label, provider, gpus, nodes, spec, created_at)
     VALUES (?, 3, 3, ?, ?, '{}', '', ?, ?, ?, 1, json_set(?, '$.project_dir', ?), ?)`,
  );
  const placement = db.prepare(
    `INSERT INTO placement (job_id, n, candidate, seq, provider, gpus, spot, opened_at, closed_at, outcome)
     VALUES (?, 1, 0, 1, ?, ?, 'never', ?, ?, ?)`,
  );
  const journal = db.prepare(
    "INSERT INTO journal (job_id, seq, at, epoch, type, event, from_state, to_state, hash) VALUES (?, ?, ?, 1, ?, '{}', 'running', ?, '')",
  );
  const machine = db.prepare(
    `INSERT INTO machine (name, job_id, node, ordinal, provider, state, price_micro, created_at, horizon_at, held_at, empty_looks, released_at, proof)
     VALUES (?, ?, 0, ?, ?, ?, ?, ?, 0, ?, 0, ?, ?)`,
  );
  const now = Date.now();
  for (let n = 0; n < JOBS; n++) {
    const id = newJobId();
    const isOpen = n >= JOBS - OPEN_JOBS;
    const from = isOpen ? now - 2 * HOUR_MS : now - Math.floor(((JOBS - n) / JOBS) * DAYS * 24 * HOUR_MS);
    const provider = ["podhost", "market", "cloudvm"][n % 3] ?? "market";
    const gpus = ["A100:2", "H100", "A40:4", "RTX 4090"][n % 4] ?? "H100";
    const outcome = n % 7 === 0 ? "failed" : "succeeded";
    job.run(
      id,
      isOpen ? "running" : "terminal",
      isOpen ? "running" : outcome,
      `sweep ${n % 60}`,
      provider,
      gpus,
      specText,
      `/p/${n % 25}`,
      from,
    );
    placement.run(id, provider, gpus, from, isOpen ? null : from + HOUR_MS, isOpen ? null : outcome);
    journal.run(id, 2, from + 60_000, "launch.done", "running");
    if (!isOpen) journal.run(id, 3, from + HOUR_MS - 60_000, "stream.done", "terminating");
    for (let k = 1; k <= MACHINES_PER_JOB; k++) {
      const end = isOpen ? null : from + HOUR_MS;
      const price = provider === "cloudvm" ? null : 1_000_000 + n;
      machine.run(
        `svc-bench-${id}-n0-${k}`,
        id,
        k,
        provider,
        isOpen ? "held" : "released",
        price,
        from,
        from,
        end,
        isOpen ? null : "gone",
      );
    }
  }
}

async function measure(): Promise<Row[]> {
  return withFolder(async (folder) => {
    const home = join(folder, "home");
    const project = join(folder, "project");
    mkdirSync(project);
    const store = await openHome(home);
    store.db.pragma("synchronous = OFF");
    store.db.transaction(() => fill(store.db))();
    const sums = new CostStore(store.db);
    const begun = performance.now();
    store.db.transaction(() => {
      sums.useZone(localCalendar.zone);
      sums.addSome(Number.MAX_SAFE_INTEGER, Date.now(), localCalendar);
    })();
    const addedMs = performance.now() - begun;
    // A running job of these rows has no snapshot that a control plane could continue: it would be parked.
    store.db.prepare("UPDATE job SET parked = 'bench' WHERE state <> 'terminal'").run();
    store.db.pragma("synchronous = FULL");
    store.db.close();
    const served = await Served.start(home, project);
    const medians: number[] = [];
    const healths: number[] = [];
    try {
      for (let round = 0; round <= ROUNDS; round++) {
        const ms: number[] = [];
        const plain: number[] = [];
        for (let i = 0; i < ASKS; i++)
          for (const by of COST_DIMENSIONS) {
            const page = await served.get(`/v1/costs?by=${by}`);
            if (page.status !== 200) throw new Error(`GET /v1/costs: ${page.status}`);
            ms.push(page.ms);
            plain.push((await served.get("/v1/health")).ms);
          }
        if (round === 0) continue;
        medians.push(median(ms));
        healths.push(median(plain));
      }
    } finally {
      await served.stop();
    }
    return [
      rowOf({
        what: "GET /v1/costs of 20,000 runs and 100,000 machines, p50 over all six dimensions",
        unit: "ms",
        values: medians,
        baseline: healths,
        compared: (f, b) => `+${(f - b).toFixed(1)} ms over /v1/health`,
        target: "< 20 ms",
        met: (f) => f < 20,
      }),
      rowOf({
        what: "adding 100,000 machines to the sums, once",
        unit: "s",
        values: [addedMs / 1_000],
        target: "< 60 s",
        met: (f) => f < 60,
      }),
    ];
  });
}

export const costs: Bench = { name: "costs", about: "costs of 100,000 machines", measure };
