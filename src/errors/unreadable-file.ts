import { SvcError } from "./svc-error.ts";

/** That one file cannot be read where it lies; of the others nothing is said. */
export class UnreadableFile extends SvcError<"runner_failed"> {}
