import { CATALOGUE, type ErrorCode, type ErrorData, type Retry } from "./catalogue.ts";

export interface FieldError {
  field: string;
  message: string;
}

/** The one error class. Everything a caller may see is in the catalogue; `cause` keeps what led here. */
export class SvcError<C extends ErrorCode = ErrorCode> extends Error {
  override readonly name = "SvcError";
  readonly code: C;
  readonly hint: string;
  readonly status: number;
  readonly exit: number;
  readonly retry: Retry;
  readonly errors: FieldError[] | undefined;
  readonly data: ErrorData<C>;

  constructor(code: C, data: ErrorData<C>, options: { cause?: unknown; errors?: FieldError[] } = {}) {
    // The catalogue ties each code to its own data type; indexing by a type parameter loses that tie.
    const e = CATALOGUE[code] as unknown as {
      status: number; exit: number; retry: Retry; message: (d: unknown) => string; hint: string | ((d: unknown) => string);
    };
    super(e.message(data), options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.data = data;
    this.hint = typeof e.hint === "string" ? e.hint : e.hint(data);
    this.status = e.status;
    this.exit = e.exit;
    this.retry = e.retry;
    this.errors = options.errors;
  }

  /** The three words that go into records, events and answers. */
  toJobError(): { code: string; message: string; hint: string } {
    return { code: this.code, message: this.message, hint: this.hint };
  }
}

/** Any thrown value as an `SvcError`; what is not ours becomes `internal_error` with its cause kept. */
export function asSvcError(thrown: unknown): SvcError {
  if (thrown instanceof SvcError) return thrown;
  const code = (thrown as { code?: unknown } | null)?.code;
  if (code === "ENOSPC" || code === "SQLITE_FULL") return new SvcError("disk_full", { path: "the home" }, { cause: thrown });
  return new SvcError("internal_error", { why: thrown instanceof Error ? thrown.message : String(thrown) }, { cause: thrown });
}
