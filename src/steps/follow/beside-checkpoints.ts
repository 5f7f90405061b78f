// Tells a user of files that a script saves in the project's folder of a rented machine. svc downloads the checkpoint directory alone: the
// others go with the machine, and the run would succeed without a word about them.

import { bytes } from "../../domain/bytes.ts";
import type { BesideFiles, BesideNames } from "../../providers/host.ts";
import { printable } from "../checkpoints/names.ts";
import type { FollowedRun } from "./log-follower.ts";

/** Models in the formats of the frameworks, and the event files of TensorBoard. Tables and JSON may be anything: caches, data. */
const NAMED: BesideNames = {
  endings: ".ckpt .pt .pth .bin .safetensors .gguf .onnx .keras .h5 .hdf5 .joblib .pkl .pickle .msgpack .npz".split(
    " ",
  ),
  parts: ["pytorch_model", "events.out.tfevents"],
};
const ASK_MS = 15_000;

/** The files by name and size, and the warning about them. */
interface BesideFound {
  files: string;
  words: string;
}

/** Null if there are none, or if the machine cannot say. @param isOver whether the script has ended */
export async function besideFiles(run: FollowedRun, isOver: boolean, signal: AbortSignal): Promise<BesideFound | null> {
  try {
    const asked = AbortSignal.any([signal, AbortSignal.timeout(ASK_MS)]);
    const found = await run.host.besideCheckpoints?.(NAMED, asked);
    return found === undefined || found.files === 0 ? null : foundOf(found, isOver);
  } catch (cause) {
    // The question must neither end nor delay a run. What keeps the machine from an answer shows in other requests.
    if (signal.aborted) throw cause;
    return null;
  }
}

function foundOf({ files: count, bytes: size, largest }: BesideFiles, isOver: boolean): BesideFound {
  const named = largest.map(({ path, bytes: each }) => `${printable(path)} (${bytes(each)})`).join(", ");
  const more = count > largest.length ? ` and ${count - largest.length} more, ${bytes(size)} in all` : "";
  const files = `${named}${more}`;
  const words = isOver
    ? `The script saved files outside of the checkpoint directory, which svc does not download: ${files}. They are deleted with the machine. Save them in svc.checkpoint_dir() next time.`
    : `The script saves files outside of the checkpoint directory, which svc does not download: ${files}. They will be deleted with the machine: save them in svc.checkpoint_dir(), or copy them with \`svc ssh\` before the run ends.`;
  return { files, words };
}
