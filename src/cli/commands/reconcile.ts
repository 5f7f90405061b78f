// `svc reconcile`: checks every unfinished run and every machine of this installation, through the control plane or
// in this process.

import { hourly } from "../../errors/index.ts";
import type { ReconcileReport } from "../../schemas/job.ts";
import { usage } from "../argv.ts";
import type { Command } from "../command.ts";
import { runningClient, withOwnControlPlane } from "../control-plane.ts";
import type { Io } from "../io.ts";
import { printFields, printJson } from "../text.ts";

/** The longest wait until every job has ended or its script runs. */
const SETTLE_MS = 30 * 60_000;

export const reconcile: Command = {
  name: "reconcile",
  summary: "Verify unfinished runs, resume them after a crash, and terminate orphaned machines",
  options: [
    { flags: "--dry-run", what: "Only report what would be done" },
    {
      flags: "--new-store",
      what: "First make an empty store for a home that has lost its own and has no copy; with --dry-run, no machine is ended yet",
    },
    {
      flags: "--gone <machine>",
      what: "Confirm that this machine is gone, if svc cannot check it because its provider's key was replaced",
    },
  ],
  exits: [
    [
      "1",
      "a journal differs from its snapshot, a machine could not be terminated or its order closed, or a provider could not be reached",
    ],
    ["3", "no such machine"],
    ["4", "`--gone`: no usable key"],
    ["5", "control plane, or with `--gone` the provider, not reachable"],
  ],
  examples: ["svc reconcile --dry-run", "svc reconcile", "svc reconcile --gone svc-3f0c2a91-01ab-n0-1"],
  async run(input, io) {
    const dryRun = input.flags.has("dry-run");
    const gone = input.values.get("gone")?.[0];
    const options = gone === undefined ? { dryRun } : { dryRun, gone };
    const newStore = input.flags.has("new-store");
    const client = await runningClient(io);
    if (client && newStore)
      throw usage("A control plane is running, so this home has a store.", "Leave --new-store out.");
    const report = client
      ? await client.reconcile(options, io.interrupted)
      : await withOwnControlPlane(
          io,
          dryRun ? "look" : "reconcile",
          async (cp) => {
            const told = await cp.reconcile(options);
            // A job that was resumed at the start may have ended already.
            told.resumed = [...new Set([...cp.recovered.resumed, ...told.resumed])];
            if (!dryRun && !(await cp.settle(SETTLE_MS)))
              io.err(
                "Not everything is finished; start `svc serve` to continue.\nUntil then a machine may still cost money.",
              );
            return told;
          },
          { newStore, onlyReads: !newStore },
        );
    if (input.json) await printJson(io, report);
    else await tell(report, { gone, driven: client !== null }, io);
    const wrong =
      report.failed.length + report.unreachable_providers.length + report.replayed.filter((r) => !r.ok).length;
    return wrong > 0 ? 1 : 0;
  },
};

function priced(usd: number | null): string {
  if (usd === null) return ", price unknown";
  return usd > 0 ? `, ${hourly(usd)}` : "";
}

/** @param how.driven by a running control plane: no job had to be resumed for it */
async function tell(
  report: ReconcileReport,
  how: { gone: string | undefined; driven: boolean },
  io: Io,
): Promise<void> {
  const would = report.dry_run ? "would be " : "";
  const { replayed, ending } = report;
  const journals = `${replayed.length} ${replayed.length === 1 ? "journal" : "journals"}`;
  const lines = [
    ["replayed", `${journals}, ${replayed.filter((r) => r.ok).length} match the stored snapshot`],
    ...replayed
      .filter((r) => !r.ok)
      .map((r) => [
        "differs",
        `${r.job_id}${r.first_difference_seq === null ? "" : ` from entry ${r.first_difference_seq} on`}`,
      ]),
    ...(how.gone === undefined ? [] : [[`${would}closed`, `${how.gone}: its end is recorded`]]),
    ...report.resumed
      .filter((id) => ending.every((m) => m.job_id !== id))
      .map((id) => [how.driven ? "under way" : `${would}resumed`, id]),
    ...ending.map((m) => [
      report.dry_run ? "would be released" : "being released",
      `${m.name} at ${m.provider}${priced(m.price_per_hour_usd)} (job ${m.job_id}): not confirmed gone yet`,
    ]),
    ...report.terminated.map((m) => [
      `${would}terminated`,
      `${m.name} at ${m.provider}${m.job_id ? ` (job ${m.job_id})` : ""}`,
    ]),
    ...report.failed.map((m) => ["failed", `${m.name} at ${m.provider}: ${m.error.message} ${m.error.hint}`]),
    ...report.unreachable_providers.map((p) => [
      "unreachable",
      `${p}: it may have machines of this installation that cost money`,
    ]),
    ...report.foreign.map((m) => ["not ours", `${m.name ?? m.id} at ${m.provider}: left alone`]),
  ];
  if (lines.length === 1) lines.push(["nothing", "to resume or terminate"]);
  await printFields(io, lines);
}
