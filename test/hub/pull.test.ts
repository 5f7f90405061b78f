import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { DEADLINE_MS } from "../deadline.ts";
import { HINT_EVERY_MS } from "../../src/hub/pulls.ts";
import { HubDouble, largeContent } from "./double.ts";
import { TINY_MODEL, Pulling, pulledFiles, pullRefusal } from "./pulling.ts";

const ALICE = HubDouble.tokens.alice;
const BOB = HubDouble.tokens.bob;
const WEIGHTS = TINY_MODEL["model.safetensors"];

let p: Pulling;
beforeEach(async () => {
  p = await new Pulling().open();
});
afterEach(() => p.close());

const read = (path: string, name: string): Buffer => readFileSync(join(path, name));
const partials = (): string[] =>
  readdirSync(p.home, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".incomplete"));

describe("a pull into a folder", () => {
  it("downloads every file of the branch's commit, and names the commit", async () => {
    const commit = p.hub.commit("ann/tiny", TINY_MODEL);
    const pulled = await p.pull("ann/tiny");
    expect(pulled).toEqual({
      path: join(p.home, "models/ann/tiny"),
      revision: commit,
      files: 4,
      bytes: Object.values(TINY_MODEL).reduce((n, f) => n + Buffer.byteLength(f), 0),
    });
    expect(pulledFiles(pulled.path)).toEqual(Object.keys(TINY_MODEL).sort());
    expect(read(pulled.path, "model.safetensors").equals(WEIGHTS)).toBe(true);
    expect(read(pulled.path, "config.json").toString()).toBe(TINY_MODEL["config.json"]);
    expect(p.events.map(({ type, pull }) => `${type} ${pull.status}`)).toEqual([
      "pull.started running",
      "pull.ended succeeded",
    ]);
    expect(p.pulls.list()[0]).toMatchObject({
      files_done: 4,
      bytes_done: pulled.bytes,
      error: null,
      path: pulled.path,
    });
    // Only the model's folder remains.
    expect(readdirSync(join(p.home, "models/ann"))).toEqual(["tiny"]);
  });

  it("downloads nothing again if everything exists, and only changed files otherwise", async () => {
    p.hub.commit("ann/tiny", TINY_MODEL);
    const { path } = await p.pull("ann/tiny");
    writeFileSync(join(path, "notes.txt"), "mine");
    p.hub.asked.length = 0;
    await p.pull("ann/tiny");
    expect(p.hub.filesAsked()).toEqual([]);
    const second = p.hub.commit("ann/tiny", { ...TINY_MODEL, "config.json": '{"model_type":"gpt2"}\n' });
    const pulled = await p.pull("ann/tiny");
    expect(p.hub.filesAsked().map((a) => a.path)).toEqual([`/ann/tiny/resolve/${second}/config.json`]);
    expect(pulled.revision).toBe(second);
    expect(read(path, "config.json").toString()).toContain("gpt2");
    expect(read(path, "notes.txt").toString()).toBe("mine");
  });

  it("notices a local change of a file, and repairs it", async () => {
    p.hub.commit("ann/tiny", TINY_MODEL);
    const { path } = await p.pull("ann/tiny");
    const changed = Buffer.from(WEIGHTS);
    changed[5] = (changed[5] ?? 0) ^ 1;
    writeFileSync(join(path, "model.safetensors"), changed);
    // Some file systems count whole seconds.
    utimesSync(join(path, "model.safetensors"), new Date(), new Date(Date.now() + 5_000));
    await p.pull("ann/tiny");
    expect(read(path, "model.safetensors").equals(WEIGHTS)).toBe(true);
  });

  it("downloads only files that match the patterns, by the rules of the hub's own library", async () => {
    p.hub.commit("ann/tiny", TINY_MODEL);
    const { path } = await p.pull("ann/tiny", { allow_patterns: ["*.json", "sub/"] });
    expect(pulledFiles(path)).toEqual(["config.json", "sub/deep/tokenizer.json"]);
    expect((await pullRefusal(p.pull("ann/tiny", { allow_patterns: ["*.JSON"] }))).code).toBe("hub_nothing_matches");
  });

  it("goes to the given place, through a symlink, and leaves anything but a folder alone", async () => {
    p.hub.commit("ann/tiny", TINY_MODEL);
    mkdirSync(join(p.home, "real"));
    symlinkSync(join(p.home, "real"), join(p.home, "link"));
    const pulled = await p.pull("ann/tiny", { local_dir: join(p.home, "link") });
    expect(pulled.path).toBe(join(p.home, "real"));
    expect(pulledFiles(pulled.path)).toHaveLength(4);
    writeFileSync(join(p.home, "file"), "mine");
    expect((await pullRefusal(p.pull("ann/tiny", { local_dir: join(p.home, "file") }))).code).toBe(
      "hub_folder_refused",
    );
    expect(readFileSync(join(p.home, "file"), "utf8")).toBe("mine");
    symlinkSync(join(p.home, "nothing"), join(p.home, "dangling"));
    const { message } = await pullRefusal(p.pull("ann/tiny", { local_dir: join(p.home, "dangling") }));
    expect(message).toContain("broken symlink");
    expect((await pullRefusal(p.pull("ann/tiny", { local_dir: "here" }))).code).toBe("invalid_request");
  });

  it("keeps the permissions of the folder and of those in it", async () => {
    p.hub.commit("ann/tiny", TINY_MODEL);
    const folder = join(p.home, "mine");
    mkdirSync(join(folder, "own", "deep"), { recursive: true });
    const modes = { "": 0o700, own: 0o750, "own/deep": 0o711 };
    for (const [name, mode] of Object.entries(modes)) chmodSync(join(folder, name), mode);
    await p.pull("ann/tiny", { local_dir: folder });
    const now = Object.keys(modes).map((name) => [name, statSync(join(folder, name)).mode & 0o777]);
    expect(Object.fromEntries(now)).toEqual(modes);
  });

  it("is known to the hub's own library: its bookkeeping names the commit", async () => {
    const commit = p.hub.commit("ann/tiny", TINY_MODEL);
    const { path } = await p.pull("ann/tiny");
    const books = readFileSync(join(path, ".cache/huggingface/download/config.json.metadata"), "utf8");
    expect(books.split("\n")[0]).toBe(commit);
  });

  it("is finished by the next pull if a crash came before the folder had its name", async () => {
    p.hub.commit("ann/tiny", TINY_MODEL);
    const { path } = await p.pull("ann/tiny");
    const staging = join(p.home, "models/ann/.tiny.svc-inst0001");
    mkdirSync(staging);
    renameSync(path, join(staging, "ready"));
    p.hub.asked.length = 0;
    expect(pulledFiles((await p.pull("ann/tiny")).path)).toEqual(Object.keys(TINY_MODEL).sort());
    expect(p.hub.filesAsked()).toEqual([]);
  });

  it("is on record before its first request, and reports its progress a few times a second at most", async () => {
    const many = Array.from({ length: 120 }, (_, i) => [`part${i}.json`, `{"part": ${i}}`]);
    p.hub.commit("ann/many", Object.fromEntries(many));
    const began = performance.now();
    const { id } = p.pulls.pull({ model_id: "ann/many" });
    expect([readdirSync(join(p.home, "hub/pulls")).length, p.hub.asked.length]).toEqual([1, 0]);
    await p.pulls.wait(id);
    expect(p.hints.length).toBeLessThanOrEqual(2 + (performance.now() - began) / HINT_EVERY_MS);
  });

  it("downloads a content with two names once", async () => {
    p.hub.commit("ann/twins", { "a.safetensors": WEIGHTS, "b.safetensors": WEIGHTS, "config.json": "{}" });
    const pulled = await p.pull("ann/twins");
    expect(p.hub.filesAsked("cdn")).toHaveLength(1);
    expect(read(pulled.path, "b.safetensors").equals(WEIGHTS)).toBe(true);
    expect(p.pulls.list()[0]).toMatchObject({ files_done: 3, bytes_done: pulled.bytes });
  });
});

describe("a pull into the cache of the hub's library", () => {
  it("writes blobs, links, the list of files and the branch as that library does", async () => {
    p.settings.cacheDir = join(p.home, "shared");
    const commit = p.hub.commit("ann/tiny", TINY_MODEL);
    const { path } = await p.pull("ann/tiny");
    const repo = join(p.home, "shared/hub/models--ann--tiny");
    expect(path).toBe(join(repo, "snapshots", commit));
    expect(readFileSync(join(repo, "refs/main"), "utf8")).toBe(commit);
    expect(readlinkSync(join(path, "config.json"))).toMatch(/^\.\.\/\.\.\/blobs\/[0-9a-f]{40}$/);
    expect(readlinkSync(join(path, "model.safetensors"))).toMatch(/^\.\.\/\.\.\/blobs\/[0-9a-f]{64}$/);
    expect(readlinkSync(join(path, "sub/deep/tokenizer.json"))).toMatch(/^\.\.\/\.\.\/\.\.\/\.\.\/blobs\//);
    expect(read(path, "model.safetensors").equals(WEIGHTS)).toBe(true);
    expect(readdirSync(repo).sort()).toEqual(["blobs", "refs", "snapshots", "trees"]);
    expect(readdirSync(join(repo, "blobs"))).toHaveLength(4);
    const tree = JSON.parse(readFileSync(join(repo, "trees", `${commit}.json`), "utf8")) as { files: object };
    expect(Object.keys(tree.files)).toEqual(Object.keys(TINY_MODEL).sort());
  });

  it("gives unfinished contents names of svc's own, with the mark of the home", async () => {
    p.settings.cacheDir = join(p.home, "shared");
    p.hub.commit("ann/large", { "model.safetensors": largeContent(5 * 1024 * 1024) });
    p.hub.faults.cutAfter = [3_000_000];
    p.hub.holdOnceCut = new Promise(() => undefined);
    const { id } = p.pulls.pull({ model_id: "ann/large" });
    await expect.poll(() => partials().length, { timeout: DEADLINE_MS }).toBe(1);
    expect(partials()[0]).toMatch(/\.svc-inst0001\.incomplete$/);
    await p.pulls.cancel(id);
  });

  it("adds to an existing snapshot, and keeps contents that revisions share", async () => {
    p.settings.cacheDir = join(p.home, "shared");
    p.hub.commit("ann/tiny", TINY_MODEL);
    await p.pull("ann/tiny", { allow_patterns: "*.safetensors" });
    const whole = await p.pull("ann/tiny");
    expect(pulledFiles(whole.path)).toEqual(Object.keys(TINY_MODEL).sort());
    p.hub.commit("ann/tiny", { ...TINY_MODEL, "README.md": "# Another\n" }, "v2");
    p.hub.asked.length = 0;
    const other = await p.pull("ann/tiny", { revision: "v2" });
    expect(p.hub.filesAsked().map((a) => a.path.split("/").at(-1))).toEqual(["README.md"]);
    expect(lstatSync(join(other.path, "README.md")).isSymbolicLink()).toBe(true);
    expect((await p.pulls.models()).map((m) => [m.model_id, m.source, m.files])).toEqual([
      ["ann/tiny", "cache", 4],
      ["ann/tiny", "cache", 4],
    ]);
  });
});

describe("the token", () => {
  it("goes only to the hub", async () => {
    p.settings.token = ALICE;
    p.hub.commit("ann/tiny", TINY_MODEL);
    await p.pull("ann/tiny");
    expect(p.hub.asked.filter((a) => a.host === "hub").every((a) => a.token === ALICE)).toBe(true);
    expect(p.hub.filesAsked("cdn").map((a) => a.token)).toEqual([null]);
  });

  it("The token of one pull comes before the configured one, and is written nowhere", async () => {
    p.settings.token = BOB;
    Object.assign(p.hub.repo("ann/secret"), { private: true, admitted: new Set([ALICE]) });
    p.hub.commit("ann/secret", TINY_MODEL);
    expect((await pullRefusal(p.pull("ann/secret"))).code).toBe("hub_model_not_found");
    await p.pull("ann/secret", { token: ALICE });
    const written = readdirSync(p.home, { recursive: true, withFileTypes: true })
      .filter((e) => e.isFile())
      .map((e) => readFileSync(join(e.parentPath, e.name), "latin1"));
    expect(written.some((text) => text.includes(ALICE) || text.includes(BOB))).toBe(false);
    expect(JSON.stringify([p.events, p.hints, p.pulls.list()])).not.toContain(ALICE);
  });
});

describe("refusals of the hub", () => {
  it("are distinguished: missing, private, gated, a wrong token, a wrong revision", async () => {
    p.hub.commit("ann/tiny", TINY_MODEL);
    Object.assign(p.hub.repo("ann/gated"), { gated: true, admitted: new Set([ALICE]) });
    p.hub.commit("ann/gated", TINY_MODEL);
    Object.assign(p.hub.repo("ann/secret"), { private: true, admitted: new Set([ALICE]) });
    p.hub.commit("ann/secret", TINY_MODEL);

    const absent = await pullRefusal(p.pull("ann/absent"));
    expect(absent).toMatchObject({
      code: "hub_model_not_found",
      message: expect.stringMatching(/private and no token/),
    });
    expect((await pullRefusal(p.pull("ann/secret"))).message).toBe(absent.message.replace("ann/absent", "ann/secret"));
    expect(await pullRefusal(p.pull("ann/secret", { token: BOB }))).toMatchObject({
      code: "hub_model_not_found",
      message: expect.stringContaining("the token has no access to it"),
    });
    expect(await pullRefusal(p.pull("ann/tiny", { token: "hf_wrong" }))).toMatchObject({ code: "hub_token_refused" });
    expect(await pullRefusal(p.pull("ann/gated", { token: BOB }))).toMatchObject({
      code: "hub_gated",
      hint: expect.stringContaining(`${p.hub.url}/ann/gated`),
    });
    expect(await pullRefusal(p.pull("ann/gated"))).toMatchObject({
      message: expect.stringContaining("no token was sent"),
    });
    expect((await pullRefusal(p.pull("ann/tiny", { revision: "v9" }))).code).toBe("hub_revision_not_found");
    expect((await p.pull("ann/gated", { token: ALICE })).files).toBe(4);
    expect((await p.pull("ann/secret", { token: ALICE })).files).toBe(4);
  });

  it("The refusal of a gated model is known before a large file is requested", async () => {
    p.hub.repo("ann/gated").gated = true;
    p.hub.commit("ann/gated", { "README.md": "x", "model.safetensors": WEIGHTS });
    await pullRefusal(p.pull("ann/gated"));
    expect(p.hub.filesAsked()).toEqual([]);
  });

  it("A model that does not fit on the disk is refused before the first byte", async () => {
    const size = 2 ** 50;
    const vast = { size, sha256: "a".repeat(64), oid: "b".repeat(40), slice: () => Buffer.alloc(0) };
    p.hub.commit("ann/vast", { "config.json": "{}", "model.safetensors": vast });
    expect(await pullRefusal(p.pull("ann/vast"))).toMatchObject({
      code: "hub_no_room",
      message: expect.stringContaining("1126 TB"),
    });
    expect(p.hub.filesAsked()).toEqual([]);
  });

  it("names paths that would leave the folder or have another meaning on Windows: nothing is written", async () => {
    for (const path of [
      "../evil",
      "/etc/evil",
      "a/../../evil",
      "a\\b",
      "aux.json",
      "x:y",
      "sub/trail. ",
      ".cache/huggingface/x",
      "a//b",
    ]) {
      p.hub.commit("ann/evil", { [path]: "x", "config.json": "{}" });
      expect((await pullRefusal(p.pull("ann/evil"))).code, path).toBe("hub_path_refused");
    }
    p.hub.commit("ann/evil", { "Config.json": "x", "config.json": "{}" });
    expect(await pullRefusal(p.pull("ann/evil"))).toMatchObject({
      message: expect.stringContaining("cannot tell it from"),
    });
    expect(existsSync(join(p.home, "models/ann/evil"))).toBe(false);
    expect((await p.pull("ann/evil", { allow_patterns: "config.json" })).files).toBe(1);
  });

  it("follows a renamed model, and no redirect to a host that must not get the token", async () => {
    p.settings.token = ALICE;
    p.hub.commit("ann/new", TINY_MODEL);
    p.hub.repo("ann/old").renamedTo = "ann/new";
    expect((await p.pull("ann/old")).files).toBe(4);
    p.hub.commit("ann/other", { "config.json": '{"other":1}' });
    p.hub.faults.redirectTo = "ftp://127.0.0.1/x";
    expect((await pullRefusal(p.pull("ann/other"))).code).toBe("hub_bad_answer");
  });
});

describe("a bad connection", () => {
  it("cut five times gives the same bytes, each requested once", async () => {
    const large = largeContent(6 * 1024 * 1024 + 17);
    p.hub.commit("ann/large", { "model.safetensors": large, "config.json": "{}" });
    p.hub.faults.cutAfter = [1_000_000, 1, 1_500_000, 1_100_000, 65_536];
    const pulled = await p.pull("ann/large");
    expect(read(pulled.path, "model.safetensors").equals(large.slice(0, large.size))).toBe(true);
    const begins = p.hub.filesAsked("cdn").map((a) => Number(/^bytes=(\d+)-$/.exec(a.range ?? "")?.[1] ?? 0));
    expect(begins).toHaveLength(6);
    expect(begins).toEqual(begins.toSorted((a, b) => a - b));
    expect(begins.at(-1)).toBeGreaterThan(3_000_000);
  });

  it("starts over if the whole file arrives although only the rest was requested", async () => {
    const large = largeContent(3 * 1024 * 1024);
    p.hub.commit("ann/large", { "model.safetensors": large });
    p.hub.faults.cutAfter = [2_000_000];
    p.hub.faults.ignoreRange = true;
    const pulled = await p.pull("ann/large");
    expect(read(pulled.path, "model.safetensors").equals(large.slice(0, large.size))).toBe(true);
    expect(p.pulls.list()[0]?.bytes_done).toBe(large.size);
  });

  it("A connection without data is closed and the request is retried", async () => {
    p.again({ stallMs: 300 });
    p.hub.commit("ann/tiny", TINY_MODEL);
    p.hub.faults.stall = 1;
    const { path } = await p.pull("ann/tiny");
    expect(read(path, "model.safetensors").equals(WEIGHTS)).toBe(true);
    expect(p.hub.filesAsked("cdn").length).toBeGreaterThan(1);
  });

  it("with wrong bytes once discards them; twice, the file is refused and nothing is shown", async () => {
    p.hub.commit("ann/tiny", TINY_MODEL);
    p.hub.faults.wrong = 1;
    const { path } = await p.pull("ann/tiny");
    expect(read(path, "model.safetensors").equals(WEIGHTS)).toBe(true);
    p.hub.commit("ann/other", { "model.safetensors": randomBytes(1_000) });
    p.hub.faults.wrong = 99;
    expect(await pullRefusal(p.pull("ann/other"))).toMatchObject({ code: "hub_file_corrupt" });
    expect(existsSync(join(p.home, "models/ann/other"))).toBe(false);
  });

  it("requests a new address when the signed one has expired", async () => {
    p.hub.commit("ann/tiny", TINY_MODEL);
    // The request before the download uses the first one.
    p.hub.faults.expired = 3;
    await p.pull("ann/tiny");
    expect(p.hub.filesAsked("hub").filter((a) => a.path.endsWith("model.safetensors")).length).toBeGreaterThan(1);
  });

  it("A bad connection and a busy hub are retried, but not without end", async () => {
    p.hub.commit("ann/tiny", TINY_MODEL);
    p.hub.faults.limit = { times: 2, seconds: 0 };
    p.hub.faults.down = 2;
    await p.pull("ann/tiny");
    p.hub.commit("ann/other", TINY_MODEL);
    p.hub.faults.limit = { times: 1, seconds: 3_600 };
    expect(await pullRefusal(p.pull("ann/other"))).toMatchObject({
      code: "hub_rate_limited",
      message: expect.stringContaining("3600 s"),
    });
    p.hub.faults.down = 99;
    expect((await pullRefusal(p.pull("ann/other"))).code).toBe("hub_unreachable");
  });
});

describe("several pulls", () => {
  it("Equal pulls are one pull, and pulls of two revisions into one place take turns", async () => {
    const large = largeContent(2 * 1024 * 1024);
    p.hub.commit("ann/large", { "model.safetensors": large });
    p.hub.commit("ann/large", { "model.safetensors": largeContent(1024) }, "small");
    let go!: () => void;
    p.hub.hold = new Promise((resolve) => (go = resolve));
    const first = p.pulls.pull({ model_id: "ann/large" });
    expect(p.pulls.pull({ model_id: "ann/large", revision: "main" }).id).toBe(first.id);
    await expect.poll(() => p.pulls.get(first.id).phase, { timeout: DEADLINE_MS }).toBe("checking");
    const second = p.pulls.pull({ model_id: "ann/large", revision: "small" });
    expect(second.id).not.toBe(first.id);
    await expect.poll(() => p.pulls.get(second.id).phase, { timeout: DEADLINE_MS }).toBe("waiting");
    go();
    p.hub.hold = null;
    expect((await p.pulls.wait(first.id)).bytes).toBe(large.size);
    const { path } = await p.pulls.wait(second.id);
    expect(statSync(join(path, "model.safetensors")).size).toBe(1024);
  });

  it("end when they are cancelled, keep downloaded bytes, and resume from them", async () => {
    const large = largeContent(4 * 1024 * 1024);
    p.hub.commit("ann/large", { "model.safetensors": large });
    p.hub.faults.stall = 1;
    const { id } = p.pulls.pull({ model_id: "ann/large" });
    const ended = pullRefusal(p.pulls.wait(id));
    await expect.poll(() => p.hub.filesAsked("cdn").length, { timeout: DEADLINE_MS }).toBe(1);
    expect((await p.pulls.cancel(id)).status).toBe("cancelled");
    expect(await ended).toMatchObject({ code: "hub_pull_ended" });
    expect(existsSync(join(p.home, "models/ann/large"))).toBe(false);
    expect(p.pulls.get(id).error?.hint).toContain("the downloaded part is kept");
    await p.pull("ann/large");
  });
});

describe("an end in the middle", () => {
  it("by a crash resumes with the same commit and without the downloaded bytes", async () => {
    const large = largeContent(5 * 1024 * 1024);
    const commit = p.hub.commit("ann/large", { "model.safetensors": large });
    p.hub.faults.cutAfter = [3_000_000];
    p.hub.faults.expired = 0;
    // The next attempts get no answer: the pull is under way, and its process is abandoned.
    let cut!: () => void;
    p.hub.holdOnceCut = new Promise((resolve) => (cut = resolve));
    const first = p.pulls.pull({ model_id: "ann/large" });
    await expect.poll(() => partials().length, { timeout: DEADLINE_MS }).toBe(1);
    await expect.poll(() => p.pulls.get(first.id).bytes_done, { timeout: DEADLINE_MS }).toBeGreaterThan(0);
    const crashed = p.pulls;
    p.hub.commit("ann/large", { "model.safetensors": largeContent(10) });
    const next = p.again();
    // The crashed process does nothing more.
    await crashed.stop();
    for (const name of readdirSync(join(p.home, "hub/pulls"))) {
      const file = join(p.home, "hub/pulls", name);
      writeFileSync(file, readFileSync(file, "utf8").replace('"status":"interrupted"', '"status":"running"'));
    }
    cut();
    p.hub.hold = p.hub.holdOnceCut = null;
    p.hub.asked.length = 0;
    next.begin();
    const pulled = await next.wait(first.id);
    expect(pulled.revision).toBe(commit);
    expect(read(pulled.path, "model.safetensors").equals(large.slice(0, large.size))).toBe(true);
    expect(p.hub.filesAsked("cdn")[0]?.range).toMatch(/^bytes=[1-9]\d*-$/);
  });

  it("A graceful shutdown interrupts a pull, reports it, and the next pull resumes", async () => {
    p.hub.commit("ann/large", { "model.safetensors": largeContent(4 * 1024 * 1024) });
    p.hub.faults.stall = 1;
    const { id } = p.pulls.pull({ model_id: "ann/large" });
    await expect.poll(() => p.hub.filesAsked("cdn").length, { timeout: DEADLINE_MS }).toBe(1);
    await p.pulls.stop();
    expect(p.pulls.get(id)).toMatchObject({ status: "interrupted", error: { code: "hub_pull_ended" } });
    p.again().begin();
    expect(p.pulls.get(id).status).toBe("interrupted");
    expect((await p.pull("ann/large")).files).toBe(1);
  });

  it("An interrupted pull with its own token is reported, because only its caller has the token", async () => {
    p.hub.commit("ann/large", TINY_MODEL);
    let go!: () => void;
    p.hub.hold = new Promise((resolve) => (go = resolve));
    const { id } = p.pulls.pull({ model_id: "ann/large", token: ALICE });
    await expect.poll(() => p.pulls.get(id).phase, { timeout: DEADLINE_MS }).toBe("checking");
    const crashed = p.pulls;
    const next = p.again();
    next.begin();
    await expect.poll(() => next.get(id).status, { timeout: DEADLINE_MS }).toBe("interrupted");
    go();
    p.hub.hold = null;
    await crashed.stop();
  });
});
