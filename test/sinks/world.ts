// The real engine and store in a temporary home, with sinks that copy to a double. Time is virtual: it advances while a
// test waits.

import { randomBytes } from "node:crypto";
import { mkdirSync, utimesSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { vi } from "vitest";
import { sinksOf } from "../../src/app/sinks.ts";
import { DurableStorySink } from "../../src/engine/run-log-writer.ts";
import { RunSpec, type RunSpecInput } from "../../src/schemas/spec.ts";
import type { SinkStatus } from "../../src/schemas/sink-status.ts";
import type { SinkSet } from "../../src/sinks/sinks.ts";
import { DEADLINE_MS } from "../deadline.ts";
import { Harness, newHome, START } from "../engine/harness.ts";

const KEY = Buffer.alloc(32, 7);
export const JOB = "job1";

export class World {
  readonly h: Harness;
  readonly sinks: SinkSet;
  readonly story: DurableStorySink;
  readonly reports: string[] = [];
  #offset = 0;

  private constructor(h: Harness, env: NodeJS.ProcessEnv) {
    this.h = h;
    this.story = new DurableStorySink({ engine: h.engine, home: h.home, hint: () => this.sinks.changed(JOB) });
    this.sinks = sinksOf({
      home: h.home,
      env,
      clock: h.clock,
      engine: h.engine,
      key: KEY,
      logBytes: (id) => h.reads.logBytes(id),
      report: (line) => void this.reports.push(line),
    });
    this.#offset = this.story.cursor(JOB, 0, "run").sourceOffset;
  }

  static async open(env: NodeJS.ProcessEnv = {}, home = newHome()): Promise<World> {
    return new World(await Harness.open({}, home), env);
  }

  /** Submits a run like the service does. */
  async submit(spec: Partial<RunSpecInput>): Promise<void> {
    const whole = RunSpec.parse({ entrypoint: "train.py", ...spec });
    await this.sinks.check(whole, JOB);
    await this.h.engine.create({
      id: JOB,
      input: { nodes: 1, max_runtime_ms: null },
      row: {
        label: null,
        provider: "local",
        gpus: "cpu",
        nodes: 1,
        spec: JSON.stringify(whole),
        code_snapshot: null,
        left_out: null,
        idem_key: null,
        idem_hash: null,
      },
      also: () => this.sinks.enter(JOB, whole),
    });
    this.sinks.begin();
  }

  /** Simulates a downloaded file. */
  async checkpoint(path: string, bytes: Buffer | string, modifiedAt = START): Promise<void> {
    const file = join(this.h.home, "artifacts", JOB, "checkpoints", path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, bytes);
    utimesSync(file, modifiedAt / 1_000, modifiedAt / 1_000);
    const modified_at = new Date(modifiedAt).toISOString();
    await this.story.checkpoints(JOB, [{ path, size: Buffer.byteLength(bytes), modified_at }]);
    this.sinks.changed(JOB);
  }

  async log(text: string): Promise<void> {
    const from = { sourceOffset: this.#offset, samplesOffset: 0 };
    this.#offset += Buffer.byteLength(text);
    const part = { text: Buffer.from(text), records: [], samples: [], times: [] };
    await this.story.append({
      jobId: JOB,
      node: 0,
      stream: "run",
      from,
      to: { ...from, sourceOffset: this.#offset },
      ...part,
    });
  }

  /** Ends the run successfully. */
  async over(): Promise<void> {
    await (await this.h.upTo("terminate")).done();
    await vi.waitUntil(() => this.h.row(JOB).state === "terminal", { timeout: DEADLINE_MS });
    this.sinks.changed(JOB);
  }

  get status(): SinkStatus {
    const [status] = this.h.reads.sinks(JOB);
    if (!status) throw new Error("the job has no sink");
    return status;
  }

  /** Advances time until the condition holds. */
  async until(what: string, condition: () => boolean): Promise<void> {
    const deadline = Date.now() + 60_000;
    while (!condition()) {
      if (Date.now() > deadline)
        throw new Error(`${what}: not so; ${JSON.stringify(this.h.reads.sinks(JOB))} ${this.reports.join()}`);
      await this.h.clock.advance(1_000);
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }

  events(type: string) {
    return this.h.published.filter((event) => event.type === type);
  }

  async end(): Promise<void> {
    await this.sinks.stop();
    await this.story.close();
    await this.h.end();
  }

  /** Another control plane takes over the home. */
  async restart(env: NodeJS.ProcessEnv = {}): Promise<World> {
    await this.end();
    const next = await World.open(env, this.h.home);
    await next.h.engine.recover();
    next.sinks.begin();
    return next;
  }
}

/** Content that cannot be compressed or guessed. */
export const noise = (bytes: number): Buffer => randomBytes(bytes);
export const MIB = 1024 * 1024;
