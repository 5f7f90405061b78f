export { CATALOGUE, type ErrorCode, type Retry } from "./catalogue.ts";
export { asSvcError, describeError, SvcError, type FieldError } from "./svc-error.ts";
