import { mkdirSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from "node:fs";
import { open as openFile, type FileHandle } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { LogFiles } from "../../src/engine/log-files.ts";

let home: string;
let files: LogFiles;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "svc-log-files-"));
  mkdirSync(join(home, "logs"));
  files = new LogFiles(home, 4);
});
afterEach(async () => {
  await files.closeAll();
  rmSync(home, { recursive: true, force: true });
});

const text = (job: string) => readFileSync(join(home, "logs", `${job}.log`), "utf8");
/** The names of this home's logs that this process has open. */
const open = () =>
  readdirSync("/proc/self/fd")
    .flatMap((fd) => {
      try {
        return [readlinkSync(`/proc/self/fd/${fd}`)];
      } catch {
        return []; // the descriptor of this listing
      }
    })
    .filter((path) => path.startsWith(home))
    .map((path) => path.slice(join(home, "logs/").length))
    .toSorted();

describe("files of logs", () => {
  it("stay open between two parts, and text is written at its offset", async () => {
    await files.write("a", 0, Buffer.from("one\n"));
    await files.write("a", 4, Buffer.from("two\n"));
    expect([text("a"), open()]).toEqual(["one\ntwo\n", ["a.log"]]);
    await files.close("a");
    await files.close("a");
    expect(open()).toEqual([]);
    await files.write("a", 4, Buffer.from("TWO\n"));
    expect(text("a")).toBe("one\nTWO\n");
  });

  it("are on the disk, with every byte of a part, before its write is over", async () => {
    await files.write("a", 0, Buffer.from("one\n"));
    const probe = await openFile(join(home, "logs/a.log"));
    // Calls the real one: nothing else can tell whether the system was asked.
    const sync = vi.spyOn(Object.getPrototypeOf(probe) as FileHandle, "datasync");
    onTestFinished(() => sync.mockRestore());
    await probe.close();
    const before = sync.mock.calls.length;
    await files.write("a", 4, Buffer.from("two\n"));
    expect([sync.mock.calls.length - before, text("a")]).toEqual([1, "one\ntwo\n"]);
  });

  it("are open in a limited number, the most recently written ones", async () => {
    for (const job of ["a", "b", "c", "d"]) await files.write(job, 0, Buffer.from(job));
    await files.write("a", 1, Buffer.from("!"));
    await files.write("e", 0, Buffer.from("e"));
    await expect.poll(open).toEqual(["a.log", "c.log", "d.log", "e.log"]);
    await files.write("b", 1, Buffer.from("!"));
    expect([text("a"), text("b")]).toEqual(["a!", "b!"]);
  });

  it("are never closed during a write, even if more are written at once than may stay open", async () => {
    const jobs = Array.from({ length: 40 }, (_, i) => `job${i}`);
    const bytes = (job: string) => Buffer.alloc(200_000, job);
    await Promise.all(jobs.map((job) => files.write(job, 0, bytes(job))));
    for (const job of jobs) expect(text(job) === bytes(job).toString()).toBe(true);
    const last = files.write("job0", 0, Buffer.from("END"));
    await files.close("job0");
    await last;
    expect(text("job0").slice(0, 5)).toBe("END0j");
    await files.closeAll();
    expect(open()).toEqual([]);
  });

  it("are opened again after a failure", async () => {
    rmSync(home, { recursive: true });
    await expect(files.write("a", 0, Buffer.from("x"))).rejects.toMatchObject({ code: "ENOENT" });
    mkdirSync(home);
    await files.write("a", 0, Buffer.from("x"));
    expect(text("a")).toBe("x");
  });
});
