import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { blobPath } from "../../src/files/code-contents.ts";
import { createSnapshot } from "../../src/files/code-snapshot.ts";
import { serve } from "./double.ts";
import { ask } from "./wire.ts";

async function setUp() {
  const { plane, server } = await serve();
  const codeDir = join(plane.home, "code");
  const submit = async (files: Record<string, string | Buffer>) => {
    const { id } = plane.addJob();
    const projectDir = join(plane.home, "..", `${id}-project-${process.pid}`);
    mkdirSync(projectDir);
    for (const [path, content] of Object.entries(files)) writeFileSync(join(projectDir, path), content);
    plane.snapshots.set(id, await createSnapshot({ projectDir, codeDir, now: 0 }));
    rmSync(projectDir, { recursive: true });
    return id;
  };
  const get = (path: string, headers: Record<string, string> = {}) => ask({ port: server.port, path, headers });
  return { codeDir, plane, submit, get };
}

it("lists a job's files and sends each: text as text, all else as bytes, with ranges", async () => {
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

it("refuses a file whose content is not what it was", async () => {
  const { submit, get, plane, codeDir } = await setUp();
  const id = await submit({ "a.py": "one" });
  writeFileSync(blobPath(codeDir, plane.snapshots.get(id)!.files[0]!.sha256), "two");
  expect((await get(`/jobs/${id}/code/files/a.py`)).json).toMatchObject({ code: "code_snapshot_damaged" });
});

it("tells what leads from one job's code to another's", async () => {
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
