// Makes the manual page svc(1) from the declarations of the commands. `npm run build` writes it; the npm package and the wheel install it.
//
// R1. Text is never taken for a request or an escape: a dot or an apostrophe at the start of a line, and every backslash, is escaped.
// R2. A hyphen is the one that a shell takes, so that a line can be copied from the page. Other characters outside ASCII are named by code.

import type { Command } from "../../src/cli/command.ts";

/** R1, R2. */
function roff(text: string): string {
  const safe = text
    .replaceAll("\\", "\\e")
    .replaceAll("-", "\\-")
    .replaceAll(
      /[^\n -~]/gu,
      (sign) => `\\[u${(sign.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}]`,
    );
  return /^[.']/.test(safe) ? `\\&${safe}` : safe;
}

/** A sentence whose words in backticks are bold. */
const prose = (text: string): string =>
  roff(text)
    .split("`")
    .map((part, i) => (i % 2 === 1 ? `\\fB${part}\\fR` : part))
    .join("");

const bold = (text: string): string => `\\fB${roff(text)}\\fR`;
/** An argument of a macro: a quote would end it. */
const quoted = (text: string): string => `"${roff(text).replaceAll('"', "\\(dq")}"`;

/** `-n, --tail <n>`: what is typed in bold, what stands for a value in italics. */
const flags = (text: string): string =>
  text
    .split(/(<[^>]*>)/)
    .map((part) => (part.startsWith("<") ? `\\fI${roff(part.slice(1, -1))}\\fR` : part === "" ? "" : bold(part)))
    .join("");

const labelled = (label: string, text: string): string[] => [".TP", label, prose(text)];
const sentence = (text: string): string => (/[.!?]$/.test(text) ? text : `${text}.`);

function commandLines({ name, args = "", summary, options, fields, exits = [], examples }: Command): string[] {
  return [
    `.SS ${quoted(`svc ${name}${args === "" ? "" : ` ${args}`}`)}`,
    prose(sentence(summary)),
    ...options.flatMap((option) =>
      labelled(flags(option.flags), sentence(option.many ? `${option.what}; may be repeated` : option.what)),
    ),
    ...(fields ? labelled(flags("--json <fields>"), `Print these fields alone: ${fields.join(", ")}.`) : []),
    ...(exits.length > 0
      ? [".PP", prose(`Exit status: ${exits.map(([code, meaning]) => `${code}, ${meaning}`).join("; ")}.`)]
      : []),
    ...(examples.length > 0 ? [".PP", ".EX", ...examples.map((each) => roff(`  ${each}`)), ".EE"] : []),
  ];
}

/** The page in the language of man(7). The same commands and version give the same bytes. */
export function manPage(commands: readonly Command[], version: string): string {
  return [
    `.TH SVC 1 "" ${quoted(`svc ${version}`)} "User Commands"`,
    ".SH NAME",
    "svc \\- rent GPU machines for training runs, follow them, and always release the machines",
    ".SH SYNOPSIS",
    ".B svc",
    "\\fIcommand\\fR [\\fIarguments\\fR] [\\fIflags\\fR]",
    ".SH DESCRIPTION",
    prose(
      "svc is a control plane on your own machine. `svc serve` starts it; a script starts one by itself. It rents a machine for each run, drives it over SSH, downloads logs, metrics and checkpoints, and terminates the machine.",
    ),
    ".PP",
    prose("`svc docs` lists the pages of the documentation, and `svc help PAGE` shows one."),
    ".SH OPTIONS",
    ...labelled(flags("--json"), "Print JSON, including errors. Lists take the names of fields: `--json id,status`."),
    ...labelled(flags("-h, --help"), "Show the help of a command."),
    ...labelled(flags("-v, --version"), "Show the version."),
    ".SH COMMANDS",
    ...commands.flatMap(commandLines),
    ".SH EXIT STATUS",
    ...[
      ["0", "Done."],
      ["1", "Failed."],
      ["2", "Wrong usage."],
      ["3", "Not found."],
      ["4", "A credential is missing or was refused."],
      ["5", "The control plane is not reachable."],
      ["130", "Interrupted."],
    ].flatMap(([code = "", meaning = ""]) => labelled(code, meaning)),
    ".SH ENVIRONMENT",
    ...labelled(bold("SVC_HOME"), "The folder for runs, logs and checkpoints; by default `~/.svc`."),
    ...labelled(bold("SVC_DEBUG"), "With 1, an internal error shows its stack, and Python shows whole tracebacks."),
    ...labelled(bold("NO_COLOR"), "Print no colours."),
    ...labelled(bold("PAGER"), "The program that shows long pages on a terminal."),
    ".SH FILES",
    ...labelled("\\fI$SVC_HOME/credentials.json\\fR", "Keys of providers and services. Only its owner may read it."),
    ...labelled("\\fI$SVC_HOME/artifacts/JOB/checkpoints/\\fR", "Downloaded checkpoints."),
    ...labelled("\\fI$SVC_HOME/logs/JOB.log\\fR", "The stored log of a run."),
    "",
  ].join("\n");
}
