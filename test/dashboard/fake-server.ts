// A small server that speaks the API's contract from memory and serves the built dashboard under the same strict policy as
// the real one, so that the dashboard can be brought into any situation.

import { COST_DIMENSIONS } from "../../src/schemas/cost-names.ts";
import { fakeCosts, fakeReceipt } from "./fake-costs.ts";
import { fakeFolder } from "./fake-folders.ts";
import { fakeNotify, Refusal } from "./fake-notify.ts";
import { fakeLimits } from "./fake-limits.ts";
import { fakeRetention } from "./fake-retention.ts";
import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";
import { extname, join } from "node:path";
import { WebSocketServer, type WebSocket } from "ws";
import type {
  CheckpointFile,
  CodeSnapshot,
  FeedEvent,
  JobRecord,
  LedgerMachine,
  MetricPoint,
  ProviderInfo,
  Timeline,
} from "../../src/schemas/job.ts";
import type { ResumePoint } from "../../src/schemas/job.ts";
import type { LiveOffer } from "../../src/schemas/offers.ts";
import type { Placements } from "../../src/schemas/placement.ts";
import type { Summary } from "../../src/schemas/plan.ts";
import type { CheckpointsRemoved } from "../../src/schemas/removal.ts";
import { HOSTILE, metricSummaries, runPart } from "./fake-run-parts.ts";

export const CSP =
  "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self' ws://127.0.0.1:*; " +
  "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

const TYPES: Record<string, string> = {
  ".html": "text/html",
  ".js": "text/javascript",
  ".css": "text/css",
  ".svg": "image/svg+xml",
};

export interface FakeRun {
  record: JobRecord;
  timeline: Timeline;
  placements?: Placements;
  log: Buffer;
  metrics: Record<string, MetricPoint[]>;
  checkpoints: CheckpointFile[];
  code: CodeSnapshot;
}

export interface FakeWorld {
  runs: FakeRun[];
  machines: LedgerMachine[];
  providers: ProviderInfo[];
  /** Answers for further paths below /v1/, with the bodies of the requests. */
  answers?: Record<string, unknown>;
}

export interface Seen {
  method: string;
  path: string;
  body: unknown;
  key: string | undefined;
}

const problem = (
  status: number,
  code: string,
  detail: string,
  hint: string,
  errors?: { field: string; message: string }[],
) => ({
  type: "about:blank",
  title: code,
  status,
  detail,
  code,
  hint,
  ...(errors ? { errors } : {}),
});

export class FakeServer {
  readonly world: FakeWorld;
  /** Every answered request, oldest first. */
  readonly seen: Seen[] = [];
  /** Makes the run of a POST /jobs. */
  makeRun: (label: string | null, spec: Record<string, unknown>) => FakeRun;
  /** So many of the next sockets are neither accepted nor refused. */
  silent = 0;
  readonly #held: Duplex[] = [];
  readonly #dist: string;
  readonly #http: Server;
  readonly #sockets = new WebSocketServer({ noServer: true });
  readonly #feed: FeedEvent[] = [];
  readonly #keys = new Map<string, FakeRun>();
  #refusing = false;

  constructor(dist: string, world: FakeWorld, makeRun: FakeServer["makeRun"]) {
    this.#dist = dist;
    this.world = world;
    this.makeRun = makeRun;
    this.#http = createServer((request, response) => void this.#answer(request, response));
    this.#http.on("upgrade", (request, socket, head) => {
      if (this.#refusing) return void socket.destroy();
      if (this.silent > 0) {
        this.silent--;
        return void this.#held.push(socket);
      }
      this.#sockets.handleUpgrade(request, socket, head, (ws) =>
        this.#opened(ws, new URL(request.url ?? "/", "http://x")),
      );
    });
  }

  async listen(): Promise<string> {
    await new Promise<void>((resolve) => this.#http.listen(0, "127.0.0.1", resolve));
    return `http://127.0.0.1:${(this.#http.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    for (const ws of this.#sockets.clients) ws.terminate();
    for (const socket of this.#held) socket.destroy();
    this.#http.closeAllConnections();
    await new Promise((resolve) => this.#http.close(resolve));
  }

  run(id: string): FakeRun {
    const found = this.world.runs.find((run) => run.record.id === id);
    if (!found) throw new Error(`the fake server has no run ${id}`);
    return found;
  }

  /** Adds an event to the feed, as the engine does after its commit. */
  emit(type: string, jobId: string | null, data: Record<string, unknown> = {}): void {
    const event: FeedEvent = { seq: this.#feed.length + 1, job_id: jobId, at: new Date().toISOString(), type, data };
    this.#feed.push(event);
    this.#tell(event);
  }

  appendLog(id: string, text: string): void {
    const run = this.run(id);
    run.log = Buffer.concat([run.log, Buffer.from(text)]);
    this.#tell({ type: "log.advanced", job_id: id });
  }

  appendMetric(id: string, name: string, point: MetricPoint): void {
    (this.run(id).metrics[name] ??= []).push(point);
    this.#tell({ type: "metrics.advanced", job_id: id });
  }

  /** Cuts every socket; while refusing, no new one is accepted and every request is cut too. */
  cut(refusing: boolean): void {
    this.#refusing = refusing;
    for (const ws of this.#sockets.clients) ws.terminate();
  }

  #tell(message: unknown): void {
    for (const ws of this.#sockets.clients) ws.send(JSON.stringify(message));
  }

  #opened(ws: WebSocket, url: URL): void {
    const since = url.searchParams.get("since");
    if (since === null) return;
    for (const event of this.#feed) if (event.seq > Number(since)) ws.send(JSON.stringify(event));
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (this.#refusing) return void request.socket.destroy();
    const url = new URL(request.url ?? "/", "http://x");
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const text = Buffer.concat(chunks).toString();
    const body: unknown = text ? JSON.parse(text) : null;
    const key = request.headers["idempotency-key"];
    const method = request.method ?? "GET";
    this.seen.push({ method, path: url.pathname + url.search, body, key: typeof key === "string" ? key : undefined });
    const parts = url.pathname.split("/").filter(Boolean).map(decodeURIComponent);
    if (parts[0] === "jobs")
      return this.#jobs(method, parts.slice(1), url, body, typeof key === "string" ? key : null, response);
    if (parts[0] === "v1") return this.#system(parts.slice(1).join("/"), url, body, response);
    this.#file(url.pathname, response);
  }

  async #jobs(
    method: string,
    [id, part, ...rest]: string[],
    url: URL,
    body: unknown,
    key: string | null,
    response: ServerResponse,
  ): Promise<void> {
    if (id === undefined) return method === "POST" ? this.#submit(body, key, response) : this.#list(url, response);
    const run = this.world.runs.find((each) => each.record.id === id);
    if (!run) return json(response, 404, problem(404, "job_not_found", `There is no job ${id}.`, "See `svc jobs`."));
    if (part === undefined && method === "DELETE") {
      this.world.runs.splice(this.world.runs.indexOf(run), 1);
      return json(response, 200, { id, freed_bytes: run.record.disk_bytes ?? 0 });
    }
    if (part === undefined && method === "PATCH") return this.#change(run, body, response);
    if (part === undefined) return json(response, 200, run.record);
    if (part === "checkpoints" && rest[0] === "remove" && method === "POST")
      return this.#removeCheckpoints(run, body, response);
    if (part === "archive" || part === "unarchive") {
      run.record = { ...run.record, archived_at: part === "archive" ? new Date().toISOString() : null };
      this.emit("job.archived", id, { archived: part === "archive" });
      return json(response, 200, run.record);
    }
    if (part === "kill") return this.#kill(run, response);
    const answer = await runPart(run, [part, ...rest].join("/"), url);
    if (answer !== undefined) return json(response, 200, answer);
    if (part === "timeline") return json(response, 200, run.timeline);
    if (part === "receipt") return json(response, 200, { ...fakeReceipt(id), status: run.record.status });
    if (part === "resume-points") return json(response, 200, { checkpoints: pointsOf(run.checkpoints) });
    if (part === "placements") return json(response, 200, run.placements ?? { placements: [], waiting: null });
    if (part === "metrics") return this.#metrics(run, url, response);
    if (part === "code" && rest[0] === "files")
      return void response.writeHead(200, { "content-type": "text/plain; charset=utf-8" }).end(`print("${HOSTILE}")\n`);
    if (part === "code") return json(response, 200, run.code);
    if (part === "logs") return this.#logs(run, url, response);
    if (rest.length === 0) return json(response, 200, { files: run.checkpoints });
    response
      .writeHead(200, { "content-type": "application/octet-stream", "content-disposition": "attachment" })
      .end("weights");
  }

  #removeCheckpoints(run: FakeRun, body: unknown, response: ServerResponse): void {
    const { names, dry_run: dryRun } = body as { names: string[]; dry_run: boolean };
    const { id, ended_at: endedAt } = run.record;
    if (endedAt === null || names.some((name) => name.includes("in-use")))
      return json(response, 409, problem(409, "checkpoint_not_removable", "The run r9 resumes from it.", "Wait."));
    const files = (name: string) => run.checkpoints.filter(({ path }) => path === name || path.startsWith(`${name}/`));
    const found = names.map((name) => ({ name, files: files(name).length, bytes: bytesOf(files(name)) }));
    const freed = found.reduce((sum, each) => sum + each.bytes, 0);
    if (!dryRun) {
      const gone = new Set(names.flatMap(files));
      run.checkpoints = run.checkpoints.filter((file) => !gone.has(file));
      for (const { name, bytes } of found) if (bytes > 0) this.emit("checkpoint.removed", id, { name, bytes });
    }
    const answer = { id, dry_run: dryRun, checkpoints: found, freed_bytes: freed, linked_bytes: 0, left_bytes: 0 };
    json(response, 200, answer satisfies CheckpointsRemoved);
  }

  #list(url: URL, response: ServerResponse): void {
    const status = url.searchParams.get("status");
    const from = Number(url.searchParams.get("cursor") ?? 0);
    const limit = Number(url.searchParams.get("limit") ?? 50);
    const ids = url.searchParams.get("ids")?.split(",");
    const all = this.#selected(url).filter(
      (job) =>
        (status === null || status.split(",").includes(job.status)) && (ids === undefined || ids.includes(job.id)),
    );
    all.sort((a, b) => b.created_at.localeCompare(a.created_at));
    json(response, 200, {
      jobs: all.slice(from, from + limit),
      next_cursor: from + limit < all.length ? String(from + limit) : null,
    });
  }

  /** The runs of the filter that lists and counts share. */
  #selected({ searchParams }: URL): JobRecord[] {
    const text = searchParams.get("q")?.toLowerCase() ?? "";
    const provider = searchParams.get("provider");
    const tags = searchParams.get("tag")?.split(",") ?? [];
    const archived = searchParams.get("archived") ?? (searchParams.has("ids") ? "all" : "hidden");
    const [from, until] = [searchParams.get("created_from") ?? "", searchParams.get("created_until") ?? "~"];
    return this.world.runs
      .map((run) => run.record)
      .filter(
        (job) =>
          (provider === null || job.provider === provider) &&
          tags.every((tag) => job.tags.includes(tag)) &&
          (archived === "all" || (job.archived_at !== null) === (archived === "only")) &&
          job.created_at >= from &&
          job.created_at < until &&
          `${job.id} ${job.label ?? ""} ${job.provider} ${job.gpus} ${job.entrypoint}`.toLowerCase().includes(text),
      );
  }

  #summary(url: URL): Summary {
    const runs: Summary["runs"] = {};
    const selected = this.#selected(url);
    for (const { status } of selected) runs[status] = (runs[status] ?? 0) + 1;
    return { runs, total: selected.length, example: { label: "digits", spec: { entrypoint: "train.py" } } };
  }

  #submit(body: unknown, key: string | null, response: ServerResponse): void {
    const { label, tags = [], spec } = body as { label?: string; tags?: string[]; spec: Record<string, unknown> };
    const known = key === null ? undefined : this.#keys.get(key);
    if (known) return json(response, 200, known.record);
    const errors = [];
    if (!spec["entrypoint"]) errors.push({ field: "spec.entrypoint", message: "must not be empty" });
    if (typeof spec["args"] === "string") errors.push({ field: "spec.args", message: "must be a list, not text" });
    if (typeof spec["disk_gb"] === "string") errors.push({ field: "spec.disk_gb", message: "must be a whole number" });
    if (errors.length > 0) {
      return json(
        response,
        400,
        problem(400, "invalid_request", "The run is not complete.", "Nothing was started.", errors),
      );
    }
    const run = this.makeRun(label ?? null, spec);
    run.record = { ...run.record, tags };
    if (key !== null) this.#keys.set(key, run);
    this.world.runs.push(run);
    json(response, 201, run.record);
    this.emit("job.created", run.record.id);
  }

  #kill(run: FakeRun, response: ServerResponse): void {
    run.record = {
      ...run.record,
      status: "terminating",
      note: { kind: "terminating", message: "The machine may still cost money." },
    };
    json(response, 202, run.record);
    this.emit("job.transition", run.record.id, { from: "running", to: "terminating", event: "job.cancel" });
  }

  /** Refuses a budget below what was spent, as the control plane does. */
  #change(run: FakeRun, body: unknown, response: ServerResponse): void {
    const { label, tags, ...limits } = body as Record<string, unknown>;
    const { spent_usd: spent, spec } = run.record;
    const { budget_usd: budget } = limits;
    if (typeof budget === "number" && budget <= (spent ?? 0)) {
      const why = `$${spent} is already spent`;
      const errors = [{ field: "budget_usd", message: why }];
      return json(response, 409, problem(409, "change_refused", `It cannot be changed: ${why}.`, "", errors));
    }
    run.record = {
      ...run.record,
      ...(label === undefined ? {} : { label: label as string | null }),
      ...(tags === undefined ? {} : { tags: tags as string[] }),
      ...(budget === undefined ? {} : { budget_usd: budget as number | null }),
      spec: { ...spec, ...limits },
    };
    json(response, 200, run.record);
    this.emit("job.changed", run.record.id, { budget_usd: { from: spec["budget_usd"] ?? null, to: budget ?? null } });
  }

  #metrics(run: FakeRun, url: URL, response: ServerResponse): void {
    const since = url.searchParams.get("since_step");
    const series = Object.fromEntries(
      Object.entries(run.metrics).map(([name, points]) => [
        name,
        points.filter((point) => since === null || point.step >= Number(since)),
      ]),
    );
    json(response, 200, { series });
  }

  #logs(run: FakeRun, url: URL, response: ServerResponse): void {
    const tail = url.searchParams.get("tail");
    let start = Number(url.searchParams.get("offset") ?? 0);
    if (tail !== null) {
      start = run.log.length;
      for (let lines = 0; start > 0; start--)
        if (run.log[start - 1] === 10 && start < run.log.length && ++lines === Number(tail)) break;
    }
    response.writeHead(200, { "content-type": "text/plain; charset=utf-8", "svc-log-offset": String(start) });
    response.end(run.log.subarray(start));
  }

  #system(name: string, url: URL, body: unknown, response: ServerResponse): void {
    const answer = this.world.answers?.[name] ?? fakeNotify()[name];
    const said: unknown = typeof answer === "function" ? answer(body) : answer;
    if (said instanceof Refusal) return json(response, said.status, said.body);
    if (said !== undefined) return json(response, 200, said);
    if (name === "summary") return json(response, 200, this.#summary(url));
    if (name === "metrics") return json(response, 200, metricSummaries(this.world.runs, url));
    if (name === "machines") return json(response, 200, { machines: this.world.machines });
    if (name === "providers") return json(response, 200, { providers: this.world.providers });
    if (name === "limits") return json(response, 200, fakeLimits());
    if (name === "retention") return json(response, 200, fakeRetention());
    if (name === "costs") return json(response, 200, fakeCosts(costsBy(url)));
    if (name === "offers") return json(response, 200, { offers: liveOffers(), asked: [], open: 0 });
    if (name === "folder") return json(response, 200, fakeFolder(url.searchParams.get("path") ?? "/home/me/project"));
    if (name === "gpus")
      return json(response, 200, { gpus: [{ model: "A100", vram_gb: 80, providers: ["market", "podhost"] }] });
    json(response, 404, problem(404, "not_found", "There is nothing here.", ""));
  }

  #file(path: string, response: ServerResponse): void {
    const name = extname(path) === "" ? "/index.html" : path;
    let content: Buffer;
    try {
      content = readFileSync(join(this.#dist, name.replaceAll("..", "")));
    } catch {
      return void response.writeHead(404).end();
    }
    response.writeHead(200, {
      "content-type": TYPES[extname(name)] ?? "application/octet-stream",
      "content-security-policy": CSP,
    });
    response.end(content);
  }
}

/** Two offers of one provider, and a cheaper one that may be taken back at any time. */
const liveOffers = (): LiveOffer[] =>
  [1.2, 0.9, 0.1].map((price, i) => ({
    id: `o${i}`,
    provider: "podhost",
    gpus: "A100:1",
    spot: price < 0.5,
    price_per_hour_usd: price,
    facts: {},
    within_cap: true,
    avoided: null,
    age_seconds: 1,
  }));

const costsBy = (url: URL) => COST_DIMENSIONS.find((each) => each === url.searchParams.get("by")) ?? "project";

const bytesOf = (files: readonly CheckpointFile[]): number => files.reduce((sum, { size }) => sum + size, 0);

/** Every file of the fake world is a complete checkpoint. */
const pointsOf = (files: CheckpointFile[]): ResumePoint[] =>
  files.map(({ path, size, modified_at }) => ({
    name: path,
    step: null,
    files: 1,
    bytes: size,
    saved_at: modified_at,
  }));

function json(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { "content-type": status < 400 ? "application/json" : "application/problem+json" });
  response.end(JSON.stringify(body));
}
