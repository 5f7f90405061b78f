// Data of a run on rented machines: every node has it, even if the control plane died during the transfer.
// @module-tag needs/sshd
// @module-tag needs/rsync

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { addData } from "../../src/files/data/add.ts";
import { World } from "./world.ts";

const READ = `import hashlib, os, pathlib
root = pathlib.Path(os.environ["SVC_DATA_DIR"]) / "set"
for path in sorted(p for p in root.rglob("*") if p.is_file()):
    print("READS", os.environ["SVC_NODE_RANK"], path.relative_to(root), hashlib.sha256(path.read_bytes()).hexdigest())
`;

it("with two nodes finds its data on both, after a control plane was killed in the upload and the next resumed it", async () => {
  const spec = { nodes: 2, launcher: "single", entrypoint: "read.py", args: [], data: ["set"] };
  const world = await World.start({ provider: "podhost", spec });
  try {
    writeFileSync(join(world.dir, "project/read.py"), READ);
    const set = join(world.dir, "set");
    mkdirSync(join(set, "deep"), { recursive: true });
    writeFileSync(join(set, "deep/small"), "small");
    writeFileSync(join(set, "large"), Buffer.alloc(10_000_000, "large"));
    const options = { home: world.home, now: Date.now(), signal: new AbortController().signal };
    await addData({ name: "set", paths: [set], followLinks: false }, options);
    const ending = await world.live("sync.started");
    expect(ending.records[0]).toMatchObject({ status: "succeeded", error: null });
    expect(world.lives).toBe(2);
    const lines = (ending.logs[0] ?? "").split("\n").filter((line) => line.includes("READS "));
    const said = lines.map((line) => line.slice(line.indexOf("READS ")).split(" ").slice(0, 3).join(" "));
    expect(said.toSorted()).toEqual(["READS 0 deep/small", "READS 0 large", "READS 1 deep/small", "READS 1 large"]);
    const digests = new Set(lines.filter((line) => line.includes("large")).map((line) => line.split(" ").at(-1)));
    expect(digests.size).toBe(1);
    expect(world.ledger.alive()).toEqual([]);
  } finally {
    await world.close();
  }
});
