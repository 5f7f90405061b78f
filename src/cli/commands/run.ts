// `svc run`: prints the three ways to start a run; the CLI itself starts none.

import type { Command } from "../command.ts";
import { printJson } from "../text.ts";

const WAYS = [
  {
    name: "Python",
    text: `import svc\n\njob = svc.run(task=svc.Task(entrypoint="train.py", args=["--epochs", "3"]), provider="local", gpus="cpu", wait=True)\nprint(job.status, job.exit_code)`,
  },
  {
    name: "HTTP, while `svc serve` runs",
    text: `curl -sS http://127.0.0.1:8780/jobs -H 'Content-Type: application/json' -d '{"label": "first", "spec": {"entrypoint": "train.py", "provider": "local", "gpus": "cpu", "project_dir": "'"$PWD"'"}}'`,
  },
  { name: "Dashboard", text: "svc serve --open     # then press `+ New run`" },
];

export const run: Command = {
  name: "run",
  args: "[...anything]",
  summary: "Show how to start a run: in Python, over HTTP, or in the dashboard",
  options: [],
  examples: ["svc run"],
  async run(input, io) {
    if (input.json) await printJson(io, { ways: WAYS });
    else await io.out(`${WAYS.map((w) => `# ${w.name}\n${w.text}`).join("\n\n")}\n`);
    if (!input.json)
      io.err(
        "`svc run` does not start a run.\nUse one of the three ways above, or try `svc demo`, which runs an example. `resume_from` continues an earlier run: `svc docs resuming`.",
      );
    return 2;
  },
};
