// The test world of the steps that rent and release: the real ledger, a cloud in memory, a virtual clock.

import { pause } from "../../src/domain/clock.ts";
import { nodePrefix } from "../../src/domain/machine-names.ts";
import { DurableLedger } from "../../src/engine/ledger.ts";
import { SvcError } from "../../src/errors/index.ts";
import { RunSpec, type RunSpecInput } from "../../src/schemas/spec.ts";
import { MachineLooks } from "../../src/steps/rental/machine-looks.ts";
import { TunnelOutages } from "../../src/steps/rental/tunnel-outage.ts";
import type { Search, StepPorts } from "../../src/steps/ports.ts";
import type { StepContext, StepDefinition } from "../../src/steps/step.ts";
import { Harness, INSTALLATION } from "../engine/harness.ts";
import { down, SmallCloud } from "../engine/small-cloud.ts";

export class Rent {
  readonly h: Harness;
  readonly cloud = new SmallCloud();
  readonly ledger: DurableLedger;
  readonly ports: StepPorts;
  spec: RunSpec = RunSpec.parse({ entrypoint: "train.py", provider: "podhost" });
  /** The candidates of a waiting job. */
  search: Search = { candidates: [], choose: "in_order", since: 0, waitMs: 0, refusals: [], unfit: [] };
  searches = false;
  controller = new AbortController();
  /** The last report of the step. */
  progress: Record<string, unknown> = {};
  /** When each step first failed with each error; the engine reads this from the attempts. */
  readonly #failed = new Map<string, number>();

  private constructor(h: Harness) {
    this.h = h;
    this.ledger = new DurableLedger(h.engine);
    this.ports = {
      installationId: INSTALLATION,
      now: h.clock.now,
      facts: (id) => ({ id, spec: this.spec, projectDir: "/p", placement: 1 }),
      search: () => this.search,
      searches: () => this.searches,
      pause: (ms, signal) => pause(h.clock, ms, signal),
      provider: () => this.cloud,
      ledger: this.ledger,
      ways: new TunnelOutages(h.clock.now),
      looks: new MachineLooks(h.clock.now),
    };
  }

  static async open(): Promise<Rent> {
    return new Rent(await Harness.open());
  }

  want(spec: Partial<RunSpecInput>): void {
    this.spec = RunSpec.parse({ entrypoint: "train.py", provider: "podhost", ...spec });
  }

  name(ordinal: number, node = 0): string {
    return `${nodePrefix(INSTALLATION, "job1", node)}${ordinal}`;
  }

  /** Runs one attempt of the step, like the engine. */
  /** The orders that were sent. */
  creates(): string[] {
    return this.cloud.calls.filter((call) => call.startsWith("create"));
  }

  /** From now on the answers of orders are lost. */
  loseAnswers(): void {
    this.cloud.answering = () => {
      throw down();
    };
  }

  async run(step: (ports: StepPorts) => StepDefinition, node = 0, effectId = 1): ReturnType<StepDefinition["run"]> {
    const definition = step(this.ports);
    const failure = (code: string): string => `${definition.name} ${node} ${code}`;
    const context: StepContext = {
      jobId: "job1",
      node,
      attempt: 1,
      effectId,
      signal: this.controller.signal,
      firstFailedAt: (code) => this.#failed.get(failure(code)) ?? null,
      progress: (detail) => void (this.progress = detail),
    };
    try {
      return await definition.run(context);
    } catch (e) {
      if (e instanceof SvcError && !this.#failed.has(failure(e.code)))
        this.#failed.set(failure(e.code), this.h.clock.now());
      throw e;
    }
  }

  /** Runs attempts until the step is done; returns the waits in between, in milliseconds. */
  async runToEnd(step: (ports: StepPorts) => StepDefinition, looksMax = 100): Promise<number[]> {
    const waits: number[] = [];
    for (let look = 0; look < looksMax; look++) {
      const result = await this.run(step);
      if ("done" in result) return waits;
      waits.push(result.later.afterMs);
      await this.h.clock.advance(result.later.afterMs);
    }
    throw new RangeError(`not done after ${looksMax} looks`);
  }

  states(): string[] {
    return this.h.store.db
      .prepare<[], { ordinal: number; state: string }>("SELECT ordinal, state FROM machine ORDER BY name")
      .all()
      .map((m) => `${m.ordinal} ${m.state}`);
  }
}
