// The result of one check of `svc doctor`.

export interface Check {
  name: string;
  status: "ok" | "warn" | "fail";
  found: string;
  /** The remedy; empty when all is well. */
  fix: string;
}

export const ok = (name: string, found: string): Check => ({ name, status: "ok", found, fix: "" });
export const warn = (name: string, found: string, fix: string): Check => ({ name, status: "warn", found, fix });
export const fail = (name: string, found: string, fix: string): Check => ({ name, status: "fail", found, fix });
