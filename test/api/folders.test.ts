// The route that lists a folder for the form of a new run, over real connections.

import { chmodSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { serve } from "./double.ts";

const made: string[] = [];
afterEach(() => made.splice(0).forEach((folder) => rmSync(folder, { recursive: true, force: true })));

function folder(files: readonly string[]): string {
  const root = realpathSync(mkdtempSync(join(tmpdir(), "svc-folder-")));
  made.push(root);
  for (const file of files) {
    mkdirSync(join(root, file, ".."), { recursive: true });
    writeFileSync(join(root, file), "");
  }
  return root;
}

const look = async (url: string, path: string) => {
  const answer = await fetch(`${url}/v1/folder?path=${encodeURIComponent(path)}`);
  return { status: answer.status, body: (await answer.json()) as Record<string, unknown> };
};

test("A folder is listed with its folders, and with the scripts in it and one level below", async () => {
  const { server } = await serve();
  const root = folder([
    "train.py",
    "go.sh",
    "notes.md",
    "setup.py",
    "test_train.py",
    "src/main.py",
    "src/deep/far.py",
    ".git/hook.sh",
    ".venv/bin/activate.sh",
    "node_modules/a.py",
  ]);
  symlinkSync(root, `${root}-link`);
  made.push(`${root}-link`);
  for (const path of [root, `${root}-link`, `${root}/src/..`])
    expect(await look(server.url, path)).toEqual({
      status: 200,
      body: {
        path: root,
        parent: join(root, ".."),
        folders: ["src"],
        scripts: ["go.sh", "train.py", "src/main.py"],
        truncated: false,
      },
    });
  expect((await look(server.url, "/")).body).toMatchObject({ path: "/", parent: null });
});

test("A folder with thousands of entries is cut, and the answer says so", async () => {
  const { server } = await serve();
  const root = folder(Array.from({ length: 700 }, (_, i) => `p${i}/x.py`));
  const { body } = await look(server.url, root);
  expect(body).toMatchObject({ truncated: true });
  expect(body["folders"]).toHaveLength(500);
});

test("A path that is not a readable folder is refused with the reason", async () => {
  const { server } = await serve();
  const root = folder(["a.py", "shut/b.py"]);
  const detail = async (path: string) => (await look(server.url, path)).body;
  expect(await detail(join(root, "none"))).toMatchObject({ code: "project_dir_refused", status: 400 });
  expect((await detail(join(root, "none")))["detail"]).toContain("does not exist");
  expect((await detail(join(root, "a.py")))["detail"]).toContain("is not a folder");
  expect(await detail("relative")).toMatchObject({ code: "invalid_request" });
  expect(await detail("/a\0b")).toMatchObject({ code: "invalid_request" });
  if (process.getuid?.() === 0) return;
  chmodSync(join(root, "shut"), 0);
  expect((await detail(join(root, "shut")))["detail"]).toContain("permission denied");
  chmodSync(join(root, "shut"), 0o755);
});

test("The gate refuses a page of another site, so that it learns no name of a folder", async () => {
  const { server } = await serve();
  const answer = await fetch(`${server.url}/v1/folder?path=/`, { headers: { origin: "https://example.com" } });
  expect(answer.status).toBe(403);
  expect(await answer.text()).not.toContain("folders");
});
