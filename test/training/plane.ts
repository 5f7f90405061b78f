// A separate control plane, and one run on it to its end.

import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { openControlPlane, type OpenControlPlane } from "../../src/app/app.ts";
import type { JobRecord } from "../../src/schemas/job.ts";
import { SubmitBody, type RunSpecInput } from "../../src/schemas/spec.ts";

/** A Python that has torch; undefined where none was named. */
export const TORCH_PYTHON = process.env["SVC_TEST_TORCH_PYTHON"];
export const RANKS = join(import.meta.dirname, "projects", "ranks");

export interface Ended {
  job: JobRecord;
  log: string;
}

export class Plane {
  readonly cp: OpenControlPlane;
  constructor(cp: OpenControlPlane) {
    this.cp = cp;
  }

  static async open(home: string, env: NodeJS.ProcessEnv): Promise<Plane> {
    return new Plane(await openControlPlane({ home, env: { ...process.env, ...env } }));
  }

  async start(spec: RunSpecInput): Promise<string> {
    const body = SubmitBody.parse({ spec });
    return (await this.cp.submit(body, { defaultProjectDir: "/" })).record.id;
  }

  log(id: string): string {
    return this.cp.reads.readLog(id, 0, 1 << 20).toString();
  }

  /** Resolves as soon as `seen` returns true, checked after every event. */
  until(seen: () => boolean): Promise<void> {
    return new Promise((resolve) => {
      const look = (): void => {
        if (!seen()) return;
        clearInterval(timer);
        stop();
        resolve();
      };
      const stop = this.cp.subscribe(look);
      const timer = setInterval(look, 200);
    });
  }

  async end(id: string): Promise<Ended> {
    const over = () => ["succeeded", "failed", "cancelled", "interrupted", "timed_out"].includes(this.job(id).status);
    await this.until(over);
    return { job: this.job(id), log: this.log(id) };
  }

  async run(spec: RunSpecInput): Promise<Ended> {
    return this.end(await this.start(spec));
  }

  job(id: string): JobRecord {
    const job = this.cp.reads.job(id);
    if (!job) throw new RangeError(`no job ${id}`);
    return job;
  }
}

/** Pids that the ranks have printed and that still exist. */
export function alive(log: string): number[] {
  return [...log.matchAll(/^(?:\[rank\d+\] )?rank \d+ of \d+: \d+; pid (\d+)$/gm)]
    .map((m) => Number(m[1]))
    .filter((pid) => existsSync(`/proc/${pid}`));
}

/** The folders of this computer that a simulated machine needs to have the Python with torch at /opt/venv. */
export function bindsOf(python: string, base: string): string[] {
  const prefix = dirname(dirname(base));
  return [`${dirname(dirname(python))}:/opt/venv`, ...(prefix === "/usr" ? [] : [`${prefix}:${prefix}`])];
}
