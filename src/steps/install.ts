// The install step: installs the project's dependencies on the machine, as a supervised run of its own whose output is
// part of the log.
//
// Safe to run twice: the runner refuses a second start of the same run, and the installer finds its environment finished.

import { SvcError } from "../errors/index.ts";
import { followToEnd, lastLineOf, RETRY_FOR_EVER } from "./follow/follow-to-end.ts";
import { failingLine, installWarnings } from "./launch/failure-message.ts";
import { installStart } from "./launch/install-command.ts";
import { heldMachine, reaching } from "./rental/held-machine.ts";
import type { RunServices } from "./run-services.ts";
import type { StepDefinition } from "./step.ts";

export function installStep(services: RunServices): StepDefinition {
  return {
    name: "install",
    retry: { ...RETRY_FOR_EVER, delayMsMax: 15_000 },
    async run(context) {
      const { jobId, node, signal } = context;
      const held = heldMachine(services, context);
      const command = await services.installCommand(jobId, held.access.inPlace);
      if ("skipped" in command) return { done: {}, detail: command };
      // What this computer lacks for the plan is not a key for the login: waiting for it would cost money on an idle machine.
      const plan = await services.plan(jobId, node, "install", "passwords" in command ? command.passwords : []);
      signal.throwIfAborted();
      return reaching(services, context, held, async () => {
        const host = held.access.host("install");
        const python = plan.runner.env["SVC_PYTHON"] ?? "python3";
        const { argv, variables } = installStart(command, { python, layout: () => held.access.layout() });
        await host.start({ ...plan.runner, argv }, { ...plan.secretEnv, ...variables }, signal);
        const status = await followToEnd(services, context, held, "install");
        if (status.exit_code !== 0) {
          throw new SvcError("install_failed", { exit_code: status.exit_code ?? 255, last: failingLine(status.tail) });
        }
        const warnings = installWarnings(status.tail);
        for (const words of warnings) await services.sink.notice(jobId, "warning", words);
        const detail = "command" in command ? command : { installed: command.environment.files.join(", ") };
        const more = warnings.length > 0 ? { warnings } : {};
        return { done: {}, detail: { ...detail, ...more, last: lastLineOf(status.tail) } };
      });
    },
  };
}
