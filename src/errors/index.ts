export { CATALOGUE, type ErrorCode, type ErrorData } from "./catalogue.ts";
export { hourly } from "./dollars.ts";
export { OUT_OF_MEMORY } from "./runs.ts";
export { asSvcError, describeError, messageOf, orDiskFull, SvcError, type FieldError } from "./svc-error.ts";
export { isDiskFull, isMissing, nullIfMissing, systemCode } from "./system.ts";
export { UnreadableFile } from "./unreadable-file.ts";
