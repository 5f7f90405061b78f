import { CATALOGUE, type ErrorCode, type ErrorData, type Retry } from "./catalogue.ts";
import { isDiskFull } from "./system.ts";

export interface FieldError {
  field: string;
  message: string;
}

/** The words of an error that nobody throws: what a record says. Costs no stack trace. */
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

/** What others said may end with a full stop of its own. */
const asSentence = (text: string): string => text.replace(/(?<!\.)\.\.(?=\s|$)/g, ".");

interface SvcErrorOptions {
  cause?: unknown;
  errors?: FieldError[];
  /** In place of what the catalogue says: a step that has tried for long enough ends with an error that is otherwise tried again. */
  retry?: Retry;
}

/** The one error class. Everything a caller may see is in the catalogue; `cause` keeps what led here. */
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

  /** The three words that go into records, events and answers. */
  toJobError(): { code: string; message: string; hint: string } {
    return { code: this.code, message: this.message, hint: this.hint };
  }
}

/** What was thrown, in its own words. */
export const messageOf = (thrown: unknown): string => (thrown instanceof Error ? thrown.message : String(thrown));

/** What was thrown, or `disk_full` with it as the cause where the system said so. */
export function orDiskFull(thrown: unknown, path: string): unknown {
  if (thrown instanceof SvcError || !isDiskFull(thrown)) return thrown;
  return new SvcError("disk_full", { path }, { cause: thrown });
}

/** Any thrown value as an `SvcError`; what is not ours becomes `internal_error` with its cause kept. */
export function asSvcError(thrown: unknown): SvcError {
  if (thrown instanceof SvcError) return thrown;
  if (isDiskFull(thrown)) return new SvcError("disk_full", { path: "the home" }, { cause: thrown });
  return new SvcError("internal_error", { why: messageOf(thrown) }, { cause: thrown });
}
