// Parses the words of a command line to an `Input`. cac declares the commands, matches them and prints their help; this
// file checks the words first, because cac guesses where a command line must be exact.
//
// V1. An unknown command or flag is an error that names the nearest one; nothing is ignored.
// V2. A value is the typed text: it is not converted to a number and keeps leading zeros.
// V3. A flag may come before or after the command, once; a word after `--` is never a flag.

import { cac, type CAC } from "cac";
import { nearest } from "../domain/nearest.ts";
import { providerSpeaking } from "../providers/descriptors.ts";
import { SvcError } from "../errors/index.ts";
import type { Command, Input } from "./command.ts";

type CacOption = CAC["globalCommand"]["options"][number];

export type Parsed =
  { kind: "run"; command: Command; input: Input } | { kind: "help"; command: Command | null } | { kind: "version" };

export const usage = (what: string, instead: string): SvcError => new SvcError("usage", { what, instead });

const EXITS: [string, string][] = [
  ["0", "done"],
  ["1", "failed"],
  ["2", "wrong usage"],
];

/** Declares the commands to cac; `svc --help` and `svc <command> --help` are its output. */
export function declare(commands: Command[], version: string): CAC {
  const cli = cac("svc");
  for (const command of commands) {
    const declared = cli.command(command.args ? `${command.name} ${command.args}` : command.name, command.summary);
    for (const o of command.options) declared.option(o.flags, o.what, o.many ? { type: [String] } : {});
    for (const e of command.examples) declared.example(`  $ ${e}`);
  }
  cli.option("--json", "Print JSON, including errors; lists take FIELDS: --json id,status");
  cli.version(version);
  cli.help((sections) => {
    const shown = sections.filter((s) => !s.title?.startsWith("For more info"));
    // cac describes every --no-flag as on by default, which reads as its opposite.
    for (const s of shown) s.body = s.body.replaceAll(" (default: true)", "");
    const matched = commands.find((c) => c.name === cli.matchedCommandName);
    if (matched?.fields) shown.push({ title: "Fields of --json", body: fieldLines(matched.fields) });
    if (matched) shown[0] = { body: `svc ${matched.name}: ${matched.summary}` };
    const exits = new Map([...EXITS, ...(matched ? (matched.exits ?? []) : ALL_EXITS)]);
    shown.push({
      title: "Exit codes",
      body: [...exits].map(([code, meaning]) => `  ${code.padEnd(4)} ${meaning}`).join("\n"),
    });
    if (!matched)
      shown.push({
        title: "Environment",
        body: "  SVC_HOME  the folder for runs, logs and checkpoints (default ~/.svc)",
      });
    return shown;
  });
  return cli;
}

/** The names in lines of a readable width. */
function fieldLines(fields: readonly string[]): string {
  const lines: string[] = [];
  for (const field of fields) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + field.length < 90) lines[lines.length - 1] = `${last}, ${field}`;
    else lines.push(`  ${field}`);
  }
  return lines.join(",\n");
}

const ALL_EXITS: [string, string][] = [
  ["3", "not found"],
  ["4", "credential missing or refused"],
  ["5", "control plane not reachable"],
  ["130", "interrupted"],
];

/** Command names from other tools, with svc's equivalents; the first existing one counts. */
const HABITS = new Map<string, readonly string[]>(
  Object.entries({
    jobs: ["ps", "ls", "list", "status", "queue", "history", "runs", "get"],
    kill: ["stop", "cancel", "down", "terminate", "abort", "destroy", "scancel"],
    rm: ["delete", "remove"],
    open: ["dashboard", "ui", "web", "browse", "view"],
    serve: ["up", "start", "server", "daemon"],
    run: ["launch", "submit", "apply", "create", "train", "sbatch", "resume", "restart"],
    ssh: ["exec", "shell", "connect", "scp", "cp", "rsync"],
    forward: ["port-forward", "tunnel", "proxy"],
    credentials: ["login", "auth", "config", "configure", "check"],
    logs: ["tail", "log", "attach", "cat"],
    timeline: ["describe", "inspect", "show", "events", "steps"],
    top: ["watch", "monitor", "stats", "nvtop", "nvidia-smi", "htop"],
    offers: ["prices", "price", "search", "show-gpus", "offer", "quote"],
    costs: ["cost", "spend", "billing", "cost-report"],
    "debug-dump": ["dump", "bug", "report", "support"],
    demo: ["init", "example", "hello"],
    docs: ["man"],
    "docs packages": ["install", "update", "upgrade", "self-update", "uninstall"],
    "jobs --watch": ["watch", "monitor", "top"],
    "ssh JOB -L": ["port-forward", "tunnel", "proxy"],
    "serve --open": ["open", "dashboard", "ui"],
    gpus: ["prices", "offers", "show-gpus"],
  }).reduce((habits, [ours, theirs]) => {
    for (const each of theirs) habits.set(each, [...(habits.get(each) ?? []), ours]);
    return habits;
  }, new Map<string, string[]>()),
);

/** The command of svc for the one of another tool, with the same arguments if it takes any. */
function habitOf(typed: string, known: readonly string[], args: readonly string[]): string | null {
  const ours = HABITS.get(typed)?.find((each) => known.includes(each.split(" ")[0] ?? ""));
  if (ours === undefined) return null;
  const takesJobs = ["kill", "rm", "logs", "timeline", "ssh"].includes(ours);
  return takesJobs && args.length > 0 ? `${ours} ${args.join(" ")}` : ours;
}

/** `svc help TOPIC`, where the topic is a page of the documentation and not a command or nearly one; else null. */
function topicOf(words: readonly string[], commands: readonly Command[]): Parsed | null {
  const [topic] = words;
  const docs = commands.find(({ name }) => name === "docs");
  const known = commands.map(({ name }) => name);
  if (topic === undefined || words.length > 1 || docs === undefined) return null;
  if (known.includes(topic) || HABITS.has(topic) || nearest(topic, known) !== null) return null;
  const input = { args: [topic], flags: new Set<string>(), values: new Map(), json: false, fields: null };
  return { kind: "run", command: docs, input };
}

/** Checks `words` (without node and the program's name). Throws `usage` errors. */
export function parseArgv(words: string[], cli: CAC, commands: Command[]): Parsed {
  const takesValue = new Set<string>();
  for (const c of [cli.globalCommand, ...cli.commands])
    for (const o of c.options) if (o.required === true) for (const n of o.names) takesValue.add(n);

  const flags: { typed: string; name: string; value: string | null }[] = [];
  const plain: string[] = [];
  const dashed: string[] = [];
  const named = commands.find((c) => c.name === words.find((word) => commands.some(({ name }) => name === word)));
  let fields: readonly string[] | null = null;
  for (let i = 0; i < words.length; i++) {
    const word = words[i] as string; // i < words.length
    if (word === "--") {
      dashed.push(...words.slice(i + 1));
      break;
    }
    if (!word.startsWith("-") || word === "-") {
      plain.push(word);
      continue;
    }
    const equals = word.indexOf("=");
    const typed = equals < 0 ? word : word.slice(0, equals);
    let value = equals < 0 ? null : word.slice(equals + 1);
    const name = typed.replace(/^--?/, "");
    if (typed === "--json" && named?.fields) {
      const next = words[i + 1];
      if (value === null && next !== undefined && areFields(next, named.fields)) {
        value = next;
        i++;
      }
      if (value !== null) fields = fieldsOf(value, named);
      flags.push({ typed, name, value: null });
      continue;
    }
    const [letter = ""] = name;
    if (!word.startsWith("--") && /^-[a-z]\d/i.test(word) && takesValue.has(letter)) {
      flags.push({ typed: `-${letter}`, name: letter, value: word.slice(2) });
      continue;
    }
    if (!typed.startsWith("--") && name.length > 1) {
      if (value !== null) throw usage(`${typed} is not a flag.`, "Long flags begin with two dashes; see --help.");
      for (const each of name) flags.push({ typed: `-${each}`, name: each, value: null });
      continue;
    }
    if (value === null && takesValue.has(camel(name))) {
      const next = words[i + 1];
      if (next === undefined || (next.startsWith("-") && !/^-\d/.test(next)))
        throw usage(
          `${typed} needs a value.`,
          `Write ${typed} VALUE, or ${typed}=VALUE if the value begins with a dash.`,
        );
      value = next;
      i++;
    }
    flags.push({ typed, name, value });
  }

  if (plain[0] === "help") {
    plain.shift();
    const topic = topicOf(plain, commands);
    if (topic !== null) return topic;
    flags.push({ typed: "--help", name: "help", value: null });
  }
  if (plain[0] === "version" && plain.length === 1) {
    plain.shift();
    flags.push({ typed: "--version", name: "version", value: null });
  }
  const wantsHelp = flags.some((f) => f.name === "help" || f.name === "h");
  const commandName = plain.shift() ?? null;
  const command = commands.find((c) => c.name === commandName) ?? null;
  if (commandName !== null && !command) {
    const known = commands.map((c) => c.name);
    const habit = habitOf(commandName, known, [...plain, ...dashed]);
    if (habit !== null)
      throw usage(
        habit.startsWith("docs ")
          ? `svc has no command \`${commandName}\`; a page of its documentation tells how that is done.`
          : `svc has no command \`${commandName}\`. The command for that is \`svc ${habit.split(" ")[0]}\`.`,
        `Run \`svc ${habit}\`. \`svc --help\` lists all commands.`,
      );
    const near = nearest(commandName, known);
    throw usage(
      `Unknown command \`${commandName}\`.`,
      near ? `Did you mean \`svc ${near}\`? \`svc --help\` lists them all.` : "`svc --help` lists them all.",
    );
  }
  const declared = cli.commands.find((c) => c.name === commandName);
  const known = [...cli.globalCommand.options, ...(declared?.options ?? [])];

  const seenFlags = new Set<string>();
  const values = new Map<string, string[]>();
  for (const f of flags) {
    const option = known.find((o) => spellings(o).includes(f.typed));
    if (!option) {
      const all = known.flatMap(spellings);
      const begun = f.typed.length > 3 ? all.find((s) => s.startsWith(f.typed)) : undefined;
      if (command?.name === "run")
        throw usage(
          `\`svc run\` does not start a run, and has no flag ${f.typed}.`,
          `${fieldWords(f.typed, cli)}\`svc run\` shows how a run is started: in Python, over HTTP, or in the dashboard. \`svc plan\` shows what it would cost.`,
        );
      const otherCase = /^-[a-z]$/i.test(f.typed) ? all.find((s) => s.toLowerCase() === f.typed.toLowerCase()) : null;
      const near =
        begun ?? otherCase ?? nearest(f.typed, all) ?? all.find((s) => s === f.typed.replace(/^--/, "--no-")) ?? null;
      const help = command ? `svc ${command.name} --help` : "svc --help";
      throw usage(
        command ? `\`svc ${command.name}\` has no flag ${f.typed}.` : `Unknown flag ${f.typed}.`,
        near ? `Did you mean ${near}? \`${help}\` lists them all.` : `\`${help}\` lists them all.`,
      );
    }
    const key = option.negated ? `no-${kebab(option.name)}` : kebab(option.name);
    if (option.required === true) {
      const mayBeEmpty =
        command?.options.some((one) => one.empty === true && one.flags.startsWith(`--${key} `)) === true;
      if (f.value === null || (f.value === "" && !mayBeEmpty))
        throw usage(`${f.typed} needs a value.`, `Write ${option.rawName}.`);
      const before = values.get(key);
      if (before && !option.config.type) throw usage(`${f.typed} was given twice.`, "Give it once.");
      values.set(key, [...(before ?? []), f.value]);
    } else {
      if (f.value !== null) throw usage(`${f.typed} takes no value.`, `Write only ${f.typed}.`);
      seenFlags.add(key);
    }
  }

  if (!command) {
    if (!wantsHelp && seenFlags.has("version")) return { kind: "version" };
    return { kind: "help", command: null };
  }
  if (wantsHelp) return { kind: "help", command };
  if (seenFlags.has("version")) throw usage("--version takes no command.", "Run `svc --version`.");
  const args = [...plain, ...dashed];
  const shape = declared?.args ?? [];
  const missing = shape.filter((a) => a.required)[args.length];
  if (missing)
    throw usage(
      `\`svc ${command.name}\` needs ${missing.value.toUpperCase()}.`,
      `Write \`svc ${declared?.rawName ?? command.name}\`.`,
    );
  if (!shape.some((a) => a.variadic) && args.length > shape.length)
    throw usage(
      `\`svc ${command.name}\` takes no argument \`${args[shape.length]}\`.`,
      `Write \`svc ${declared?.rawName ?? command.name}\`.`,
    );
  return { kind: "run", command, input: { args, flags: seenFlags, values, json: seenFlags.has("json"), fields } };
}

/** Flags of `svc plan` that a run calls by a longer name. */
const LONGER: Record<string, string> = {
  candidate: "candidates",
  max_runtime: "max_runtime_minutes",
  wait_for_capacity: "wait_for_capacity_minutes",
};

/** The field of a run that a flag means: that of the flag of `svc plan`, which has the fields as flags. Empty without one. */
function fieldWords(typed: string, cli: CAC): string {
  const all = cli.commands.find(({ name }) => name === "plan")?.options.flatMap(spellings) ?? [];
  const flag = all.find((each) => typed.length > 3 && each.startsWith(typed)) ?? nearest(typed, all);
  if (flag === null) return "";
  const name = flag.slice(2).replaceAll("-", "_");
  const field = LONGER[name] ?? name;
  return `A run has the field ${field}: \`${field}=…\` in Python, \`"${field}": …\` in the \`spec\` over HTTP. `;
}

/** Whether the word after `--json` is a list of fields, and not an argument such as the id of a run. */
const areFields = (word: string, known: readonly string[]): boolean =>
  known.includes(word) || (/^[a-z_]+(,[a-z_]+)+$/.test(word) && !word.startsWith("-"));

function fieldsOf(text: string, { name, fields: known = [] }: Command): string[] {
  const asked = text.split(",");
  const unknown = asked.find((field) => !known.includes(field));
  if (unknown === undefined) return asked;
  const near = nearest(unknown, [...known]);
  throw usage(
    `\`svc ${name} --json\` has no field \`${unknown}\`.`,
    `${near ? `Did you mean ${near}? ` : ""}The fields are ${known.join(", ")}.`,
  );
}

/** The help of a command, or of all. cac prints it to the console, which hides that the output cannot be written. */
export function helpText(cli: CAC, command: Command | null): string {
  const { info } = console;
  let text = "";
  console.info = (line: string) => void (text += `${line}\n`);
  try {
    cli.parse(["node", "svc", ...(command ? [command.name] : []), "--help"], { run: false });
  } finally {
    console.info = info;
  }
  return text;
}

/** Whether the words request JSON, even if they cannot be parsed: the error is then JSON as well. */
export const asksForJson = (words: string[]): boolean =>
  (words.includes("--") ? words.slice(0, words.indexOf("--")) : words).some(
    (word) => word === "--json" || word.startsWith("--json="),
  );

/** The one value of a flag, or undefined. */
export const value = (input: Input, name: string): string | undefined => input.values.get(name)?.[0];

/** A whole number within bounds, from its exact digits. */
export function whole(input: Input, name: string, bounds: { min: number; max: number }): number | undefined {
  const text = value(input, name);
  if (text === undefined) return undefined;
  const n = /^(0|[1-9][0-9]{0,15})$/.test(text) ? Number(text) : Number.NaN;
  if (!(n >= bounds.min && n <= bounds.max))
    throw usage(
      `--${name} must be a whole number from ${bounds.min} to ${bounds.max}, not \`${text}\`.`,
      `Write --${name} and the number in digits.`,
    );
  return n;
}

/** One word of a list. */
export function oneOf<T extends string>(input: Input, name: string, allowed: readonly T[]): T | undefined {
  const text = value(input, name);
  if (text === undefined) return undefined;
  const found = allowed.find((a) => a === text);
  if (found) return found;
  const provider = providerSpeaking(text);
  const near = allowed.find((a) => a === provider) ?? nearest(text, [...allowed]);
  throw usage(
    `--${name} cannot be \`${text}\`.`,
    `${near ? `Did you mean ${near}? ` : ""}It is one of ${allowed.join(", ")}.`,
  );
}

const camel = (name: string): string =>
  name.replace(/([a-z])-([a-z])/g, (_, a: string, b: string) => a + b.toUpperCase());
const kebab = (name: string): string => name.replace(/[A-Z]/g, (c) => `-${c.toLowerCase()}`);

function spellings(option: CacOption): string[] {
  return option.names.map((n) => (n.length === 1 ? `-${n}` : `--${option.negated ? "no-" : ""}${kebab(n)}`));
}
