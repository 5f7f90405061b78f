// Rows of the memory of hosts: one verdict for each rented machine. Writes are called within a transaction.

import type { Sqlite } from "./database.ts";
import { columns, lit, p, prepare, q } from "./statements.ts";
import type { HostVerdictRow } from "./tables.ts";

export type BadHost = Pick<HostVerdictRow, "gpu" | "at"> & { host: string; reason: string | null };

export class HostStore {
  readonly #s;

  constructor(db: Sqlite) {
    const ofMachine = q.updateTable("host_verdict").where("machine", "=", p("machine"));
    this.#s = {
      get: prepare<HostVerdictRow>(db, q.selectFrom("host_verdict").selectAll().where("machine", "=", p("machine"))),
      insert: prepare(
        db,
        q
          .insertInto("host_verdict")
          .values(
            columns("machine", "provider", "gpu", "host", "gpu_uuids", "verdict", "reason", "boot_seconds", "at"),
          ),
      ),
      verdict: prepare(db, ofMachine.set(columns("verdict", "reason", "at"))),
      gpus: prepare(db, ofMachine.set(columns("gpu_uuids"))),
      drop: prepare(db, q.deleteFrom("host_verdict").where("at", "<", p("before"))),
      // The newest verdict of a host counts: one that has served a run since is not avoided.
      newest: prepare<Pick<HostVerdictRow, "host" | "gpu" | "reason" | "verdict" | "at">>(
        db,
        q
          .selectFrom("host_verdict as v")
          .select(["v.host", "v.gpu", "v.reason", "v.verdict", "v.at"])
          .where("v.provider", "=", p("provider"))
          .where("v.host", "is not", null)
          .where("v.at", ">=", p("since"))
          .orderBy("v.at"),
      ),
      bad: prepare<HostVerdictRow>(
        db,
        q
          .selectFrom("host_verdict")
          .selectAll()
          .where("provider", "=", p("provider"))
          .where("verdict", "=", lit("bad"))
          .where("gpu_uuids", "is not", null)
          .where("at", ">=", p("since"))
          .orderBy("at", "desc"),
      ),
    };
  }

  get(machine: string): HostVerdictRow | undefined {
    return this.#s.get.get({ machine });
  }

  insert(row: HostVerdictRow): void {
    this.#s.insert.run(row);
  }

  verdict(machine: string, verdict: HostVerdictRow["verdict"], reason: string | null, at: number): void {
    this.#s.verdict.run({ machine, verdict, reason, at });
  }

  gpus(machine: string, uuids: readonly string[]): void {
    this.#s.gpus.run({ machine, gpu_uuids: JSON.stringify(uuids) });
  }

  dropBefore(before: number): void {
    this.#s.drop.run({ before });
  }

  /** Hosts whose newest verdict is bad. */
  badHosts(provider: string, since: number): BadHost[] {
    const newest = new Map<string, BadHost & { bad: boolean }>();
    for (const { host, gpu, reason, verdict, at } of this.#s.newest.all({ provider, since }))
      if (host !== null) newest.set(host, { host, gpu, reason, at, bad: verdict === "bad" });
    return [...newest.values()].filter(({ bad }) => bad);
  }

  /** The newest bad verdict on a machine that had one of these GPUs, other than `machine` itself. */
  badGpu(provider: string, uuids: readonly string[], machine: string, since: number): HostVerdictRow | null {
    const wanted = new Set(uuids);
    const has = ({ gpu_uuids }: HostVerdictRow): boolean =>
      (JSON.parse(gpu_uuids ?? "[]") as string[]).some((uuid) => wanted.has(uuid));
    return this.#s.bad.all({ provider, since }).find((row) => row.machine !== machine && has(row)) ?? null;
  }
}
