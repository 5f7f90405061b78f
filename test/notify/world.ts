// The real engine and store with notifications, a clock that the test advances, and receivers on this computer.

import { createServer, type IncomingHttpHeaders, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, afterEach, expect } from "vitest";
import { Redactor } from "../../src/domain/redaction.ts";
import { Notifier } from "../../src/notify/notifier.ts";
import { Outbox } from "../../src/notify/outbox.ts";
import { NotifyService } from "../../src/notify/service.ts";
import { Targets } from "../../src/notify/targets.ts";
import type { NotifyTargetBody } from "../../src/schemas/notify.ts";
import { exclusively } from "../../src/store/file-lock.ts";
import { NotifyStore } from "../../src/store/notify-store.ts";
import { DEADLINE_MS } from "../deadline.ts";
import { Harness, removeHomes, turn, type HarnessOptions } from "../engine/harness.ts";

const servers: Server[] = [];
const worlds: NotifyWorld[] = [];
afterEach(async () => {
  for (const world of worlds.splice(0)) await world.end();
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});
afterAll(removeHomes);

export interface Received {
  path: string;
  headers: IncomingHttpHeaders;
  body: string;
}

/** A receiver that answers with the next of `answers`, and with 200 after them. */
export class Receiver {
  readonly got: Received[] = [];
  answers: ({ status: number; headers?: Record<string, string>; body?: string } | "hang" | "reset")[] = [];
  url = "";

  static async open(): Promise<Receiver> {
    const made = new Receiver();
    const server = createServer((request, response) => {
      const parts: Buffer[] = [];
      request.on("data", (part: Buffer) => parts.push(part));
      request.on("end", () => {
        made.got.push({ path: request.url ?? "", headers: request.headers, body: Buffer.concat(parts).toString() });
        const answer = made.answers.shift() ?? { status: 200 };
        if (answer === "hang") return;
        if (answer === "reset") return void request.socket.destroy();
        response.writeHead(answer.status, answer.headers).end(answer.body ?? "");
      });
    });
    servers.push(server);
    await new Promise<void>((up) => server.listen(0, "127.0.0.1", up));
    made.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    return made;
  }

  /** Resolves once it has received so many requests. */
  async received(count: number): Promise<Received[]> {
    await expect.poll(() => this.got.length, { timeout: DEADLINE_MS }).toBeGreaterThanOrEqual(count);
    return this.got;
  }

  json(index: number): Record<string, unknown> {
    return JSON.parse(this.got[index]?.body ?? "null") as Record<string, unknown>;
  }
}

export class NotifyWorld {
  readonly h: Harness;
  readonly rows: NotifyStore;
  readonly outbox: Outbox;
  readonly targets: Targets;
  readonly notifier: Notifier;
  readonly service: NotifyService;
  readonly reports: string[] = [];
  secrets: string[] = [];

  constructor(h: Harness, heard: { outbox: Outbox | null }) {
    this.h = h;
    worlds.push(this);
    const { store, engine, clock, reads, home } = h;
    this.rows = new NotifyStore(store.db);
    const report = (line: string): void => void this.reports.push(line);
    const commit = <T>(fn: () => T): Promise<T> => engine.commit(fn);
    const remember = (values: readonly string[]): void => void this.secrets.push(...values);
    this.targets = new Targets({ home, env: process.env, rows: this.rows, remember, exclusively, report });
    const redactor = (): Redactor => new Redactor(this.secrets);
    const message = { reads, rows: this.rows, redactor, now: clock.now };
    this.notifier = new Notifier({
      env: process.env,
      clock,
      rows: this.rows,
      targets: this.targets,
      commit,
      message,
      report,
    });
    this.outbox = new Outbox(this.rows, () => this.notifier.wake());
    heard.outbox = this.outbox;
    this.service = new NotifyService({
      rows: this.rows,
      targets: this.targets,
      notifier: this.notifier,
      commit,
      now: clock.now,
      ruled: () => undefined,
    });
  }

  static async open(before?: NotifyWorld, more: Pick<HarnessOptions, "retry"> = {}): Promise<NotifyWorld> {
    const heard: { outbox: Outbox | null } = { outbox: null };
    const options = {
      ...more,
      engine: { noticed: (...given: Parameters<Outbox["heard"]>) => heard.outbox?.heard(...given) },
    };
    if (before) await before.notifier.stop();
    const h = before ? await before.h.restart(options) : await Harness.open(options);
    if (before) worlds.splice(worlds.indexOf(before), 1);
    return new NotifyWorld(h, heard);
  }

  async add(name: string, target: NotifyTargetBody["target"], secret?: string): Promise<void> {
    await this.service.save(name, { target, ...(secret === undefined ? {} : { secret }) });
  }

  async addWebhook(name: string, receiver: Receiver, secret = "the key of the hook"): Promise<void> {
    await this.add(name, { kind: "webhook", url: `${receiver.url}/hook`, allow_private: true }, secret);
  }

  /** A notice, as any part of svc may record one. */
  async tell(words: string, job_id: string | null = null): Promise<void> {
    await this.h.engine.commit((tx) => this.outbox.add(tx, { job_id, kind: "alert", words, cause: words }));
  }

  states(): { target: string; state: string; attempts: number; kind: string }[] {
    return this.service
      .deliveries({ limit: 200 })
      .deliveries.map(({ target, state, attempts, kind }) => ({ target, state, attempts, kind }))
      .toReversed();
  }

  /** Waits until no message waits, while time stands still. */
  async settled(): Promise<void> {
    await expect.poll(() => this.rows.waitingTargets(), { timeout: DEADLINE_MS }).toEqual([]);
    await turn();
  }

  async end(): Promise<void> {
    await this.notifier.stop();
    if (this.h.store.db.open) await this.h.end();
  }
}
