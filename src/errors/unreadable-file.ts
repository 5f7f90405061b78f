import { SvcError } from "./svc-error.ts";

/** One file cannot be read; says nothing about the others. */
export class UnreadableFile extends SvcError<"runner_failed"> {}
