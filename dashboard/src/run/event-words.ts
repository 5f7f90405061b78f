// An event of the feed as a sentence. Unknown events are shown raw.

import { bytes } from "../../../src/domain/bytes.ts";
import type { FeedEvent } from "../../../src/schemas/job.ts";
import { machineState, stepName, words } from "../format.ts";

const text = (value: unknown): string => (typeof value === "string" || typeof value === "number" ? String(value) : "");

export function eventWords({ type, data }: FeedEvent): string {
  const node = typeof data["node"] === "number" && data["node"] > 0 ? ` on node ${data["node"]}` : "";
  if (type === "job.created") return "created";
  if (type === "job.transition")
    return `${words(text(data["from"]) || "created")} → ${words(text(data["to"]))} (${text(data["event"])})`;
  if (type.startsWith("step.")) {
    const attempt = Number(data["attempt"]) > 1 ? `, attempt ${text(data["attempt"])}` : "";
    return `${stepName(text(data["step"]))}${node} ${words(type.slice(5))}${attempt}${reason(data["error"])}`;
  }
  if (type === "machine.changed")
    return `machine ${text(data["name"])} ${machineState(text(data["state"]))}${reason(data["note"])}`;
  if (type === "checkpoint.saved")
    return `checkpoint ${text(data["path"])}${typeof data["size"] === "number" ? `, ${bytes(data["size"])}` : ""}`;
  if (type === "placement.opened")
    return `placement ${text(data["n"])} opened on ${text(data["provider"])} ${text(data["gpus"])}`;
  if (type === "placement.closed") return `placement ${text(data["n"])} closed${reason(data["error"])}`;
  if (type === "alert") return `alert: ${text(data["message"])}`;
  if (type === "notice" || type === "price.raised") return text(data["message"]);
  return `${type} ${JSON.stringify(data)}`;
}

/** The message of an error or a note. A note that an older version stored is only its message. */
function reason(said: unknown): string {
  const message = typeof said === "object" && said !== null && "message" in said ? said.message : said;
  return message ? `: ${text(message)}` : "";
}
