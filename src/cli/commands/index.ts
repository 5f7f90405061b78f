// Every command, in the order of `svc --help`. A command is loaded alone where its name comes first, as in nearly every
// call: `svc jobs` then reads no line of the others, nor the libraries that they need.

import type { Command } from "../command.ts";

const COMMANDS: Readonly<Record<string, () => Promise<Command>>> = {
  serve: async () => (await import("./serve.ts")).serve,
  open: async () => (await import("./open.ts")).open,
  jobs: async () => (await import("./jobs.ts")).jobs,
  top: async () => (await import("./top.ts")).top,
  logs: async () => (await import("./logs.ts")).logs,
  timeline: async () => (await import("./timeline.ts")).timeline,
  costs: async () => (await import("./costs.ts")).costs,
  limits: async () => (await import("./limits.ts")).limits,
  wait: async () => (await import("./wait.ts")).wait,
  kill: async () => (await import("./kill.ts")).kill,
  set: async () => (await import("./set.ts")).set,
  rm: async () => (await import("./rm.ts")).rm,
  prune: async () => (await import("./prune.ts")).prune,
  archive: async () => (await import("./archive.ts")).archive,
  reconcile: async () => (await import("./reconcile.ts")).reconcile,
  run: async () => (await import("./run.ts")).run,
  plan: async () => (await import("./plan.ts")).plan,
  offers: async () => (await import("./offers.ts")).offers,
  gpus: async () => (await import("./gpus.ts")).gpus,
  credentials: async () => (await import("./credentials.ts")).credentials,
  notify: async () => (await import("./notify.ts")).notify,
  code: async () => (await import("./code.ts")).code,
  data: async () => (await import("./data.ts")).data,
  ssh: async () => (await import("./ssh.ts")).ssh,
  demo: async () => (await import("./demo.ts")).demo,
  sim: async () => (await import("./sim.ts")).sim,
  docs: async () => (await import("./docs.ts")).docs,
  doctor: async () => (await import("./doctor.ts")).doctor,
  "debug-dump": async () => (await import("./debug-dump.ts")).debugDump,
  completion: async () => (await import("./completion.ts")).completionOf(allCommands),
};

export const allCommands = (): Promise<Command[]> => Promise.all(Object.values(COMMANDS).map((load) => load()));

/** The commands that these words may mean: one, or all where the first word is not the name of one. */
export async function commandsFor(words: readonly string[]): Promise<Command[]> {
  const [first = ""] = words;
  if (words.length === 1 && ["version", "--version", "-v"].includes(first)) return [];
  const load = Object.hasOwn(COMMANDS, first) ? COMMANDS[first] : undefined;
  return load === undefined ? allCommands() : [await load()];
}
