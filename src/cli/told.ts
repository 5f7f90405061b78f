// Makes errors of this process and errors from a control plane look the same to the user.

import { asSvcError, CATALOGUE } from "../errors/index.ts";

export interface Told {
  code: string;
  message: string;
  hint: string;
  exit: number;
  errors?: { field: string; message: string }[] | undefined;
}

export function asTold(thrown: unknown): Told {
  const e = thrown as Partial<Told> | null;
  if (
    e &&
    typeof e.code === "string" &&
    typeof e.hint === "string" &&
    typeof e.message === "string" &&
    typeof e.exit === "number"
  ) {
    const { code, message, hint, errors } = e as Told;
    // A client derives the exit code from the status of the answer, which says less than the code.
    const { exit } = Object.hasOwn(CATALOGUE, code) ? CATALOGUE[code as keyof typeof CATALOGUE] : (e as Told);
    return { code, message, hint, exit, errors };
  }
  return asSvcError(thrown);
}
