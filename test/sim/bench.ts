// Folders for the runs of one process: each run begins with a copy of an empty home.

import { copyFileSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { INSTALLATION, templateHome } from "./incarnation.ts";
import type { Plan } from "./plan.ts";
import { Simulation, type Result } from "./simulation.ts";

/** Folders for many runs of one process, in memory where the system has such a place. */
export class Bench {
  readonly folder = mkdtempSync(join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "svc-sim-"));
  #template: string | null = null;
  #runs = 0;

  async home(): Promise<string> {
    this.#template ??= await templateHome(join(this.folder, "template"));
    const home = join(this.folder, `run${this.#runs++}`);
    mkdirSync(home);
    copyFileSync(this.#template, join(home, "svc.db"));
    writeFileSync(join(home, "installation.json"), JSON.stringify({ installation_id: INSTALLATION }));
    return home;
  }

  async run(plan: Plan, options: { trace?: boolean } = {}): Promise<Result> {
    const home = await this.home();
    try {
      return await new Simulation(plan, home, options.trace ?? false).run();
    } finally {
      rmSync(home, { recursive: true, force: true });
    }
  }

  close(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}
