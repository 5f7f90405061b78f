// A home on a file system of 24 MB that fills up. svc loses nothing that it has accepted, machines are still released,
// and new runs are refused with one clear answer until there is room.

import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { DEADLINE_MS } from "../deadline.ts";
import { Place, until, type Served } from "./harness.ts";

describe("a full disk", { tags: "needs/mounts" }, () => {
  let place: Place;
  beforeEach(() => {
    place = Place.own("each has a full disk");
    mkdirSync(place.home, { mode: 0o700 });
    expect(spawnSync("mount", ["-t", "tmpfs", "-o", "size=24m,mode=700", "tmpfs", place.home]).status).toBe(0);
    place.file("hello.py", 'print("hello")\n');
    place.file(
      "flood.py",
      `import os, sys
expect = open(sys.argv[1], "wb", buffering=0)
for n in range(int(sys.argv[2])):
    data = b"".join(b"line %d %s\\n" % (i, b"." * 60) for i in range(n * 100, n * 100 + 100))
    view = memoryview(data)
    while view: view = view[os.write(1, view):]
    expect.write(data)
`,
    );
  });
  afterEach(async () => {
    const { home } = place;
    for (const pid of place.processes()) {
      try {
        process.kill(pid, "SIGKILL");
      } catch {
        // Gone meanwhile.
      }
    }
    await place.end();
    await until(() => spawnSync("umount", [home]).status === 0, "the file system can be unmounted");
    await place.close();
  });

  const free = (): number => {
    const { bavail, bsize } = statfsSync(place.home);
    return bavail * bsize;
  };
  /** Fills the free space, like another program would. */
  const fill = (leave: number): void => {
    const size = Math.max(0, free() - leave);
    try {
      writeFileSync(join(place.home, "ballast"), Buffer.alloc(size, 1));
    } catch (e) {
      if ((e as NodeJS.ErrnoException).code !== "ENOSPC") throw e;
    }
  };
  const refusesRuns = async (served: Served): Promise<void> => {
    const { status, body } = await served.post("/jobs", { spec: { entrypoint: "hello.py" } });
    expect([status, body["code"]]).toEqual([507, "disk_full"]);
    expect(body["hint"]).toContain("Free some space");
  };

  it(
    "a flood fills it: the run waits, the API answers, and after space was freed the log is complete",
    { timeout: 180_000 },
    async () => {
      const served = await place.serve();
      fill(12 << 20);
      const expected = join(place.root, "expected");
      // The log is stored twice, in the spool and at home, and needs more than the free space.
      const id = await served.submit({ entrypoint: "flood.py", args: [expected, "1500"], project_dir: place.project });
      await until(() => free() < 64 << 10, "the disk is full");
      await until(() => served.err.includes("is full"), "the control plane says so");
      expect((await served.job(id)).status).toBe("running");
      expect((await served.get<{ status: string }>("/v1/health")).status).toBeTruthy();
      // The disk may be full before any part of the log is downloaded.
      expect((await fetch(`${served.url}/jobs/${id}/logs?tail=3`)).status).toBe(200);
      await refusesRuns(served);
      expect(served.running).toBe(true);
      rmSync(join(place.home, "ballast"));
      spawnSync("mount", ["-o", "remount,size=96m", place.home]);
      const job = await served.ended(id);
      expect([job.status, job.exit_code], JSON.stringify(job.error)).toEqual(["succeeded", 0]);
      const wrote = readFileSync(expected);
      expect(place.log(id).length).toBe(wrote.length);
      expect(place.log(id).equals(wrote)).toBe(true);
      expect(place.refolds()).toBe(1);
      const next = await served.submit({ entrypoint: "hello.py", project_dir: place.project });
      expect((await served.ended(next)).status).toBe("succeeded");
    },
  );

  it(
    "a checkpoint that does not fit is named with its size, and keeps neither others nor the log from coming",
    { timeout: 180_000 },
    async () => {
      place.file(
        "large.py",
        `import os, svc, sys, time
root = svc.checkpoint_dir()
def save(name, data):
    with open(os.path.join(root, name), "wb") as f: f.write(data)
    svc.checkpoint(name)
save("large.bin", b"w" * (7 << 20))
n = 0
while not os.path.exists(sys.argv[1]):
    n += 1
    print("line", n, flush=True)
    if n == 20: save("small.bin", b"s" * 1000)
    time.sleep(0.1)
print("over", flush=True)
`,
      );
      const served = await place.serve();
      const stop = join(place.root, "stop");
      const id = await served.submit({ entrypoint: "large.py", args: [stop], project_dir: place.project });
      const small = join(place.home, "artifacts", id, "checkpoints", "small.bin");
      await until(() => existsSync(small), "the small checkpoint is at home", 60_000);
      const warned = (): boolean =>
        place.db((db) =>
          String(db.prepare("SELECT group_concat(data) FROM feed WHERE type = 'notice'").pluck().get()).includes(
            "The file large.bin cannot be downloaded: it takes 7.3 MB",
          ),
        );
      await until(warned, "a warning names the large one", 60_000);
      const lines = place.log(id).length;
      await until(() => place.log(id).length > lines, "the log goes on");
      writeFileSync(stop, "");
      await until(() => place.log(id).toString().endsWith("over\n"), "the log is complete");
      spawnSync("mount", ["-o", "remount,size=96m", place.home]);
      const job = await served.ended(id, 120_000);
      expect([job.status, job.exit_code], JSON.stringify(job.error)).toEqual(["succeeded", 0]);
      expect(readFileSync(join(small, "..", "large.bin")).length).toBe(7 << 20);
    },
  );

  it("a kill still ends the run and releases the machine while the disk is full", { timeout: 180_000 }, async () => {
    place.file("wait.py", 'import time\nprint("up", flush=True)\ntime.sleep(600)\n');
    const served = await place.serve();
    const id = await served.submit({ entrypoint: "wait.py", project_dir: place.project });
    await until(async () => (await served.text(`/jobs/${id}/logs`)) === "up\n", "the script runs");
    fill(0);
    await refusesRuns(served);
    expect((await served.post(`/jobs/${id}/kill`, {})).status).toBe(202);
    expect((await served.ended(id)).status).toBe("cancelled");
    expect(place.processes()).toEqual([]);
    rmSync(join(place.home, "ballast"));
    const next = await served.submit({ entrypoint: "hello.py", project_dir: place.project });
    expect((await served.ended(next)).status).toBe("succeeded");
    expect(place.refolds()).toBe(2);
  });

  it("kills a run that floods a full disk", async () => {
    const served = await place.serve();
    fill(8 << 20);
    const expected = join(place.root, "expected");
    const id = await served.submit({ entrypoint: "flood.py", args: [expected, "100000"], project_dir: place.project });
    await until(() => served.err.includes("is full"), "the control plane says so");
    expect((await served.post(`/jobs/${id}/kill`, {})).status).toBe(202);
    await until(() => place.scripts().length === 0, "the script is gone", DEADLINE_MS);
    rmSync(join(place.home, "ballast"));
    spawnSync("mount", ["-o", "remount,size=96m", place.home]);
    expect((await served.ended(id)).status).toBe("cancelled");
    const stored = place.log(id);
    expect(stored.length).toBeGreaterThan(1 << 20);
    expect(
      readFileSync(expected)
        .subarray(0, stored.length - 100_000)
        .equals(stored.subarray(0, stored.length - 100_000)),
    ).toBe(true);
    expect(place.refolds()).toBe(1);
  });

  it("starts on a full disk with the space of its reserve, to release its machines", async () => {
    place.file("wait.py", 'import time\nprint("up", flush=True)\ntime.sleep(600)\n');
    const first = await place.serve();
    const id = await first.submit({ entrypoint: "wait.py", project_dir: place.project });
    await until(async () => (await first.text(`/jobs/${id}/logs`)) === "up\n", "the script runs");
    await first.kill();
    fill(0);
    const second = await place.serve();
    expect((await second.post(`/jobs/${id}/kill`, {})).status).toBe(202);
    expect((await second.ended(id)).status).toBe("cancelled");
    await refusesRuns(second);
  });

  it("a disk that is full from the start gives one clear line", async () => {
    fill(0);
    const { code, err } = await place.refused();
    expect(code).toBe(1);
    const { error } = JSON.parse(err) as { error: { code: string; message: string } };
    expect(error.code).toBe("disk_full");
    expect(error.message).toContain("full");
  });
});
