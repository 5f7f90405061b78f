import type { Route } from "../route.ts";
import { CODE_ROUTES } from "./code.ts";
import { CREDENTIAL_ROUTES } from "./credentials.ts";
import { DATA_ROUTES } from "./data.ts";
import { DOWNLOAD_ROUTE } from "./downloads.ts";
import { HOLD_ROUTES } from "./holds.ts";
import { JOB_ROUTES } from "./jobs.ts";
import { LOG_ROUTE } from "./logs.ts";
import { NOTEBOOK_ROUTE } from "./notebook.ts";
import { SYSTEM_ROUTES } from "./system.ts";

/** The whole API. What is not in this table does not exist. */
export const ROUTES: readonly Route[] = [
  ...JOB_ROUTES,
  LOG_ROUTE,
  DOWNLOAD_ROUTE,
  ...CODE_ROUTES,
  ...DATA_ROUTES,
  ...SYSTEM_ROUTES,
  ...HOLD_ROUTES,
  ...CREDENTIAL_ROUTES,
  NOTEBOOK_ROUTE,
];
