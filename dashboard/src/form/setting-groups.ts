// The further settings of a run in groups, in the order of the form. A field in no group comes last, as "Other settings".

import type { Field } from "./schema-fields.ts";

const GROUPS: readonly { title: string; fields: readonly string[] }[] = [
  { title: "Environment", fields: ["env", "install", "python", "launcher", "image"] },
  { title: "Machine", fields: ["nodes", "min_vram_gb", "disk_gb", "region", "health", "rate_usd_per_hour"] },
  {
    title: "Limits and rules",
    fields: [
      "max_runtime_minutes",
      "idle_timeout_minutes",
      "stop_grace_seconds",
      "orphan_grace_minutes",
      "terminate_on_exit",
      "notify",
    ],
  },
  {
    title: "Data and checkpoints",
    fields: ["data", "resume_from", "resume_checkpoint", "keep_checkpoints", "sinks"],
  },
];

export interface SettingGroup {
  title: string;
  fields: Field[];
}

/** `fields` in their groups; empty groups are left out. */
export function grouped(fields: readonly Field[]): SettingGroup[] {
  const known = new Set(GROUPS.flatMap((group) => group.fields));
  const groups = GROUPS.map(({ title, fields: names }) => ({
    title,
    fields: names.flatMap((name) => fields.find((field) => field.name === name) ?? []),
  }));
  return [...groups, { title: "Other settings", fields: fields.filter((field) => !known.has(field.name)) }].filter(
    (group) => group.fields.length > 0,
  );
}
