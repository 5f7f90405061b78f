import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { ModelsOfHub, NotificationsOf, RetentionOf } from "../../src/engine/control-plane.ts";
import { DurableLedger } from "../../src/engine/ledger.ts";
import { localCalendar } from "../../src/domain/calendar.ts";
import { LimitKeeper } from "../../src/engine/home-limits.ts";
import { Service } from "../../src/engine/service.ts";
import { Redactor } from "../../src/domain/redaction.ts";
import { SvcError } from "../../src/errors/index.ts";
import { describeProviders } from "../../src/providers/registry.ts";
import type { FeedEvent } from "../../src/schemas/job.ts";
import { SubmitBody, type RunSpecInput } from "../../src/schemas/spec.ts";
import { DiskReserve } from "../../src/store/disk-reserve.ts";
import { resolveSecret } from "../../src/secrets/resolve.ts";
import { providerSources } from "../../src/secrets/credentials.ts";
import { exclusively } from "../../src/store/file-lock.ts";
import { CredentialService } from "../../src/secrets/credential-service.ts";
import { Harness, removeHomes, START, turn } from "./harness.ts";
import { NO_SINKS } from "./no-sinks.ts";
import { down, SmallCloud } from "./small-cloud.ts";

let h: Harness;
let service: Service;
let cloud: SmallCloud;
let over: string[];
let reported: string[];
/** The check of a project waits for this promise. */
let checking: Promise<void>;

async function newService(harness: Harness): Promise<void> {
  h = harness;
  [over, reported] = [[], []];
  checking = Promise.resolve();
  const providers = new Map([["podhost", (cloud = new SmallCloud())]]);
  let made = 0;
  service = new Service({
    home: h.home,
    startedAt: "now",
    engine: h.engine,
    reads: h.reads,
    ledger: new DurableLedger(h.engine),
    reserve: new DiskReserve(h.home),
    providers,
    newJobId: () => `job${++made}`,
    describeProviders: () => describeProviders(providers, providerSources(h.home, { PODHOST_API_KEY: "key" })),
    credentials: new CredentialService({
      home: h.home,
      env: {},
      exclusively,
      machinesOf: (name) => h.reads.machines().filter((m) => m.provider === name).length,
      judge: () => Promise.resolve(),
      warn: () => undefined,
      ask: () => Promise.reject(new SvcError("credential_missing", { provider: "podhost", missing: "everything" })),
    }),
    checkProject: () => checking,
    rateOf: () => null,
    respec: () => undefined,
    renewGuards: () => Promise.resolve(),
    checkCredential: () => undefined,
    measureProject: () =>
      Promise.resolve({
        files: [
          { path: "train.py", size: 900 },
          { path: "data.bin", size: 5_000 },
        ],
        bytes: 5_900,
        leftOut: null,
        missed: 1,
      }),
    preview: () => Promise.resolve({ install: null, start: null }),
    example: () => null,
    snapshot: () => Promise.resolve({ id: "code1", leftOut: null, release: () => {} }),
    checkSecrets: (spec) => {
      for (const value of Object.values(spec.env)) resolveSecret(value, h.home, {});
    },
    remember: () => undefined,
    secrets: () => new Redactor([]),
    seal: (spec) => spec,
    fingerprint: (text) => text,
    checkResume: async ({ resume_from: job }) => {
      if (job === undefined) return;
      throw new SvcError("resume_unavailable", { job, why: "none of its complete checkpoints is on this computer" });
    },
    resumes: { points: async () => [], complete: async () => [], sources: async () => [] },
    checkData: async ([name]) => {
      if (name === undefined) return;
      const errors = [{ field: "spec.data[0]", message: "is not known" }];
      throw new SvcError("data_unavailable", { name, why: "no data has that name" }, { errors });
    },
    pinData: () => () => {},
    onTerminal: (id) => void over.push(id),
    report: (message) => void reported.push(message),
    defaults: () => ({}),
    forget: () => undefined,
    collectCode: () => Promise.resolve(),
    hub: {} as ModelsOfHub, // pulls no models
    notifications: {} as NotificationsOf,
    retention: {} as RetentionOf,
    limits: new LimitKeeper({
      engine: h.engine,
      calendar: localCalendar,
      startSeconds: () => null,
      report: (message) => void reported.push(message),
    }),
    sinks: NO_SINKS,
  });
}
beforeEach(async () => {
  // Retries without limit, like the real step.
  const collect = { attemptsMax: Infinity, delayMsMin: 1_000, delayMsMax: 2_000 };
  const engine = { publish: (events: FeedEvent[]) => service.publish(events) };
  await newService(await Harness.open({ engine, retry: { collect } }));
});
afterEach(() => h.end());
afterAll(removeHomes);

const body = (spec: Partial<RunSpecInput> = {}, label?: string) =>
  SubmitBody.parse({ label, spec: { entrypoint: "train.py", provider: "podhost", project_dir: "/p", ...spec } });
const submit = (spec: Partial<RunSpecInput> = {}, key?: string, label?: string) =>
  service.submit(body(spec, label), {
    defaultProjectDir: "/home/me/project",
    ...(key === undefined ? {} : { idempotencyKey: key }),
  });

describe("submit", () => {
  it("answers with the record once it is durable, and the first step has begun", async () => {
    const { record, created } = await submit({ args: ["--lr", "1"] }, undefined, "my run");
    await turn();
    expect(created).toBe(true);
    expect(record).toMatchObject({
      id: "job1",
      status: "provisioning",
      label: "my run",
      args: ["--lr", "1"],
      code_snapshot: "code1",
    });
    expect(h.attempts.map((a) => a.step)).toEqual(["provision"]);
  });

  it("uses the caller's directory by default, and paths from there", async () => {
    const dirs = await Promise.all(
      [undefined, "sub", "/abs"].map(async (project_dir) => (await submit({ project_dir })).record.spec["project_dir"]),
    );
    expect(dirs).toEqual(["/home/me/project", "/home/me/project/sub", "/abs"]);
  });

  it.each<[string, Partial<RunSpecInput>, string, string]>([
    ["a provider that is not here", { provider: "market" }, "provider_unavailable", "spec.provider"],
    ["more nodes than the provider can", { nodes: 5 }, "nodes_unsupported", "spec.nodes"],
    ["a job to resume from that left nothing", { resume_from: "job0" }, "resume_unavailable", "spec.resume_from"],
    ["data that is not known", { data: ["imagenet"] }, "data_unavailable", "spec.data[0]"],
  ])("refuses %s, names the field, and changes nothing", async (_, spec, code, field) => {
    await expect(submit(spec)).rejects.toMatchObject({ code, errors: [{ field }] });
    expect([h.store.liveJobs(), h.reads.latestSeq(), h.attempts]).toEqual([[], 0, []]);
  });

  it("refuses a secret that cannot be found, by its reference", async () => {
    await expect(submit({ env: { A: "env://NOT_SET" } })).rejects.toMatchObject({
      code: "secret_not_found",
      message: expect.stringContaining("env://NOT_SET") as string,
    });
    expect(h.store.liveJobs()).toEqual([]);
  });

  it("refuses an invalid project", async () => {
    checking = Promise.reject(new SvcError("entrypoint_not_found", { entrypoint: "train.py", project_dir: "/p" }));
    await expect(submit()).rejects.toMatchObject({ code: "entrypoint_not_found" });
    expect(h.store.liveJobs()).toEqual([]);
  });
});

describe("the limit of a run's time", () => {
  it.each([
    [0, null],
    [1e-9, 1],
    [0.5, 30_000],
  ])("is, for %d minutes, %s ms: the smallest limit does not become none", async (max_runtime_minutes, ms) => {
    await submit({ max_runtime_minutes });
    const snapshot = JSON.parse(h.store.job("job1")!.snapshot) as { context: { max_runtime_ms: number | null } };
    expect(snapshot.context.max_runtime_ms).toBe(ms);
  });
});

describe("one key", () => {
  it("One key with one body is one job, now, after a restart and when it is over", async () => {
    const first = await submit({}, "k");
    expect(await submit({}, "k")).toMatchObject({ created: false, record: { id: first.record.id } });
    await service.kill("job1");
    await turn();
    await h.attempt("terminate").done();
    await newService(await h.restart({ engine: { publish: (events) => service.publish(events) } }));
    expect(await submit({}, "k")).toMatchObject({ created: false, record: { id: "job1", status: "cancelled" } });
  });

  it.each<[string, Partial<RunSpecInput>, string | undefined]>([
    ["other arguments", { args: ["x"] }, undefined],
    ["another label", {}, "other"],
  ])("with %s is a conflict", async (_, spec, label) => {
    await submit({}, "k");
    await expect(submit(spec, "k", label)).rejects.toMatchObject({
      code: "idempotency_conflict",
      data: { job_id: "job1" },
    });
    expect(h.store.liveJobs()).toHaveLength(1);
  });

  it("is the same for any order of the body's fields", async () => {
    const fields = { provider: "podhost", entrypoint: "train.py", project_dir: "/p" };
    await service.submit(SubmitBody.parse({ spec: fields }), { defaultProjectDir: "/", idempotencyKey: "k" });
    const turned = SubmitBody.parse({ spec: Object.fromEntries(Object.entries(fields).toReversed()) });
    expect(await service.submit(turned, { defaultProjectDir: "/", idempotencyKey: "k" })).toMatchObject({
      created: false,
    });
  });

  it("is the same after an upgrade that adds fields with defaults: it holds none", async () => {
    await submit({ gpus: "A40", nodes: 1 }, "k");
    const { spec } = JSON.parse(h.row().idem_hash ?? "") as { spec: object };
    expect(spec).toEqual({ entrypoint: "train.py", provider: "podhost", gpus: "A40", project_dir: "/p" });
  });

  it("makes one job from two calls at once", async () => {
    const both = await Promise.all([submit({}, "k"), submit({}, "k")]);
    expect(both.map((b) => b.record.id)).toEqual(["job1", "job1"]);
    expect(both.map((b) => b.created)).toEqual([true, false]);
    expect(h.store.liveJobs()).toHaveLength(1);
  });

  it("makes one job and one conflict from two calls at once with two bodies", async () => {
    const both = await Promise.allSettled([submit({}, "k"), submit({ args: ["x"] }, "k")]);
    expect(both).toMatchObject([{ value: { created: true } }, { reason: { code: "idempotency_conflict" } }]);
  });
});

describe("kill", () => {
  it("is durable when it answers; a second one changes nothing; a third finds the job over", async () => {
    await submit();
    expect(await service.kill("job1")).toMatchObject({ alreadyTerminal: false, record: { status: "terminating" } });
    const seq = h.reads.latestSeq();
    expect(await service.kill("job1")).toMatchObject({ alreadyTerminal: false, record: { status: "terminating" } });
    expect(h.reads.latestSeq()).toBe(seq);
    await turn();
    await h.attempt("terminate").done();
    expect(await service.kill("job1")).toMatchObject({
      alreadyTerminal: true,
      record: { status: "cancelled", error: { code: "cancelled_by_user" } },
    });
    expect(over).toEqual(["job1"]);
  });

  it("A kill of a job that does not exist is refused with its name", async () => {
    await expect(service.kill("nope")).rejects.toMatchObject({ code: "job_not_found" });
  });

  it("A kill of all jobs ends each one and names them", async () => {
    await submit();
    await submit();
    expect(await service.killAll()).toEqual(["job1", "job2"]);
    expect(h.store.liveJobs().map((j) => j.state)).toEqual(["terminating", "terminating"]);
  });

  it("works even while the disk is full", async () => {
    await submit();
    const spent = vi.spyOn(DiskReserve.prototype, "spendIfFull");
    let full = 2;
    h.onProbe = (point) => {
      if (point === "commit.before" && full-- > 0) throw Object.assign(new Error("full"), { code: "SQLITE_FULL" });
    };
    const [{ record }] = await Promise.all([service.kill("job1"), h.clock.advance(5_000)]);
    expect([record.status, spent.mock.calls.length]).toEqual(["terminating", 1]);
  });
});

describe("reconcile", () => {
  it("reports in a dry run what it would do and changes nothing", async () => {
    await submit();
    cloud.add(`svc-${h.store.installationId.slice(0, 8)}-job9-n0-1`);
    const seq = h.reads.latestSeq();
    const report = await service.reconcile({ dryRun: true });
    expect(report).toMatchObject({
      dry_run: true,
      resumed: ["job1"],
      terminated: [{ job_id: null }],
      replayed: [{ ok: true }],
    });
    expect([h.reads.latestSeq(), cloud.machines.length]).toEqual([seq, 1]);
  });

  it("sweeps again after each closed order, when no listing of its machines can lag any more", async () => {
    service.begin();
    const ledger = new DurableLedger(h.engine);
    let ordinal = 0;
    const { record } = await submit();
    const close = async (): Promise<string> => {
      const name = `svc-${h.store.installationId.slice(0, 8)}-${record.id}-n0-${++ordinal}`;
      await ledger.intend({ name, jobId: record.id, node: 0, ordinal, provider: "podhost", horizonAt: START });
      await ledger.released(name, "refused: no capacity");
      return name;
    };
    await close();
    await h.clock.advance(10_000);
    const refused = await close();
    // The machine is listed only after the poll that follows the first order; the job continues with another machine.
    await h.clock.advance(8_000);
    cloud.add(refused);
    await h.clock.advance(20_000);
    expect(cloud.machines).toEqual([]);
    expect(h.reads.job(record.id)?.status).toBe("provisioning");
  });

  it("sweeps by itself soon after the start", async () => {
    cloud.add(`svc-${h.store.installationId.slice(0, 8)}-job9-n0-1`);
    service.begin();
    await h.clock.advance(60_000);
    expect(cloud.machines).toEqual([]);
    await service.stop();
  });
});

describe("the end", () => {
  it("interrupts runs that end with the control plane, leaves the rest, and waits for the proof", async () => {
    await submit();
    await submit({ terminate_on_exit: false });
    const ending = service.shutdown(60_000);
    await turn();
    expect(h.store.liveJobs().map((j) => j.state)).toEqual(["terminating", "provisioning"]);
    await h.attempt("terminate").done();
    expect(await ending).toEqual({ unfinished: [] });
    expect(h.reads.job("job1")).toMatchObject({ status: "interrupted", error: { code: "control_plane_ended" } });
    expect(h.reads.job("job2")).toMatchObject({ status: "provisioning" });
  });

  it("names the jobs that had not ended at the deadline", async () => {
    await submit();
    const ending = service.shutdown(5_000);
    await h.clock.advance(5_000);
    expect(await ending).toEqual({ unfinished: ["job1"] });
  });

  it("no longer waits for a job that cannot be reached, and ends the others meanwhile", async () => {
    await submit();
    await submit();
    const apply = h.engine.apply.bind(h.engine);
    h.engine.apply = (tx, id, event) => {
      if (id === "job1") throw new Error("a defect");
      return apply(tx, id, event);
    };
    const ending = service.shutdown(5_000);
    await turn();
    await h.attempt("terminate").done();
    expect(h.reads.job("job2")).toMatchObject({ status: "interrupted" });
    await h.clock.advance(5_000);
    expect(await ending).toEqual({ unfinished: ["job1"] });
  });

  it.each([
    ["gives back a machine that does not answer, when its provider does", true],
    ["keeps what is on a machine that does not answer, when its provider does not either", false],
  ])("%s", async (_, answers) => {
    await submit();
    await h.upTo("stream");
    const ledger = new DurableLedger(h.engine);
    const name = `svc-${h.store.installationId.slice(0, 8)}-job1-n0-1`;
    await ledger.intend({ name, jobId: "job1", node: 0, ordinal: 1, provider: "podhost", horizonAt: START });
    await ledger.held(name, cloud.add(name));
    if (!answers) cloud.before = () => Promise.reject(down());
    const begun = h.clock.now();
    const ending = service.shutdown(120_000, 660_000);
    await turn();
    for (let tries = 0; tries < 70 && !h.story().some((line) => line.startsWith("terminate")); tries++) {
      const attempt = h.attempt("collect");
      if (!attempt.answered)
        await attempt.fail(new SvcError("ssh_unreachable", { machine: name, why: "connection refused" }));
      await h.clock.advance(2_000);
    }
    const secondsTaken = (h.clock.now() - begun) / 1000;
    if (!answers) {
      expect(await ending).toEqual({ unfinished: ["job1"] });
      return;
    }
    expect(secondsTaken).toBeGreaterThan(44);
    expect(secondsTaken).toBeLessThan(80);
    await h.attempt("terminate").done();
    expect(await ending).toEqual({ unfinished: [] });
  });

  it("waits longer for a download", async () => {
    await submit();
    await h.upTo("stream");
    const ending = service.shutdown(10_000, 660_000);
    await h.clock.advance(300_000);
    expect(h.row().state).toBe("terminating");
    await h.attempt("collect").done({ exit_code: null });
    await h.attempt("terminate").done();
    expect(await ending).toEqual({ unfinished: [] });
  });

  it("accepts no new job, but still answers for a known key", async () => {
    await submit({ terminate_on_exit: false }, "k");
    await service.shutdown(1_000);
    await expect(submit()).rejects.toMatchObject({ code: "shutting_down" });
    expect(await submit({ terminate_on_exit: false }, "k")).toMatchObject({ created: false });
  });

  it("accepts no job whose checks were running when it began", async () => {
    const checked = Promise.withResolvers<void>();
    checking = checked.promise;
    const late = Promise.allSettled([submit()]);
    await service.shutdown(1_000);
    checked.resolve();
    expect(await late).toMatchObject([{ reason: { code: "shutting_down" } }]);
    expect(h.store.liveJobs()).toEqual([]);
  });

  it("ends a job whose commit was under way when it began", async () => {
    // The commit waits for the end of the turn; the end of the control plane begins in the same turn.
    const begun: Promise<{ unfinished: string[] }>[] = [];
    const create = h.engine.create.bind(h.engine);
    h.engine.create = (job) => {
      const made = create(job);
      queueMicrotask(() => void begun.push(service.shutdown(60_000)));
      return made;
    };
    await submit();
    await turn();
    expect(h.store.liveJobs().map((j) => j.state)).toEqual(["terminating"]);
    await h.attempt("terminate").done();
    expect(await Promise.all(begun)).toEqual([{ unfinished: [] }]);
  });
});

describe("subscribers", () => {
  it("A subscriber that throws ends neither the process nor the events of the others", async () => {
    const heard: string[] = [];
    service.subscribe(() => {
      throw new RangeError("a listener of no good");
    });
    service.subscribe((event) => heard.push(event.type));
    await submit();
    expect(heard).toContain("job.created");
    expect(reported[0]).toContain("a listener of no good");
  });

  it("receive each event once, in order, until they unsubscribe", async () => {
    const heard: { type: string }[] = [];
    const stop = service.subscribe((event) => heard.push(event));
    await submit();
    stop();
    await service.kill("job1");
    expect(heard.map((e) => e.type)).toEqual(["job.created", "step.started"]);
  });
});

describe("the list of runs", () => {
  it("is narrowed by several statuses, by ids and by words, with wildcards as literal text", async () => {
    await submit({}, undefined, "50% of_it");
    await submit({ entrypoint: "other.py" }, undefined, "plain");
    await submit({ gpus: "H100:2" });
    await service.kill("job3");
    const ids = (query: object) => h.reads.jobs({ limit: 50, ...query }).jobs.map((job) => job.id);
    expect(ids({ status: ["provisioning"] })).toEqual(["job2", "job1"]);
    expect(ids({ status: ["provisioning", "terminating", "cancelled"] })).toEqual(["job3", "job2", "job1"]);
    expect(ids({ ids: ["job1", "job3", "none"] })).toEqual(["job3", "job1"]);
    expect(ids({ q: "0% OF_" })).toEqual(["job1"]);
    expect(ids({ q: "f_i" })).toEqual(["job1"]);
    expect(ids({ q: "other.PY" })).toEqual(["job2"]);
    expect(ids({ q: "h100", status: ["provisioning"] })).toEqual([]);
    expect(h.reads.countByStatus()["provisioning"]).toBe(2);
    expect(h.reads.countByStatus({ q: "other" })).toEqual({ provisioning: 1 });
    expect(h.reads.countByStatus({ provider: "local" })).toEqual({});
  });

  it("is narrowed by the time of submission, which includes its beginning and not its end", async () => {
    await submit();
    const first = h.reads.job("job1")?.created_at ?? "";
    await h.clock.jump(60_000);
    await submit();
    const second = h.reads.job("job2")?.created_at ?? "";
    const ids = (query: object) => h.reads.jobs({ limit: 50, ...query }).jobs.map((job) => job.id);
    expect(ids({ created_from: first })).toEqual(["job2", "job1"]);
    expect(ids({ created_from: second })).toEqual(["job2"]);
    expect(ids({ created_until: second })).toEqual(["job1"]);
    expect(h.reads.countByStatus({ created_from: second })).toEqual({ provisioning: 1 });
  });

  it("gets a plan that stores and rents nothing", async () => {
    const plan = await service.plan(body({ resume_from: "job9" }), { defaultProjectDir: "/p" });
    expect(plan.refusals.map(({ field }) => field)).toEqual(["spec.resume_from"]);
    expect(plan.warnings.join(" ")).toContain("is not sent");
    expect(h.reads.jobs({ limit: 1 }).jobs).toEqual([]);
    expect(cloud.machines).toEqual([]);
  });
});
