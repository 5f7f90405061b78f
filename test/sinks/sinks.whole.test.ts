import { createHash } from "node:crypto";
import { readFileSync, renameSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { RunSpecInput } from "../../src/schemas/spec.ts";
import { PATIENCE_MS } from "../../src/sinks/sinks.ts";
import { SinkStore } from "../../src/store/sink-store.ts";
import { removeHomes, START } from "../engine/harness.ts";
import { GcsDouble } from "./gcs-double.ts";
import { KEY_ID, S3Double, SECRET } from "./s3-double.ts";
import { atFirst, type Fault, type StoreDouble } from "./store-faults.ts";
import { JOB, MIB, noise, World } from "./world.ts";

afterAll(removeHomes);

const sha256 = (bytes: Buffer | string): string => createHash("sha256").update(bytes).digest("hex");
/** Two parts, and larger than the page of a listing. */
const LARGE = noise(9 * MIB);
const LARGER = noise(26 * MIB);

/** One protocol's names. */
interface Kind {
  kind: "objstore_a" | "objstore_b";
  scheme: string;
  open(): Promise<StoreDouble>;
  credentials(store: StoreDouble): Record<string, string>;
  env(store: StoreDouble): NodeJS.ProcessEnv;
  put: string;
  part: string;
  begin: string;
  read: string;
  look: string;
  abort: string;
}

const KINDS: Kind[] = [
  {
    kind: "objstore_a",
    scheme: "s3",
    open: () => new S3Double().listen(),
    credentials: () => ({ access_key_id: KEY_ID, secret_access_key: "env://SINK_SECRET", region: "us-east-1" }),
    env: (store) => ({ SVC_OBJSTORE_A_URL: store.url, SINK_SECRET: SECRET }),
    put: "PutObject",
    part: "UploadPart",
    begin: "CreateMultipartUpload",
    read: "GetObject",
    look: "HeadObject",
    abort: "AbortMultipartUpload",
  },
  {
    kind: "objstore_b",
    scheme: "gs",
    open: () => new GcsDouble().listen(),
    credentials: () => ({ service_account_json: "env://SINK_KEY" }),
    env: (store) => ({ SVC_OBJSTORE_B_URL: store.url, SINK_KEY: (store as GcsDouble).keyFile }),
    put: "insert",
    part: "piece",
    begin: "begin",
    read: "download",
    look: "get",
    abort: "cancel",
  },
];

describe.each(KINDS)("a sink of $kind", (kind) => {
  let store: StoreDouble;
  let w: World;
  const key = (path: string): string => `runs/${JOB}/${path}`;
  const list = (): { complete: boolean; status: string | null; files: { path: string; sha256: string }[] } =>
    JSON.parse(store.text(key("manifest.json"))) as ReturnType<typeof list>;
  const sinks = (what: ("checkpoints" | "logs")[] = ["checkpoints", "logs"]): RunSpecInput["sinks"] => [
    { kind: kind.kind, url: `${kind.scheme}://bucket/runs`, what, ...kind.credentials(store) },
  ];
  /** Uploads that have started and have neither ended nor been aborted. */
  const unfinished = (): number => (store instanceof S3Double ? store.uploads.size : 0);
  const done = (): Promise<void> => w.until("all is copied", () => w.status.state === "done");

  beforeEach(async () => {
    store = await kind.open();
    w = await World.open(kind.env(store));
  });
  afterEach(async () => {
    vi.restoreAllMocks();
    await w.end();
    await store.close();
  });

  it("copies checkpoints and the log while the run is active, and the rest, with the list, at its end", async () => {
    await w.submit({ sinks: sinks() });
    expect(list()).toMatchObject({ complete: false, files: [] });
    await w.checkpoint("step-1/model.bin", "one");
    await w.checkpoint("step-1/opti mizer ü.bin", LARGER);
    await w.log("first line\n");
    await w.until("all so far is copied", () => w.status.waiting.files === 0 && list().files.length === 3);
    expect(w.status.state).toBe("waiting");
    expect(store.objects.get(key("checkpoints/step-1/opti mizer ü.bin"))?.bytes.equals(LARGER)).toBe(true);
    expect(store.text(key("run.log"))).toBe("first line\n");
    expect(list().complete).toBe(false);

    await w.checkpoint("step-2/model.bin", "two");
    await w.log("last line\n");
    await w.over();
    await done();
    expect(store.text(key("run.log"))).toBe("first line\nlast line\n");
    expect(list()).toMatchObject({ complete: true, status: "succeeded" });
    for (const { path, sha256: told } of list().files) expect(told).toBe(sha256(store.objects.get(key(path))!.bytes));
    expect(list().files.map((f) => f.path)).toEqual([
      "checkpoints/step-1/model.bin",
      "checkpoints/step-1/opti mizer ü.bin",
      "checkpoints/step-2/model.bin",
      "run.log",
    ]);
    expect(w.status).toMatchObject({
      sent: { files: 4 },
      waiting: { files: 0 },
      error: null,
      left_out: [],
      uploads: [],
    });
    expect(w.events("sink.copied")).toHaveLength(3);
    expect(w.events("sink.done")).toHaveLength(1);
    expect(unfinished()).toBe(0);
  });

  it("sends nothing again after a restart or for touched files; changed files are sent again", async () => {
    await w.submit({ sinks: sinks(["checkpoints"]) });
    await w.checkpoint("a.bin", "a");
    await w.checkpoint("b.bin", LARGE);
    await w.until("copied", () => w.status.waiting.files === 0 && list().files.length === 2);
    const before = store.asked.length;
    w = await w.restart(kind.env(store));
    await w.checkpoint("b.bin", LARGE, START + 60_000);
    await w.until("seen", () => w.status.waiting.files === 0);
    await w.checkpoint("a.bin", "A", START + 60_000);
    await w.until("copied", () => list().files.some((f) => f.sha256 === sha256("A")));
    expect(store.text(key("checkpoints/a.bin"))).toBe("A");
    const after = store.asked.slice(before).filter((a) => a.what === kind.put || a.what === kind.part);
    // The listing had another time for b, then other content for a.
    expect(new Set(after.map((a) => a.key))).toEqual(new Set([key("checkpoints/a.bin"), key("manifest.json")]));
    expect(after.filter((a) => a.key === key("checkpoints/a.bin"))).toHaveLength(1);
  });

  it.each<[string, number, Fault, "small" | "large"]>([
    ["the connection is cut", 4, { do: "cut" }, "small"],
    ["the store has an inner error", 4, { do: "answer", status: 500, code: "InternalError" }, "small"],
    ["the store asks to go slower", 4, { do: "answer", status: 503, code: "SlowDown" }, "large"],
    ["an answer is lost", 1, { do: "lose the answer" }, "small"],
    ["answers to parts are lost", 2, { do: "lose the answer" }, "large"],
    ["the credentials have expired", 2, { do: "answer", status: 400, code: "ExpiredToken" }, "small"],
    ["they may not write for a while", 5, { do: "answer", status: 403, code: "AccessDenied" }, "large"],
    ["the store keeps something else", 1, { do: "spoil" }, "small"],
    ["the store tells another checksum than that of what it has", 1, { do: "wrong etag" }, "small"],
  ])("has every file in the end although %s", async (_, times, fault, which) => {
    await w.submit({ sinks: sinks(["checkpoints"]) });
    store.fault = atFirst(times, which === "small" ? kind.put : kind.part, fault);
    const content = which === "small" ? Buffer.from("content") : LARGE;
    await w.checkpoint("model.bin", content);
    await w.over();
    await done();
    expect(store.objects.get(key("checkpoints/model.bin"))?.bytes.equals(content)).toBe(true);
    expect(list().complete).toBe(true);
    expect(unfinished()).toBe(0);
    if (fault.do === "wrong etag") expect(store.count(kind.put, key("checkpoints/model.bin"))).toBe(1);
  });

  it.each<[string, { do: "lose the answer" } | { do: "spoil" }]>([
    ["arrived, and nobody knows", { do: "lose the answer" }],
    ["arrived spoilt", { do: "spoil" }],
  ])("sends an earlier version of a file again, if the version in between %s", async (_, fault) => {
    await w.submit({ sinks: sinks(["checkpoints"]) });
    await w.checkpoint("a.bin", "one");
    await w.until("copied", () => w.status.waiting.files === 0 && list().files.length === 1);
    store.fault = (asked) =>
      !asked.key.endsWith("a.bin") ? undefined : asked.what === kind.put ? fault : { do: "cut" };
    await w.checkpoint("a.bin", "two", START + 60_000);
    await w.until("it does not come to an end", () => w.status.state === "retrying");
    await w.checkpoint("a.bin", "one", START + 120_000);
    expect(store.text(key("checkpoints/a.bin"))).not.toBe("one");
    store.fault = () => undefined;
    await w.over();
    await done();
    expect(list().files[0]).toMatchObject({ path: "checkpoints/a.bin", sha256: sha256("one") });
    expect(store.text(key("checkpoints/a.bin"))).toBe("one");
  });

  it("lets the read-back of a large file take as long as its size requires", async () => {
    await w.submit({ sinks: sinks(["checkpoints"]) });
    // One minute is 2.4 s here: less than the content needs to come back, and enough for every other request on a busy
    // computer.
    const timeout = AbortSignal.timeout.bind(AbortSignal);
    vi.spyOn(AbortSignal, "timeout").mockImplementation((ms) => timeout(Math.round(ms / 25)));
    store.fault = (asked) =>
      asked.what === kind.put && asked.key.endsWith("a.bin")
        ? { do: "wrong etag" }
        : asked.what === kind.read
          ? { do: "take time", ms: 3_000 }
          : undefined;
    await w.checkpoint("a.bin", noise(7 * MIB));
    await w.over();
    await done();
    expect(store.count(kind.put, key("checkpoints/a.bin"))).toBe(1);
    expect(store.count(kind.read)).toBe(1);
    expect(store.count(kind.look)).toBe(0);
  });

  it("resumes an interrupted upload, if the store still has it", async () => {
    await w.submit({ sinks: sinks(["checkpoints"]) });
    // From the second part on, no byte passes.
    let parts = 0;
    store.fault = (asked) => (asked.what === kind.part && ++parts > 1 ? { do: "cut" } : undefined);
    await w.checkpoint("model.bin", LARGER);
    await w.until(
      "the first part is there",
      () => w.status.uploads.some((u) => u.sent > 0) && w.status.state === "retrying",
    );
    expect(w.status.uploads[0]).toMatchObject({ path: "checkpoints/model.bin", size: LARGER.length });
    store.fault = () => undefined;
    const before = store.asked.length;
    w = await w.restart(kind.env(store));
    await w.over();
    await done();
    expect(store.objects.get(key("checkpoints/model.bin"))?.bytes.equals(LARGER)).toBe(true);
    const again = store.asked.slice(before);
    expect(again.filter((a) => a.what === kind.begin)).toHaveLength(0);
    expect(again.filter((a) => a.what === kind.part).reduce((sum, a) => sum + a.bytes, 0)).toBe(
      LARGER.length - 8 * MIB,
    );
    expect(unfinished()).toBe(0);
  });

  it("ends an upload whose file was replaced meanwhile, and one whose file is gone", async () => {
    await w.submit({ sinks: sinks(["checkpoints"]) });
    let parts = 0;
    store.fault = (asked) => (asked.what === kind.part && ++parts > 1 ? { do: "cut" } : undefined);
    await w.checkpoint("model.bin", LARGE);
    await w.until("it is stuck", () => w.status.state === "retrying");
    await w.checkpoint("model.bin", "short now", START + 60_000);
    await w.until("the new one is there", () => store.objects.has(key("checkpoints/model.bin")));
    expect(store.text(key("checkpoints/model.bin"))).toBe("short now");
    expect(unfinished()).toBe(0);

    await w.checkpoint("gone.bin", LARGE, START + 60_000);
    await w.until("it is stuck, too", () => w.status.state === "retrying");
    rmSync(join(w.h.home, "artifacts", JOB, "checkpoints", "gone.bin"));
    await w.until("it is left out", () => w.status.left_out.length > 0);
    expect(w.status.left_out).toEqual([{ path: "checkpoints/gone.bin", why: "it is not in this home any more" }]);
    expect(unfinished()).toBe(0);
  });

  /** The upload of `big.bin` is stuck after its first part, and stays so; `abort` decides what happens to the calls that end it. */
  async function stuck(abort: () => Fault | undefined): Promise<void> {
    await w.submit({ sinks: sinks(["checkpoints"]) });
    let parts = 0;
    store.fault = ({ what }) =>
      what === kind.abort ? abort() : what === kind.part && ++parts > 1 ? { do: "cut" } : undefined;
    await w.checkpoint("big.bin", LARGE);
    await w.until("it is stuck", () => w.status.state === "retrying" && w.status.uploads.length > 0);
  }
  const uploads = () => new SinkStore(w.h.store.db).uploads({ job_id: JOB, sink: 0 });
  /** Calls that end an upload. */
  const ended = (): number => store.asked.filter(({ what }) => what === kind.abort).length;
  const BUSY: Fault = { do: "answer", status: 503, code: "SlowDown" };

  it("ends the upload of a checkpoint that the run has dropped, also if the store refuses that at first", async () => {
    let refusals = 1;
    await stuck(() => (refusals-- > 0 ? BUSY : undefined));
    await w.story.checkpoints(JOB, [], ["big.bin"]);
    await w.over();
    await done();
    expect([unfinished(), uploads(), ended()]).toEqual([0, [], 2]);
    expect(list()).toMatchObject({ complete: true, files: [] });
  });

  it("is done and says so, if it may not end the upload of a dropped checkpoint", async () => {
    await stuck(() => ({ do: "answer", status: 403, code: "AccessDenied", message: "no" }));
    await w.story.checkpoints(JOB, [], ["big.bin"]);
    await w.over();
    await done();
    expect(w.reports.join()).toMatch(
      /could not abort the unfinished upload of checkpoints\/big\.bin .* Its parts cost money/,
    );
  });

  it("ends its uploads when its run is removed, and says what it could not end", async () => {
    let isBusy = true;
    await stuck(() => (isBusy ? BUSY : undefined));
    await w.over();
    await w.sinks.endUploads(JOB, "dropped");
    expect([ended(), uploads().length]).toEqual([0, 1]);
    await w.sinks.endUploads(JOB, "all");
    expect([uploads().length, w.reports.join()]).toEqual([1, expect.stringMatching(/could not abort.*cost money/)]);
    isBusy = false;
    await w.sinks.endUploads(JOB, "all");
    expect([unfinished(), uploads()]).toEqual([0, []]);
  });

  it("goes on with an upload whose name was lost, and leaves no second one at the store", async () => {
    await w.submit({ sinks: sinks(["checkpoints"]) });
    store.fault = atFirst(1, kind.begin, { do: "lose the answer" });
    await w.checkpoint("model.bin", LARGE);
    await w.over();
    await done();
    expect(store.objects.get(key("checkpoints/model.bin"))?.bytes.equals(LARGE)).toBe(true);
    expect(unfinished()).toBe(0);
    // A session of the other protocol has no list in which it could be found.
    if (store instanceof S3Double) expect(store.count(kind.begin)).toBe(1);
  });

  it("keeps no wrong part of an upload that it resumes", async () => {
    await w.submit({ sinks: sinks(["checkpoints"]) });
    // The first part arrives spoilt; no other one passes.
    let parts = 0;
    store.fault = (asked) => (asked.what !== kind.part ? undefined : ++parts > 1 ? { do: "cut" } : { do: "spoil" });
    await w.checkpoint("model.bin", LARGE);
    await w.until("it is stuck", () => parts > 1 && w.status.state === "retrying");
    store.fault = () => undefined;
    w = await w.restart(kind.env(store));
    await w.over();
    await done();
    expect(store.objects.get(key("checkpoints/model.bin"))?.bytes.equals(LARGE)).toBe(true);
    expect(store.count(kind.read)).toBe(0);
  });

  it("resumes no upload of other content, even if its name was lost", async () => {
    await w.submit({ sinks: sinks(["checkpoints"]) });
    store.fault = (asked) => (asked.what === kind.begin ? { do: "lose the answer" } : undefined);
    await w.checkpoint("model.bin", LARGE);
    await w.until("it is stuck", () => w.status.state === "retrying");
    const other = noise(LARGE.length);
    await w.checkpoint("model.bin", other, START + 60_000);
    store.fault = () => undefined;
    await w.over();
    await done();
    const held = store.objects.get(key("checkpoints/model.bin"));
    expect(held?.bytes.equals(other)).toBe(true);
    expect(held?.metadata["sha256"]).toBe(sha256(other));
    expect(unfinished()).toBe(0);
  });

  it("retries for ever while the run is active, reports missing copies after it, gives up, and resumes on request", async () => {
    await w.submit({ sinks: sinks() });
    await w.h.upTo("stream");
    const refusal: Fault = { do: "answer", status: 403, code: "AccessDenied", message: "no storage.objects.create" };
    store.fault = () => refusal;
    await w.checkpoint("model.bin", "content");
    await w.until("it fails", () => w.status.state === "retrying");
    await w.h.clock.advance(3 * PATIENCE_MS);
    await w.until("it still tries", () => w.status.next_attempt_at !== null && w.status.state === "retrying");
    await w.until("that it fails is told", () => w.events("sink.failing").length > 0);
    expect(w.h.row(JOB).state).not.toBe("terminal");
    expect(w.sinks.uncopied(JOB)).toEqual([{ path: "model.bin", url: `${kind.scheme}://bucket/runs` }]);
    await w.over();
    expect(w.h.reads.job(JOB)?.status).toBe("succeeded");
    expect(w.h.reads.job(JOB)?.note).toEqual({
      kind: "sink_retrying",
      message: expect.stringMatching(/Not copied to .*\/runs yet: 1 file \(7 B\)\. .*may not write there/) as string,
    });
    expect(w.status.error?.message).toContain("no storage.objects.create");
    expect(w.events("sink.failing")).toHaveLength(1);
    await w.h.clock.advance(2 * PATIENCE_MS);
    await w.until("it gives up", () => w.status.state === "gave_up");
    expect(w.h.reads.job(JOB)?.note?.kind).toBe("sink_gave_up");
    expect(w.sinks.uncopied(JOB)).toEqual([]);

    store.fault = () => undefined;
    w = await w.restart(kind.env(store));
    expect(w.status.state).toBe("gave_up");
    await w.sinks.retry(JOB);
    await done();
    expect(store.text(key("checkpoints/model.bin"))).toBe("content");
    expect(w.h.reads.job(JOB)?.note).toBeNull();
  });

  it("copies the others at once, if one file cannot be read", async () => {
    await w.submit({ sinks: sinks(["checkpoints"]) });
    store.fault = () => ({ do: "cut" });
    const others = Array.from({ length: 8 }, (_, i) => `b${i}.bin`);
    await w.checkpoint("a.bin", "a");
    for (const path of others) await w.checkpoint(path, "longer");
    // Opening it fails, like a file on a broken part of the disk.
    const folder = join(w.h.home, "artifacts", JOB, "checkpoints");
    const socket = createServer().listen(join(folder, "socket"));
    await new Promise((resolve) => socket.once("listening", resolve));
    renameSync(join(folder, "socket"), join(folder, "a.bin"));
    await w.until("it fails", () => w.status.state === "retrying");
    const failures = (): number => w.h.store.db.prepare("SELECT failures FROM sink").pluck().get() as number;
    const before = failures();
    store.fault = () => undefined;
    await w.until("the others are there", () => others.every((path) => store.objects.has(key(`checkpoints/${path}`))));
    await w.until("only one is left", () => w.status.state === "retrying" && w.status.waiting.files === 1);
    expect(failures()).toBeLessThanOrEqual(before + 2);
    socket.close();
    rmSync(join(folder, "a.bin"), { force: true });
    await w.checkpoint("a.bin", "a", START + 60_000);
    await w.over();
    await done();
    expect(store.text(key("checkpoints/a.bin"))).toBe("a");
  });

  it("copies the rest of an ended run when another control plane starts, without the run's environment variable", async () => {
    await w.submit({ sinks: sinks() });
    store.fault = () => ({ do: "cut" });
    await w.checkpoint("model.bin", "content");
    await w.log("a line\n");
    await w.over();
    await w.until("it fails", () => w.status.state === "retrying");
    store.fault = () => undefined;
    const { SINK_SECRET: _, SINK_KEY: __, ...env } = kind.env(store);
    w = await w.restart(env);
    await done();
    expect(store.text(key("run.log"))).toBe("a line\n");
    expect(() => readFileSync(join(w.h.home, "sinks", `${JOB}.sealed`))).toThrow("ENOENT");
  });

  it("gets a little time at the end of a control plane for copies of an ended run", async () => {
    await w.submit({ sinks: sinks(["checkpoints"]) });
    await w.checkpoint("model.bin", "content");
    await w.over();
    const states: string[] = [];
    void w.sinks.settle(24 * 3_600_000).then(() => states.push(w.status.state));
    await w.until("nothing is waited for any more", () => states.length > 0);
    expect(states).toEqual(["done"]);
  });

  it("refuses a missing bucket and wrong credentials before anything is made; not an unreachable store", async () => {
    const wrong = (change: object) => w.submit({ sinks: [{ ...sinks()![0]!, ...change }] });
    await expect(wrong({ url: `${kind.scheme}://another-bucket` })).rejects.toMatchObject({
      code: "sink_refused",
      errors: [{ field: "spec.sinks[0]", message: expect.stringContaining("no such bucket") as string }],
    });
    const credential = kind.kind === "objstore_a" ? "secret_access_key" : "service_account_json";
    await expect(wrong({ [credential]: "env://NOT_SET" })).rejects.toMatchObject({
      code: "sink_credentials",
      message: expect.stringContaining("NOT_SET") as string,
      errors: [{ field: "spec.sinks[0]" }],
    });
    store.fault = () => ({ do: "answer", status: 403, code: "AccessDenied" });
    await expect(wrong({})).rejects.toMatchObject({ code: "sink_refused", errors: [{ field: "spec.sinks[0]" }] });
    expect(w.h.store.liveJobs()).toEqual([]);
    store.fault = () => ({ do: "cut" });
    await wrong({});
    expect(w.h.store.liveJobs()).toHaveLength(1);
    store.fault = () => undefined;
    await w.log("line\n");
    await w.over();
    await done();
  });

  it("stores and reports no secret in clear", async () => {
    await w.submit({ sinks: sinks() });
    const token = (): string => (store instanceof GcsDouble ? [...store.tokens].at(-1)! : SECRET);
    store.fault = (asked) =>
      asked.what === (store instanceof GcsDouble ? "begin" : kind.part)
        ? { do: "answer", status: 403, code: "AccessDenied", message: `not with ${token()}` }
        : undefined;
    await w.checkpoint("model.bin", LARGE);
    await w.until("it fails", () => w.status.state === "retrying");
    await w.h.engine.commit(() => w.h.store.db.pragma("wal_checkpoint(FULL)")).catch(() => undefined);
    expect(w.status.error?.message).toContain("not with ***redacted***");
    store.fault = (asked) => (asked.what === kind.part ? { do: "cut" } : undefined);
    await w.until("an upload is begun", () => store.count(kind.part) > 0 && w.status.state === "retrying");
    const own = store instanceof GcsDouble ? ["PRIVATE KEY", ...store.tokens, ...store.sessions.keys()] : [SECRET];
    const secrets = own.filter((secret) => secret !== "");
    expect(secrets.length).toBeGreaterThan(0);
    const written = ["svc.db", "svc.db-wal", `sinks/${JOB}.sealed`].map((name) =>
      readFileSync(join(w.h.home, name), "latin1"),
    );
    for (const secret of secrets) {
      for (const text of written) expect(text.includes(secret)).toBe(false);
      expect(JSON.stringify([w.status, w.h.reads.job(JOB), w.h.published])).not.toContain(secret);
    }
  });
});
