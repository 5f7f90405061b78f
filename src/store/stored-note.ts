// The note of a ledger row, as the store keeps it. The ledger writes it; the records and the feed read it.

import type { Note } from "../schemas/job.ts";
import type { NoteKind } from "../schemas/names.ts";
import type { MachineRow } from "./tables.ts";

export const storedNote = (note: Note | null): string | null => (note === null ? null : JSON.stringify(note));

/** Older versions stored the message alone: the state of the machine then says what it was about. */
export function noteOfMachine(row: Pick<MachineRow, "note" | "state" | "job_id">): Note | null {
  if (row.note === null) return null;
  return row.note.startsWith("{") ? (JSON.parse(row.note) as Note) : { kind: kindOf(row), message: row.note };
}

function kindOf({ state, job_id }: Pick<MachineRow, "state" | "job_id">): NoteKind {
  if (state === "released") return "left_running";
  if (state === "releasing") return "terminating";
  if (state === "held") return job_id === null ? "orphan" : "disk_full";
  return "order_unknown";
}
