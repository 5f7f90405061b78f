// Reads the words after `svc notify add NAME`. A secret is read from standard input and never from the command line.

import { nearest } from "../../../domain/nearest.ts";
import { safeField } from "../../../domain/terminal-text.ts";
import { needsSecret, TARGET_KINDS } from "../../../schemas/notify-names.ts";
import type { NotifyTargetBody } from "../../../schemas/notify.ts";
import { usage } from "../../argv.ts";
import type { Io } from "../../io.ts";
import { keyAndValue } from "../../key-value.ts";
import { readSecret } from "../../read-secret.ts";

/** The fields `key=value` after the kind; `to` and `events` are lists, `argv` is the rest of the words. */
export async function targetBodyOf([kind = "", ...fields]: string[], io: Io): Promise<NotifyTargetBody> {
  const known = TARGET_KINDS.find((each) => each === kind);
  if (known === undefined)
    throw usage(
      kind === "" ? "`svc notify add` needs NAME and KIND." : `Unknown kind ${safeField(kind)}.`,
      `Write \`svc notify add NAME KIND\`, where KIND is ${TARGET_KINDS.join(", ")}.`,
    );
  const target: Record<string, unknown> = { kind: known };
  // The other kinds take one with `secret`.
  let asks = needsSecret(known);
  const setting = known === "command" ? fields.find((field, at) => at === 0 && /^[a-z_]+=/.test(field)) : undefined;
  if (setting !== undefined) {
    const program = setting.replace(/^[a-z_]+=/, "") || "PROGRAM";
    throw usage(
      `A command target has no settings such as ${safeField(setting)}: the words after \`command\` are the program and its arguments.`,
      `Write \`svc notify add NAME command ${safeField([program, ...fields.slice(1)].join(" "))}\`. Nothing was changed.`,
    );
  }
  if (known === "command") target["argv"] = fields;
  else
    for (const field of fields) {
      const [key, value] = keyAndValue(field);
      if (field === "secret") asks = true;
      else if (value === null)
        throw usage(
          `${safeField(field)} is not KEY=VALUE.`,
          "Only `secret` has no value: it is read from standard input.",
        );
      else if (key === "secret")
        throw usage(
          "A secret on the command line is visible to others.",
          "Write `secret` alone: it is read from standard input.",
        );
      else target[key] = valueOf(key, value);
    }
  if (target["secret_ref"] !== undefined) asks = false;
  const { NotifyTarget } = await import("../../../schemas/notify.ts");
  refuseUnknown(
    known,
    target,
    Object.keys(NotifyTarget.options.find(({ shape }) => shape.kind.value === known)?.shape ?? {}),
  );
  const { checked } = await import("../../../api/field-errors.ts");
  const valid = checked(NotifyTarget, target, "target");
  if (!asks) return { target: valid };
  const secret = await readSecret(`Secret of the ${known} target: `, io);
  if (secret === "")
    throw usage(
      `The secret of the ${known} target is empty.`,
      `It is read from standard input: \`svc notify add NAME ${known} … < secret.txt\`. Nothing was changed.`,
    );
  return { target: valid, secret };
}

/** A setting that this kind has not, with those that it has. */
function refuseUnknown(kind: string, target: object, shape: readonly string[]): void {
  const settings = shape.filter((key) => key !== "kind");
  const unknown = Object.keys(target).find((key) => !shape.includes(key));
  if (unknown === undefined) return;
  const near = nearest(unknown, settings);
  const all = [...settings, ...(shape.includes("secret_ref") ? ["secret"] : [])].join(", ");
  throw usage(
    `A target of the kind ${kind} has no setting ${safeField(unknown)}.`,
    `${near === null ? "" : `Did you mean ${near}? `}It has ${all}. Nothing was changed.`,
  );
}

function valueOf(key: string, value: string): unknown {
  if (key === "to" || key === "events") return value.split(",").map((part) => part.trim());
  if (key === "port") return /^\d+$/.test(value) ? Number(value) : value;
  if (key !== "allow_private") return value;
  return value === "true" ? true : value === "false" ? false : value;
}
