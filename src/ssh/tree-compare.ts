// Compares files on a machine with their expected digests, through its agent: in parts, so that progress can be
// reported and a lost connection costs only one part.

import { z } from "zod";
import { boundedJson } from "../domain/bounded-json.ts";
import { AgentRefusal } from "./agent-client.ts";
import { askAgent, type AskedMachine } from "./ask-agent.ts";
import { SvcError } from "../errors/index.ts";
import type { TreeCompare, TreeFile } from "../providers/host.ts";

const PART_FILES = 5_000;
const PART_BYTES = 2 * 1024 ** 3;
const ANSWER_MAX = 16 << 20;

const WRONG = { values: 1 + 3 * PART_FILES, depth: 2 };
const Wrong = z.array(z.tuple([z.string(), z.string().max(300)]));

/** Throws `sync_failed` if the machine cannot compare, and the errors of reaching it. */
export async function compareTree(
  { agent, name: machine }: AskedMachine,
  tree: TreeCompare,
  signal: AbortSignal,
): Promise<{ path: string; why: string }[]> {
  const wrong: { path: string; why: string }[] = [];
  const done = { files: 0, bytes: 0 };
  const refuse = (why: string, cause?: unknown) => new SvcError("sync_failed", { machine, why }, { cause });
  for (const part of partsOf(tree)) {
    const args = { root: tree.root, digests: tree.digests, drop: tree.drop };
    const body = Buffer.from(JSON.stringify(part.map(({ path, size, sha256 }) => [path, size, sha256])));
    const options = { signal, body, maxBytes: ANSWER_MAX };
    const { bytes } = await askAgent(agent, "compare", args, z.unknown(), options).catch((thrown: unknown) => {
      throw thrown instanceof AgentRefusal
        ? refuse(`its files cannot be compared (${thrown.message})`, thrown)
        : thrown;
    });
    const asked = new Set(part.map(({ path }) => path));
    const said = Wrong.safeParse(boundedJson(bytes.toString("utf8"), WRONG));
    if (!said.success || said.data.some(([path]) => !asked.has(path))) throw refuse("its list of files is malformed");
    wrong.push(...said.data.map(([path, why]) => ({ path, why })));
    done.files += part.length;
    done.bytes += part.reduce((sum, { size }) => sum + size, 0);
    tree.progress?.(done);
  }
  return wrong;
}

function* partsOf({ files, digests }: TreeCompare): Generator<TreeFile[]> {
  let part: TreeFile[] = [];
  let bytes = 0;
  for (const file of files) {
    if (part.length >= PART_FILES || (digests && part.length > 0 && bytes + file.size > PART_BYTES)) {
      yield part;
      [part, bytes] = [[], 0];
    }
    part.push(file);
    bytes += file.size;
  }
  if (part.length > 0) yield part;
}
