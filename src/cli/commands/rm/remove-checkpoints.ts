// Removes some checkpoints of one run, or says how much space that would free.

import { bytes } from "../../../domain/bytes.ts";
import { freedWords } from "../../../domain/freed-words.ts";
import { stepInName } from "../../../domain/step-in-name.ts";
import { safeField } from "../../../domain/terminal-text.ts";
import type { ResumePoint } from "../../../schemas/job.ts";
import type { CheckpointsRemoved } from "../../../schemas/removal.ts";
import { usage } from "../../argv.ts";
import { runningClient, withOwnControlPlane } from "../../control-plane.ts";
import type { Io } from "../../io.ts";
import { printJson } from "../../text.ts";

/** The most names that an error lists. */
const NAMED_MAX = 8;

interface ChosenCheckpoints {
  checkpoints: readonly string[];
  dryRun: boolean;
  json: boolean;
}

export async function removeCheckpoints(ids: readonly string[], chosen: ChosenCheckpoints, io: Io): Promise<number> {
  const [id, another] = ids;
  if (id === undefined || another !== undefined)
    throw usage("--checkpoint needs exactly one JOB.", "Write `svc rm JOB --checkpoint NAME`.");
  const { dryRun } = chosen;
  const client = await runningClient(io);
  const act = async (
    points: Promise<ResumePoint[]>,
    remove: (names: string[]) => Promise<CheckpointsRemoved>,
  ): Promise<CheckpointsRemoved> => remove(namesOf(await points, chosen.checkpoints));
  const removed = client
    ? await act(client.resumePoints(id), (names) => client.removeCheckpoints(id, names, dryRun))
    : await withOwnControlPlane(io, "look", (cp) =>
        act(cp.resumePoints(id), (names) => cp.removeCheckpoints(id, { names, dry_run: dryRun })),
      );
  if (chosen.json) {
    await printJson(io, removed);
    return 0;
  }
  for (const { name, files, bytes: size } of removed.checkpoints) {
    const outcome = files === 0 ? "removed before" : dryRun ? "would be removed" : "removed";
    await io.out(`${safeField(name)}\t${outcome}\t${bytes(size)}\n`);
  }
  io.err(freedWords(removed));
  return 0;
}

/** The names that were asked for: a number that is not a name is the step of one complete checkpoint. */
function namesOf(points: readonly ResumePoint[], asked: readonly string[]): string[] {
  return asked.map((word) => {
    if (!/^[0-9]{1,15}$/.test(word) || points.some(({ name }) => name === word)) return word;
    const found = points.filter(({ name, step }) => (step ?? stepInName(name)) === Number(word));
    const [only] = found;
    if (only && found.length === 1) return only.name;
    const names = (found.length > 0 ? found : points).slice(0, NAMED_MAX).map(({ name }) => safeField(name));
    throw usage(
      found.length > 1 ? `Several checkpoints have step ${word}.` : `No complete checkpoint has step ${word}.`,
      names.length > 0 ? `Give its name: ${names.join(", ")}.` : "The run has no complete checkpoint on this computer.",
    );
  });
}
