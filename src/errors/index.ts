export { CATALOGUE, OUT_OF_MEMORY, type ErrorCode } from "./catalogue.ts";
export { asSvcError, describeError, SvcError, type FieldError } from "./svc-error.ts";
