// Homes that cannot be used: svc prints one clear line, exits with a code, and keeps every byte.

import Database from "better-sqlite3";
import { spawnSync } from "node:child_process";
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, describe, expect, it } from "vitest";
import { hashes, Place, until } from "./harness.ts";

let place: Place;
beforeEach(() => {
  place = Place.own("its home is damaged");
});
afterEach(() => place.close());

const store = (): string => join(place.home, "svc.db");

type How = "ended" | "crashed";
/** Places with a used home of each kind: tests copy the home, so that it is made once. */
const originals = new Map<How, Place>();
const opened: Place[] = [];
afterAll(async () => {
  for (const place of opened) await place.close();
});

async function make(how: How): Promise<Place> {
  const original = Place.own("its home is copied");
  opened.push(original);
  original.file("hello.py", 'print("hello")\n');
  const served = await original.serve();
  await served.ended(await served.submit({ entrypoint: "hello.py" }));
  if (how === "crashed") await served.kill();
  else {
    served.signal("SIGTERM");
    await served.exited;
  }
  originals.set(how, original);
  return original;
}

/** A home that has had a run. If it crashed, its last transactions are still in the write-ahead log. */
async function used(how: How = "ended"): Promise<void> {
  place.copyHome(originals.get(how) ?? (await make(how)));
}

/**
 * Expects a refusal with this code, in one line that says what happened and one that says what to do, and an unchanged
 * home.
 */
async function refused(code: string, uid?: number): Promise<string> {
  const ours = /^(lock\.db(-journal)?|svc\.db-shm|holder\.json)$/; // the lock, and SQLite's index of the log, which contains no data
  const before = hashes(place.home, ours);
  const served = await place.refused(uid === undefined ? {} : { uid });
  expect(served.code, served.err).toBe(1);
  const { error } = JSON.parse(served.err) as { error: { code: string; message: string; hint: string } };
  expect(error.code, served.err).toBe(code);
  expect(error.message).toContain(place.home);
  expect(error.message).not.toContain("\n");
  expect(error.hint.length).toBeGreaterThan(10);
  const after = hashes(place.home, ours);
  // SQLite may leave an empty log next to a store that it has only read.
  if (existsSync(`${store()}-wal`) && statSync(`${store()}-wal`).size === 0) delete after["svc.db-wal"];
  expect(after).toEqual(before);
  return error.message;
}

function overwrite(file: string, at: number, bytes: Buffer): void {
  const data = readFileSync(file);
  bytes.copy(data, at);
  writeFileSync(file, data);
}

describe("a store that cannot be trusted", () => {
  it("a broken header", async () => {
    await used();
    overwrite(store(), 0, Buffer.from("not a database at all"));
    await refused("store_corrupt");
  });

  it("a broken page in the middle", async () => {
    await used();
    const pages = statSync(store()).size / 4096;
    for (let page = 2; page < pages; page += 3) overwrite(store(), page * 4096, Buffer.alloc(2_000, 0xa5));
    expect(await refused("store_corrupt")).toContain("may list machines");
  });

  it("truncated in the middle", async () => {
    await used();
    truncateSync(store(), Math.floor(statSync(store()).size / 2 / 4096) * 4096);
    await refused("store_corrupt");
  });

  it("empty", async () => {
    await used();
    truncateSync(store(), 0);
    expect(await refused("store_corrupt")).toContain("empty");
  });

  it("a database without tables in a home that was used", async () => {
    await used();
    for (const name of readdirSync(place.home)) if (name.startsWith("svc.db")) rmSync(join(place.home, name));
    const fresh = new Database(store());
    fresh.pragma("journal_mode = WAL");
    fresh.exec("CREATE TABLE a (b); DROP TABLE a");
    fresh.close();
    await refused("store_corrupt");
  });

  it("a database of another program", async () => {
    mkdirSync(place.home, { mode: 0o700 });
    const foreign = new Database(store());
    foreign.exec("CREATE TABLE recipes (name TEXT); PRAGMA user_version = 1");
    foreign.close();
    // svc creates the folders of a home before it looks at the store.
    for (const folder of ["logs", "runs", "artifacts", "code", "backups"]) mkdirSync(join(place.home, folder));
    await refused("store_corrupt");
  });

  it("a missing database in a home that was used", async () => {
    await used();
    for (const name of readdirSync(place.home)) if (name.startsWith("svc.db")) rmSync(join(place.home, name));
    const message = await refused("store_missing");
    expect(message).toContain("may have listed machines");
    expect(existsSync(store())).toBe(false);
  });

  it.each(["ended", "crashed"] as const)("written by a newer program, which %s", async (how) => {
    await used(how);
    const copy = new Database(store());
    copy.pragma("wal_autocheckpoint = 0");
    copy.pragma("user_version = 99");
    // A closed connection merges the log into the store. To produce the state after a crash, the test copies the files
    // before that.
    const files = ["svc.db", "svc.db-wal"].map((name) => [name, readFileSync(join(place.home, name))] as const);
    copy.close();
    if (how === "crashed")
      for (const [name, bytes] of files) writeFileSync(join(place.home, name), bytes, { mode: 0o600 });
    await refused("store_newer");
    expect(place.svc("jobs").err).toContain("newer version");
  });
});

describe("a home that cannot be used", () => {
  it("is a file", async () => {
    writeFileSync(place.home, "a file");
    expect(await refused("home_unusable")).toContain("not a folder");
  });

  it("is writable by every user", async () => {
    await used();
    chmodSync(place.home, 0o777);
    expect(await refused("home_unusable")).toContain("every user");
    expect(statSync(place.home).mode & 0o777).toBe(0o777);
  });

  it("belongs to another user", { tags: "needs/root" }, async () => {
    await used();
    chownSync(place.home, 54_321, 54_321);
    expect(await refused("home_unusable")).toContain("another user");
  });

  it(
    "contains a file that another user put there while a group could write to it",
    { tags: "needs/root" },
    async () => {
      await used();
      chmodSync(place.home, 0o770);
      mkdirSync(join(place.home, "ssh"), { recursive: true });
      chownSync(join(place.home, "ssh"), 54_321, 54_321);
      expect(await refused("home_unusable")).toContain("holds ssh of another user");
      // This holds even if other users can no longer write there.
      expect(await refused("home_unusable")).toContain("holds ssh of another user");
    },
  );

  it("is not writable", { tags: "needs/no-root" }, async () => {
    mkdirSync(place.home, { mode: 0o700 });
    writeFileSync(join(place.home, "keep"), "this");
    chmodSync(place.home, 0o500);
    expect(await refused("home_unusable")).toContain("may not be written");
    chmodSync(place.home, 0o700);
  });

  // Root may write everywhere except on such a file system.
  it("is on a file system that is mounted read-only", { tags: "needs/mounts" }, async () => {
    mkdirSync(place.home, { mode: 0o700 });
    const mounted = spawnSync("mount", ["-t", "tmpfs", "-o", "ro,size=1m,mode=700", "tmpfs", place.home]);
    expect(mounted.status, mounted.stderr.toString()).toBe(0);
    try {
      expect(await refused("home_unusable")).toContain("read-only");
    } finally {
      spawnSync("umount", [place.home]);
    }
  });

  it("has a lock file of another kind", async () => {
    await used();
    writeFileSync(join(place.home, "lock.db"), "this is not a lock but quite a long text that no database begins with");
    expect(await refused("home_unusable")).toContain("lock.db");
  });
});

describe("a home that can be used", () => {
  it("has lost only its installation.json: the store knows the installation", async () => {
    await used();
    const mark = join(place.home, "installation.json");
    const { installation_id } = JSON.parse(readFileSync(mark, "utf8")) as { installation_id: string };
    rmSync(mark);
    const served = await place.serve();
    expect(JSON.parse(readFileSync(mark, "utf8"))).toMatchObject({ installation_id });
    expect((await served.get<{ jobs: unknown[] }>("/jobs")).jobs).toHaveLength(1);
  });

  it("loses the log of a run while it prints: readers and the run say what is lost, also after a crash", async () => {
    place.file(
      "count.py",
      `import os, sys, time
n = 0
while not os.path.exists(sys.argv[1]):
    print("line", n, flush=True)
    n += 1
    time.sleep(0.02)
print("over", flush=True)
`,
    );
    const stop = join(place.root, "stop");
    const first = await place.serve();
    const id = await first.submit({ entrypoint: "count.py", args: [stop], terminate_on_exit: false });
    const log = join(place.home, "logs", `${id}.log`);
    await until(() => place.log(id).includes("line 20\n"), "the log grows");
    rmSync(log);
    await until(() => place.log(id).includes("line "), "the log continues in a new file");
    const notices = (): number =>
      place.db((db) =>
        db.prepare("SELECT count(*) FROM feed WHERE data LIKE '%of this log are lost%'").pluck().get(),
      ) as number;
    // The file is written before the commit that reports the loss.
    await until(() => notices() > 0, "the loss is reported");
    expect(notices()).toBe(1);
    const told = /^svc: [0-9]+ bytes of this log are lost: something other than svc removed or changed its file\.\n/;
    expect(place.svc("logs", id).out).toMatch(told);
    await first.kill();
    rmSync(log);
    const { code, out, err } = place.svc("logs", id);
    expect([code, err]).toEqual([0, ""]);
    expect(out).toMatch(told);
    const second = await place.serve();
    writeFileSync(stop, "");
    expect((await second.ended(id)).status).toBe("succeeded");
    expect(notices()).toBe(2);
    expect(place.log(id).toString()).toMatch(told);
    expect(place.log(id).toString()).toMatch(/\nover\n$/);
  });

  it("had too wide permissions: they are removed again", async () => {
    await used();
    chmodSync(place.home, 0o755);
    await place.serve();
    expect(statSync(place.home).mode & 0o777).toBe(0o700);
  });

  it("keeps its files private under any umask, write-ahead log included", async () => {
    const before = process.umask(0o022);
    try {
      const served = await place.serve();
      place.file(
        "save.py",
        'import os\nopen(os.path.join(os.environ["SVC_CHECKPOINT_DIR"], "w.bin"), "w").write("w")\nprint("hi")\n',
      );
      await served.ended(await served.submit({ entrypoint: "save.py" }));
      expect(existsSync(`${store()}-wal`)).toBe(true);
      const open: string[] = [];
      for (const entry of readdirSync(place.home, { withFileTypes: true, recursive: true })) {
        const path = join(entry.parentPath, entry.name);
        const mode = statSync(path).mode & 0o777;
        if ((mode & 0o077) !== 0) open.push(`${path.slice(place.home.length)} ${mode.toString(8)}`);
      }
      expect(open).toEqual([]);
      expect(statSync(place.home).mode & 0o777).toBe(0o700);
    } finally {
      process.umask(before);
    }
  });
});
