// Messages across a kill -9 of the real control plane: between an event and its message, and between a message and its answer.

import { createServer, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, expect, it } from "vitest";
import { DEADLINE_MS } from "../deadline.ts";
import { Place, until, type Served } from "./harness.ts";

interface Got {
  id: string;
  kind: string;
  body: string;
  at: number;
}

/** A webhook receiver that answers, or keeps its sender waiting. */
class Receiver {
  readonly got: Got[] = [];
  isHanging = false;
  readonly #held: ServerResponse[] = [];
  readonly #server: Server;

  constructor() {
    this.#server = createServer((request, response) => {
      let body = "";
      request.on("data", (part: Buffer) => (body += part.toString()));
      request.on("end", () => {
        const { kind } = JSON.parse(body) as { kind: string };
        this.got.push({ id: String(request.headers["svc-id"]), kind, body, at: performance.now() });
        if (this.isHanging) this.#held.push(response);
        else response.writeHead(200).end();
      });
    });
  }
  async url(): Promise<string> {
    await new Promise<void>((up) => this.#server.listen(0, "127.0.0.1", up));
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/hook`;
  }
  /** The messages about the end of a run: the next command of each names it. */
  of(job: string): Got[] {
    return this.got.filter(({ kind, body }) => kind === "finished" && body.includes(job));
  }
  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }
}

const place = Place.own("it is killed");
const hook = new Receiver();
const other = new Receiver();
afterAll(async () => {
  await place.close();
  hook.close();
  other.close();
});

async function target(served: Served, name: string, url: string): Promise<void> {
  const answer = await fetch(`${served.url}/v1/notifications/targets/${name}`, {
    method: "PUT",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ target: { kind: "webhook", url, allow_private: true } }),
  });
  expect(answer.ok, await answer.text()).toBe(true);
}
const submit = (served: Served): Promise<string> =>
  served.submit({ entrypoint: "short.py", terminate_on_exit: false, install: "none" });
/** Notices of the run, in the order of their commits. */
const notices = (job: string): number =>
  place.db(
    (db) => db.prepare<[string], { n: number }>("SELECT count(*) AS n FROM notice WHERE job_id = ?").get(job)?.n ?? 0,
  );

it(
  "A message whose answer a kill -9 lost is repeated with the same id after the restart, and a target that hangs holds up no run",
  { timeout: 8 * DEADLINE_MS },
  async () => {
    place.file("short.py", "print('done')\n");
    let served = await place.serve();
    await target(served, "hook", await hook.url());
    await target(served, "other", await other.url());
    hook.isHanging = true;
    const first = await submit(served);
    expect((await served.ended(first)).status).toBe("succeeded");
    await until(
      () => hook.of(first).length === 1,
      () => `the first attempt: ${place.lastWords()}`,
    );
    // The other target and the next run do not wait for it.
    const second = await submit(served);
    expect((await served.ended(second)).status).toBe("succeeded");
    await until(() => other.of(second).length === 1, "the other target hears of the second run");
    await served.kill();
    hook.isHanging = false;
    served = await place.serve();
    const restartedAt = performance.now();
    await until(
      () => hook.of(first).length >= 2,
      () => `the repeat: ${place.lastWords()}`,
    );
    console.log(`repeated ${Math.round((hook.of(first)[1]?.at ?? 0) - restartedAt)} ms after the restart`);
    expect(new Set(hook.of(first).map(({ id }) => id)).size).toBe(1);
    await until(() => hook.of(second).length === 1, "the second run's message follows");
    expect(other.of(first)).toHaveLength(1);
    await served.kill();
  },
);

it(
  "An event that was committed before a kill -9 is delivered after the restart, under one id, wherever the kill strikes",
  { timeout: 12 * DEADLINE_MS },
  async () => {
    place.file("short.py", "print('done')\n");
    const waited: number[] = [];
    for (let round = 0; round < 4; round++) {
      let served = await place.serve();
      const id = await submit(served);
      await until(
        () => notices(id) > 0,
        () => `the event of ${id}: ${place.lastWords()}`,
      );
      await served.kill();
      const before = hook.of(id).length;
      served = await place.serve();
      const restartedAt = performance.now();
      await until(
        () => hook.of(id).length > 0 && other.of(id).length > 0,
        () => `${id}: ${place.lastWords()}`,
      );
      if (before === 0) waited.push((hook.of(id)[0]?.at ?? 0) - restartedAt);
      for (const receiver of [hook, other]) {
        const ids = receiver.of(id).map((one) => one.id);
        expect(new Set(ids).size, ids.join()).toBe(1);
      }
      await served.kill();
    }
    console.log(
      `delivered after the restart, in ms: ${waited.map(Math.round).join(", ") || "none was left to deliver"}`,
    );
  },
);
