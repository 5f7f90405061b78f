export { CATALOGUE, type ErrorCode } from "./catalogue.ts";
export { asSvcError, describeError, SvcError, type FieldError } from "./svc-error.ts";
