// The one error class of the product. Messages, hints and codes come from the catalogue; callers give only the data.

import { CATALOGUE, type ErrorCode, type ErrorData, type Retry } from "./catalogue.ts";
import { isDiskFull } from "./system.ts";

export interface FieldError {
  field: string;
  message: string;
}

/** The text of an error that is recorded without being thrown. Costs no stack trace. */
export function describeError<C extends ErrorCode>(
  code: C,
  data: ErrorData<C>,
): { code: C; message: string; hint: string } {
  const { message, hint } = entryOf(code);
  return { code, message: asSentence(message(data)), hint: typeof hint === "string" ? hint : hint(data) };
}

interface AnyEntry {
  status: number;
  exit: number;
  retry: Retry;
  message: (d: unknown) => string;
  hint: string | ((d: unknown) => string);
}

// The catalogue ties each code to its own data type; indexing by a type parameter loses that tie.
const entryOf = (code: ErrorCode): AnyEntry => CATALOGUE[code] as unknown as AnyEntry;

/** Text from another program may end with its own full stop. */
const asSentence = (text: string): string => text.replace(/(?<!\.)\.\.(?=\s|$)/g, ".");

interface SvcErrorOptions {
  cause?: unknown;
  errors?: FieldError[];
  /**
   * Replaces the catalogue's value: a step that has retried for long enough ends with an error that is otherwise
   * retried.
   */
  retry?: Retry;
}

/** The one error class. Everything a caller may see is in the catalogue; `cause` keeps the original error. */
export class SvcError<C extends ErrorCode = ErrorCode> extends Error {
  static {
    // Bundlers rename classes of one name, and Node prints the class's own name with an error.
    Object.defineProperty(this, "name", { value: "SvcError" });
  }
  override readonly name = "SvcError";
  readonly code: C;
  readonly hint: string;
  readonly status: number;
  readonly exit: number;
  readonly retry: Retry;
  readonly errors: FieldError[] | undefined;
  readonly data: ErrorData<C>;

  constructor(code: C, data: ErrorData<C>, options: SvcErrorOptions = {}) {
    const e = entryOf(code);
    super(asSentence(e.message(data)), options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.data = data;
    this.hint = typeof e.hint === "string" ? e.hint : e.hint(data);
    this.status = e.status;
    this.exit = e.exit;
    this.retry = options.retry ?? e.retry;
    this.errors = options.errors;
  }

  /** The three texts that go into records, events and answers. */
  toJobError(): { code: string; message: string; hint: string } {
    return { code: this.code, message: this.message, hint: this.hint };
  }
}

/** The message of a thrown value. */
export const messageOf = (thrown: unknown): string => (thrown instanceof Error ? thrown.message : String(thrown));

/** The thrown value, or `disk_full` with it as the cause if the system reported a full disk. */
export function orDiskFull(thrown: unknown, path: string): unknown {
  if (thrown instanceof SvcError || !isDiskFull(thrown)) return thrown;
  return new SvcError("disk_full", { path }, { cause: thrown });
}

/** Any thrown value as an `SvcError`; a foreign error becomes `internal_error` and keeps its cause. */
export function asSvcError(thrown: unknown): SvcError {
  if (thrown instanceof SvcError) return thrown;
  if (isDiskFull(thrown)) return new SvcError("disk_full", { path: "the home" }, { cause: thrown });
  return new SvcError("internal_error", { why: messageOf(thrown) }, { cause: thrown });
}
