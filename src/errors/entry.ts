// The parts of an error in the catalogue.

/** `never`: a retry cannot help; `backoff`: the engine retries; `unknown`: the request may have taken effect. */
export type Retry = "never" | "backoff" | "unknown";

export interface Entry<D> {
  /** HTTP status of an answer that carries this error. */
  status: number;
  /** Exit code of a command that ends with it: 1 failed, 2 usage, 3 not found, 4 credential, 5 unreachable. */
  exit: 1 | 2 | 3 | 4 | 5;
  retry: Retry;
  message: (d: D) => string;
  hint: string | ((d: D) => string);
}

export const entry = <D = Record<string, never>>(e: Entry<D>): Entry<D> => e;
