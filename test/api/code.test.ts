import { mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { blobPath } from "../../src/files/code/contents.ts";
import { createSnapshot } from "../../src/files/code/code-snapshot.ts";
import { serve } from "./double.ts";
import { ask } from "./wire.ts";

async function setUp() {
  const { plane, server } = await serve();
  const codeDir = join(plane.home, "code");
  const submit = async (files: Record<string, string | Buffer>) => {
    const { id, projectDir } = await submitFrom(files);
    rmSync(projectDir, { recursive: true });
    return id;
  };
  /** The project directory stays unchanged. */
  const submitFrom = async (files: Record<string, string | Buffer>) => {
    const projectDir = mkdtempSync(join(plane.home, "..", "project-"));
    onTestFinished(() => rmSync(projectDir, { recursive: true, force: true }));
    const { id } = plane.addJob({ spec: { entrypoint: "train.py", project_dir: projectDir } });
    for (const [path, content] of Object.entries(files)) writeFileSync(join(projectDir, path), content);
    plane.snapshots.set(id, await createSnapshot({ projectDir, codeDir, now: 0, svcHome: plane.home }));
    return { id, projectDir };
  };
  const get = (path: string, headers: Record<string, string> = {}) => ask({ port: server.port, path, headers });
  return { codeDir, plane, submit, submitFrom, get };
}

it("The API lists a job's files and sends each: text as text, everything else as bytes, with ranges", async () => {
  const { submit, get } = await setUp();
  const page = "<script>alert(1)</script>\n";
  const id = await submit({ "a b.html": page, "w.bin": Buffer.from([0, 255, 1]) });
  const { files, bytes } = (await get(`/jobs/${id}/code/files`)).json as { files: { path: string }[]; bytes: number };
  expect([files.map((f) => f.path), bytes]).toEqual([["a b.html", "w.bin"], page.length + 3]);
  const text = await get(`/jobs/${id}/code/files/a%20b.html`);
  expect([text.status, text.text]).toEqual([200, page]);
  expect(text.headers).toMatchObject({
    "content-type": "text/plain; charset=utf-8",
    "x-content-type-options": "nosniff",
    "content-security-policy": "sandbox; default-src 'none'",
  });
  const part = await get(`/jobs/${id}/code/files/a%20b.html`, { range: "bytes=1-6" });
  expect([part.status, part.text]).toEqual([206, "script"]);
  expect((await get(`/jobs/${id}/code/files/w.bin`)).headers["content-type"]).toBe("application/octet-stream");
});

it.each(["../../token", "..%2f..%2ftoken", "/etc/passwd", "%2fetc%2fpasswd", "./a.py", "A.PY", "a.py/", "a.py%00", ""])(
  "finds no file under %j",
  async (path) => {
    const { submit, get, plane } = await setUp();
    writeFileSync(join(plane.home, "token"), "t");
    const id = await submit({ "a.py": "" });
    const reply = await get(`/jobs/${id}/code/files/${path}`);
    expect(reply.status).toBe(404);
    expect(reply.text).not.toContain("root:");
  },
);

it("The API refuses a file whose content has changed", async () => {
  const { submit, get, plane, codeDir } = await setUp();
  const id = await submit({ "a.py": "one" });
  writeFileSync(blobPath(codeDir, plane.snapshots.get(id)!.files[0]!.sha256 ?? ""), "two");
  expect((await get(`/jobs/${id}/code/files/a.py`)).json).toMatchObject({ code: "code_snapshot_damaged" });
});

it("The API shows the diff from one job's code to another's", async () => {
  const { submit, get, plane } = await setUp();
  const [one, two] = [
    await submit({ "a.py": "x = 1\ny = 2\n" }),
    await submit({ "a.py": "x = 1\ny = 3\n", "b.py": "" }),
  ];
  const reply = (await get(`/jobs/${one}/code/diff?with=${two}`)).json;
  expect(reply).toMatchObject({ from: { job_id: one }, to: { job_id: two }, added_lines: 1, removed_lines: 1 });
  expect(reply).toMatchObject({
    changes: [
      { path: "a.py", status: "changed", patch: "@@ -1,2 +1,2 @@\n x = 1\n-y = 2\n+y = 3\n" },
      { path: "b.py", status: "added", patch: null },
    ],
  });
  expect((await get(`/jobs/${one}/code/diff`)).json).toMatchObject({ code: "invalid_request" });
  expect((await get(`/jobs/${one}/code/diff?with=nobody`)).json).toMatchObject({ code: "job_not_found" });
  const { id } = plane.addJob();
  expect((await get(`/jobs/${one}/code/diff?with=${id}`)).json).toMatchObject({ code: "code_snapshot_missing" });
});

it("The API shows the diff from a job's code to its own project directory, limited to the files of a submission", async () => {
  const { submitFrom, get, plane } = await setUp();
  const { id, projectDir } = await submitFrom({ "a.py": "x = 1\n", "gone.py": "y = 2\n", ".gitignore": "*.bin\n" });
  expect((await get(`/jobs/${id}/code/changes`)).json).toMatchObject({ changes: [], added_lines: 0, removed_lines: 0 });
  writeFileSync(join(plane.home, "token"), "a secret of the home");
  writeFileSync(join(projectDir, "a.py"), "x = 2\n");
  rmSync(join(projectDir, "gone.py"));
  for (const left of [".env", "key.pem", "big.bin"]) writeFileSync(join(projectDir, left), "a secret");
  symlinkSync(join(plane.home, "token"), join(projectDir, "link.py"));
  const reply = await get(`/jobs/${id}/code/changes`);
  expect(reply.json).toMatchObject({
    from: { job_id: id, directory: null },
    to: { job_id: null, code_snapshot: null, directory: realpathSync(projectDir) },
    changes: [
      { path: "a.py", status: "changed", patch: "@@ -1 +1 @@\n-x = 1\n+x = 2\n" },
      { path: "gone.py", status: "removed" },
    ],
  });
  expect(reply.text).not.toContain("secret");
});

it("The API refuses a project directory that is gone, is not a project, or was never recorded", async () => {
  const { submitFrom, get, plane } = await setUp();
  const { id, projectDir } = await submitFrom({ "a.py": "x = 1\n" });
  rmSync(projectDir, { recursive: true });
  expect((await get(`/jobs/${id}/code/changes`)).json).toMatchObject({ code: "project_dir_refused" });
  plane.addJob({ ...plane.records.get(id)!, spec: { project_dir: plane.home } });
  expect((await get(`/jobs/${id}/code/changes`)).json).toMatchObject({ code: "project_dir_refused" });
  expect((await get(`/jobs/${plane.addJob().id}/code/changes`)).json).toMatchObject({ code: "code_snapshot_missing" });
  expect((await get("/jobs/nobody/code/changes")).json).toMatchObject({ code: "job_not_found" });
});
