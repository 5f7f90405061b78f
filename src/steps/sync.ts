// The sync step: sends the code that was kept at submission to the machine, not the directory's current content.

import { readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import type { MachineAccess, TreePush, TreePushed } from "../providers/host.ts";
import { restoreSnapshot } from "../files/code/code-snapshot.ts";
import { leftOutLines } from "../files/listing/left-out.ts";
import { heldMachine, holdMachine, reaching, type HeldMachine } from "./rental/held-machine.ts";
import { watching } from "./rental/machine-watch.ts";
import { beginGate, lookThroughGate } from "./rental/gate.ts";
import { linkData, sendData } from "./launch/place-data.ts";
import { placeResume } from "./checkpoints/resume.ts";
import type { RunServices } from "./run-services.ts";
import type { StepContext, StepDefinition, StepDone } from "./step.ts";

export function syncStep(services: RunServices): StepDefinition {
  return {
    name: "sync",
    retry: { attemptsMax: 100, delayMsMin: 500, delayMsMax: 15_000 },
    async run(context) {
      const { jobId } = context;
      const held = heldMachine(services, context);
      if (held.access.inPlace) {
        const { projectDir, spec } = services.facts(jobId);
        await services.entry(projectDir, spec.entrypoint);
        const how = "a local run works in the project directory itself";
        const data = await linkData(services.data(jobId), services.dataDir(jobId, context.node));
        const resumed = await resume(services, context, held.access, services.checkpointDir(jobId, context.node));
        const left = await tellLeftOut(services, context, true);
        return { done: {}, detail: { bytes: 0, how, project_dir: projectDir, ...data, ...resumed, ...left } };
      }
      return reaching(services, context, held, () =>
        watching(services, context, held, "act", (watched) => send(services, watched, held)),
      );
    },
  };
}

async function send(services: RunServices, context: StepContext, held: HeldMachine): Promise<StepDone> {
  const { jobId } = context;
  await holdMachine(services, context, held);
  const layout = held.access.layout();
  const gate = beginGate(services, context, held);
  // Awaited below; the upload may throw before that.
  gate.catch(() => undefined);
  const packages = await packageTree(services.packagesDir, layout.packages);
  await held.access.push(packages, context.signal);
  const pushed = await pushProject(services, context, layout.project, (tree) => held.access.push(tree, context.signal));
  const data = await sendData(services.data(jobId), held.access, held.handle.name, context);
  const resumed = await resume(services, context, held.access, layout.checkpoints);
  const left = await tellLeftOut(services, context, false);
  await gate;
  const tested = await lookThroughGate(services, context, held);
  return { done: {}, detail: { ...pushed, project_dir: layout.project, ...data, ...resumed, ...left, ...tested } };
}

/** Reports, in the log and on the timeline, which project files were excluded from the run. */
async function tellLeftOut(services: RunServices, { jobId, node }: StepContext, inPlace: boolean) {
  const told = services.leftOut(jobId);
  if (told === null) return {};
  // A run in place sees every file of the directory, even those that its record excludes.
  if (node === 0 && !inPlace) await services.sink.preface(jobId, leftOutLines(jobId, told));
  const { count, names, ignored } = told;
  return count === 0 ? {} : { left_out: { count, names, ignored } };
}

async function resume(services: RunServices, context: StepContext, access: MachineAccess, dir: string) {
  const { jobId, node } = context;
  const chosen = await services.resume(jobId);
  const { placement, spec } = services.facts(jobId);
  if (placement > 1 && node === 0) {
    const how =
      chosen === null
        ? "starts from the beginning: no complete checkpoint is on this computer"
        : `continues from ${chosen.name}${chosen.job === jobId ? "" : ` of the run ${chosen.job}`}`;
    await services.sink.seam(jobId, `svc: placement ${placement} on ${spec.provider} ${spec.gpus} ${how}`);
  }
  if (chosen === null) return {};
  context.progress({ doing: "uploading the checkpoint from which the run resumes" });
  await placeResume(chosen, access, dir, context.signal);
  return { resumes: `${chosen.name} of ${chosen.job}` };
}

async function pushProject(
  services: RunServices,
  context: StepContext,
  to: string,
  push: (tree: TreePush) => Promise<TreePushed>,
): Promise<TreePushed> {
  const code = services.code(context.jobId, context.node);
  const { stageDir } = code;
  try {
    // A process that died may have left another project's files there.
    await rm(stageDir, { recursive: true, force: true });
    const snapshot = await restoreSnapshot({ ...code, target: stageDir });
    const files = snapshot.files.map(({ path, size, mode }) => ({ path, size, executable: mode === "executable" }));
    const total = { files_total: files.length, bytes_total: snapshot.bytes };
    context.progress({ doing: "sending the project", files: 0, bytes: 0, ...total });
    const progress: TreePush["progress"] = (done) =>
      context.progress({ doing: "sending the project", ...done, ...total });
    return await push({ from: stageDir, to, files, whole: true, mirror: true, progress });
  } finally {
    await rm(stageDir, { recursive: true, force: true });
  }
}

/** The package that scripts import, from this program's own folder. */
async function packageTree(from: string, to: string): Promise<TreePush> {
  const names = await readdir(from, { recursive: true });
  const files: { path: string; size: number; executable: boolean }[] = [];
  for (const path of names.toSorted()) {
    if (!/^svc\/([\w/]+\.py|py\.typed)$/.test(path) || path.includes("__pycache__")) continue;
    const { size } = await stat(join(from, path));
    files.push({ path, size, executable: false });
  }
  return { from, to, files, mirror: false };
}
