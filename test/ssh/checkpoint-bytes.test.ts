// The bytes of a checkpoint that the agent sends are those of the file that it listed (A3 and A4 of the agent).

import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { agentPath } from "../runner/programs.ts";

const folder = mkdtempSync(join(tmpdir(), "svc-checkpoint-bytes-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

it("The agent refuses bytes of a file that changed while they were read, and of a link to the listed file", () => {
  const run = join(folder, "changing");
  mkdirSync(join(run, "checkpoints"), { recursive: true });
  writeFileSync(join(run, "spec.json"), JSON.stringify({ checkpoint_dir: join(run, "checkpoints") }));
  writeFileSync(join(run, "checkpoints", "a"), "text");
  const code = `
import json, os, sys
sys.path.insert(0, sys.argv[1])
import svc_agent
def ask():
    path, size, mtime, inode = json.loads(svc_agent.op_list({"dir": sys.argv[2]})[1])
    return {"dir": sys.argv[2], "path": path, "size": size, "mtime": mtime, "inode": inode, "offset": 0, "max": 9}
def said(op, ask):
    try:
        return op(ask)
    except svc_agent.Refusal as e:
        return e.kind
file = sys.argv[2] + "/checkpoints/a"
pread = os.pread
def change(fd, size, offset):
    data = pread(fd, size, offset)
    with open(file, "a") as more:
        more.write("!")
    return data
listed = ask()
os.pread = change
print(said(svc_agent.op_read_file, listed))
listed = ask()
print(said(svc_agent.op_hash_file, listed))
os.pread = pread
listed = ask()
os.rename(file, sys.argv[2] + "/a")
os.symlink(sys.argv[2] + "/a", file)
print(said(svc_agent.op_read_file, listed))
`;
  const argv = ["-B", "-c", code, join(agentPath, ".."), run];
  const { stdout, stderr } = spawnSync("python3", argv, { encoding: "utf8" });
  expect([stdout, stderr]).toEqual(["changed\nchanged\nmissing\n", ""]);
});

it("The agent answers other requests, and sends keepalives, while it hashes a large file", () => {
  const run = join(folder, "large");
  mkdirSync(join(run, "checkpoints"), { recursive: true });
  writeFileSync(join(run, "spec.json"), JSON.stringify({ checkpoint_dir: join(run, "checkpoints") }));
  writeFileSync(join(run, "checkpoints", "a"), "text");
  const code = `
import json, os, sys, threading
sys.path.insert(0, sys.argv[1])
import svc_agent
svc_agent.ALIVE_SECONDS = 0.01
path, size, mtime, inode = json.loads(svc_agent.op_list({"dir": sys.argv[2]})[1])
listed = {"dir": sys.argv[2], "path": path, "size": size, "mtime": mtime, "inode": inode}
requests, to_agent = os.pipe()
answers, from_agent = os.pipe()
heard = threading.Event()
pread = os.pread
def slow(fd, size, offset):
    heard.wait(20)
    return pread(fd, size, offset)
os.pread = slow
threading.Thread(target=svc_agent.Channel(from_agent).listen, args=(os.fdopen(requests, "rb"),), daemon=True).start()
for number, op in enumerate(("hash_file", "status")):
    os.write(to_agent, json.dumps({**listed, "id": number, "op": op}).encode() + b"\\n")
order, kept = [], False
for line in os.fdopen(answers, "rb"):
    head = json.loads(line)
    kept = kept or (head.get("alive") is True and head["id"] == 0)
    if not head.get("alive"):
        order.append(head["id"])
    if order == [1] and kept:
        heard.set()
    if len(order) == 2:
        print(order, kept, head["ok"]["sha256"][:8], flush=True)
        os._exit(0)
`;
  const { stdout, stderr } = spawnSync("python3", ["-B", "-c", code, join(agentPath, ".."), run], { encoding: "utf8" });
  expect([stdout, stderr]).toEqual(["[1, 0] True 982d9e3e\n", ""]);
});
