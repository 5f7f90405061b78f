// The run of the form as Python, TypeScript and curl. Values are written as literals, never pasted raw.

import type { SubmitBodyLike } from "./run-values.ts";
import { toJson } from "../../../src/domain/terminal-text.ts";

export const LANGUAGES = ["Python", "TypeScript", "curl"] as const;
export type Language = (typeof LANGUAGES)[number];

export function asCode(language: Language, body: SubmitBodyLike, origin: string): string {
  if (language === "curl") return curl(body, origin);
  const { entrypoint, args, ...rest } = body.spec;
  const task = { entrypoint, ...(args === undefined ? {} : { args }) };
  const { label, tags } = body;
  const named = { ...(label === undefined ? {} : { label }), ...(tags === undefined ? {} : { tags }), ...rest };
  return language === "Python" ? python(task, named) : typescript({ task, ...named });
}

function python(task: unknown, named: Record<string, unknown>): string {
  const lines = Object.entries(named).map(([name, value]) => `    ${name}=${pythonOf(value)},`);
  return ["import svc", "", "job = svc.run(", `    task=${pythonOf(task)},`, ...lines, ")", "svc.wait(job.id)"].join(
    "\n",
  );
}

const pythonOf = (value: unknown): string => {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(pythonOf).join(", ")}]`;
  if (typeof value === "object")
    return `{${Object.entries(value)
      .map(([name, each]) => `${pythonOf(name)}: ${pythonOf(each)}`)
      .join(", ")}}`;
  return literal(value);
};

/** JSON text that is also a valid literal in Python and JavaScript. */
const literal = (value: unknown): string => toJson(value);

function typescript(parameters: Record<string, unknown>): string {
  const lines = Object.entries(parameters).map(([name, value]) => `  ${name}: ${literal(value)},`);
  return [
    'import { run, wait } from "svc";',
    "",
    "const job = await run({",
    ...lines,
    "});",
    "await wait(job.id);",
  ].join("\n");
}

function curl(body: SubmitBodyLike, origin: string): string {
  const text = literal(body).replaceAll("'", String.raw`'\''`);
  return [`curl -sS ${origin}/jobs \\`, "  -H 'Content-Type: application/json' \\", `  -d '${text}'`].join("\n");
}
