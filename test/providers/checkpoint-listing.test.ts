// The bounds of a listing of checkpoints: what they leave out, and that this computer and a machine list the same.

import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { spawnSync } from "node:child_process";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { listFiles } from "../../src/providers/local/checkpoint-files.ts";
import type { AgentClient } from "../../src/ssh/agent-client.ts";
import { RemoteHost } from "../../src/ssh/remote-host.ts";
import { python } from "../runner/harness.ts";
import { agentPath } from "../runner/programs.ts";

let top: string;
let folder: string;
beforeEach(() => {
  top = mkdtempSync(join(tmpdir(), "svc-listing-"));
  folder = join(top, "checkpoints");
  mkdirSync(join(top, "run"));
  writeFileSync(join(top, "run/spec.json"), JSON.stringify({ checkpoint_dir: folder }));
});
afterEach(() => rmSync(top, { recursive: true, force: true }));

function put(...paths: string[]): void {
  for (const path of paths) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), "weights");
  }
}

const OPS = `
import json, sys
sys.path.insert(0, sys.argv[1])
import svc_agent
svc_agent.FILES_MAX, svc_agent.NAMES_MAX, names = json.loads(sys.argv[3])
head, body = svc_agent.op_list({"dir": sys.argv[2]})
if head["full"] and names:
    head, body = svc_agent.op_list({"dir": sys.argv[2], "names": names})
print(json.dumps([json.loads(row) for row in body.splitlines()]))
`;

type Row = [path: string, why?: string];

/** The rows of the agent's listing: the path, and the reason of a refusal, with its mark. */
function listedThere(filesMax: number, namesMax: number, announced: string[]): Row[] {
  const bounds = JSON.stringify([filesMax, namesMax, announced]);
  const { stdout, stderr } = spawnSync(python, ["-B", "-c", OPS, join(agentPath, ".."), join(top, "run"), bounds], {
    encoding: "utf8",
  });
  expect(stderr).toBe("");
  const rows = JSON.parse(stdout) as [string, string | number, ...unknown[]][];
  return rows.map(([path, why, mark]) =>
    typeof why === "string" ? [path, typeof mark === "string" && mark !== "" ? `${mark}: ${why}` : why] : [path],
  );
}

/** The same listing from both. */
async function listed({ filesMax = 100_000, namesMax = 1_000_000, announced = [] as string[] } = {}): Promise<Row[]> {
  const files = await listFiles(folder, new AbortController().signal, { filesMax, namesMax, announced });
  const here = files.map(({ path, refused, isLink, isLimit }): Row => {
    const mark = isLink ? "link: " : isLimit ? "limit: " : "";
    return refused === undefined ? [path] : [path, `${mark}${refused}`];
  });
  expect(listedThere(filesMax, namesMax, announced)).toEqual(here);
  return here;
}

const OUT = "link: it is a symlink that leaves the checkpoint directory";
const beyond = (files: number): string => `limit: it and what follows it are beyond the first ${files} files`;

test("Names that cannot be downloaded take no place of a file, and a few of each folder stand for all of them", async () => {
  put("model.pt", "z/last.pt");
  mkdirSync(join(folder, "images"));
  for (let i = 100; i < 150; i++) symlinkSync(`/data/${i}.jpg`, join(folder, `images/${i}.jpg`));
  expect(await listed({ filesMax: 2 })).toEqual([
    ["model.pt"],
    ...Array.from({ length: 10 }, (_, i) => [`images/${100 + i}.jpg`, OUT]),
    ["images/110.jpg", `${OUT}; 39 more names of its folder cannot be downloaded either`],
    ["z/last.pt"],
  ]);
});

test("A row for several names is that of a symlink only if each of them is one", async () => {
  put(`${"d/".repeat(32)}deep/x`);
  const deep = join(folder, "d/".repeat(32));
  for (let i = 0; i < 11; i++) symlinkSync("/data", join(deep, `a${i}`));
  const why = "it is a symlink that leaves the checkpoint directory";
  expect((await listed()).at(-1)?.[1]).toBe(`${why}; 1 more name of its folder cannot be downloaded either`);
});

test("The files of a folder come before those of its subfolders, which cannot crowd them out", async () => {
  put("a/deep/1", "a/deep/2", "a/deep/3", "a/z.pt", "model.pt");
  expect(await listed({ filesMax: 3 })).toEqual([["model.pt"], ["a/z.pt"], ["a/deep/1"], ["a/deep/2", beyond(3)]]);
  expect((await listed()).map(([path]) => path)).toEqual(["model.pt", "a/z.pt", "a/deep/1", "a/deep/2", "a/deep/3"]);
});

test("Announced names are listed although others reach the limit", async () => {
  put("a/1", "a/2", "a/3", "a/4", "m/model.pt", "m/other.pt", "run/step-5/w1", "run/step-5/w2/x", "zz.pt", "b/one");
  symlinkSync("m/model.pt", join(folder, "last.pt"));
  symlinkSync("run", join(folder, "view"));
  const announced = [
    "run/step-5",
    "m/model.pt",
    "last.pt",
    "gone.pt",
    "../secret",
    "/etc/passwd",
    "",
    ".",
    "view/step-5",
    "m//x",
  ];
  expect(await listed({ filesMax: 5, announced })).toEqual([
    ["m/model.pt"],
    ["last.pt"],
    ["run/step-5/w1"],
    ["run/step-5/w2/x"],
    ["view", "link: it is a symlink to a folder; the folder's files are listed under their own names"],
    ["zz.pt"],
    ["a/1", beyond(5)],
  ]);
  expect(await listed({ filesMax: 4, announced })).toContainEqual(["zz.pt", beyond(4)]);
  expect((await listed({ filesMax: 100, announced })).map(([path]) => path).at(0)).toBe("last.pt");
});

test("Of announced names the files come first, and a folder that does not fit is not listed as if it were complete", async () => {
  put("s/1", "s/2", "s/3", "t/1", "z.pt");
  expect(await listed({ filesMax: 2, announced: ["s", "s/3", "t/1", "z.pt"] })).toEqual([
    ["s/3"],
    ["t/1"],
    ["z.pt", beyond(2)],
  ]);
  expect(await listed({ filesMax: 3, announced: ["s/3", "s"] })).toEqual([
    ["s/3"],
    ["s/1"],
    ["s/2"],
    ["z.pt", beyond(3)],
  ]);
  expect(await listed({ filesMax: 2, announced: ["s", "z.pt"] })).toEqual([["z.pt"], ["s/1"], ["s/2", beyond(2)]]);
});

test("A search among names that cannot be downloaded ends, too", async () => {
  put("model.pt");
  mkdirSync(join(folder, "images"));
  for (let i = 100; i < 120; i++) symlinkSync(`/data/${i}.jpg`, join(folder, `images/${i}.jpg`));
  expect((await listed({ namesMax: 15 })).slice(-2)).toEqual([
    ["images/115.jpg", "limit: it and what follows it come after 15 names that cannot be downloaded"],
    ["images/110.jpg", `${OUT}; 4 more names of its folder cannot be downloaded either`],
  ]);
});

test("A machine gets the announced names only once its listing is full, and no more of them than one request holds", async () => {
  const asked: unknown[] = [];
  let full = true;
  const rows = '["a",1,1,1]\n["b","why","",7]\n["c","why","limit"]\n["d","why","link"]\n["e","why"]\n';
  const client = {
    calls: 1,
    call: async (op: string, args: { names?: string[] }) => {
      asked.push(`${op} ${args.names?.length ?? "-"}`);
      return { value: { full }, bytes: Buffer.from(rows) };
    },
  } as unknown as AgentClient;
  const runner = { text: Buffer.alloc(0), digest: "0" };
  const host = new RemoteHost({ machine: "m", runDir: "/r", runner, agent: () => Promise.resolve(client) });
  const { signal } = new AbortController();
  const none = { size: 0, mtimeMs: 0, inode: 0, refused: "why" };
  expect(await host.listCheckpoints(signal, ["x", "y"])).toEqual([
    { path: "a", size: 1, mtimeMs: 1, inode: 1 },
    { path: "b", ...none, others: 7 },
    { path: "c", ...none, isLimit: true },
    { path: "d", ...none, isLink: true },
    { path: "e", ...none },
  ]);
  await host.listCheckpoints(signal);
  await host.listCheckpoints(signal, ["short", ...Array<string>(300).fill("x".repeat(4_093))]);
  full = false;
  await host.listCheckpoints(signal, ["x", "y"]);
  expect(asked).toEqual(["list -", "list 2", "list -", "list -", "list 256", "list -"]);
});
