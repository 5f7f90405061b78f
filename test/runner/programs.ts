// The runner and the agent as the control plane builds them, in a folder of this checkout where Python can cache their
// compiled form.

import { join, resolve } from "node:path";
import { placedProgram, pythonProgram } from "../../src/platform/python-program.ts";

const ROOT = resolve(import.meta.dirname, "../..");

export const runner = pythonProgram(join(ROOT, "runner/svc_runner"));
export const runnerPath = placedProgram(runner, join(ROOT, ".cache/programs/runner"));
/** The gate is not stored on a machine: svc sends it when it starts it. */
export const gate = pythonProgram(join(ROOT, "runner/svc_gate"));
const agent = pythonProgram(join(ROOT, "runner/svc_agent"));
export const agentPath = placedProgram(agent, join(ROOT, ".cache/programs/agent"));
