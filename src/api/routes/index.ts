import type { Route } from "../route.ts";
import { CODE_ROUTES } from "./code.ts";
import { COST_ROUTES } from "./costs.ts";
import { CREDENTIAL_ROUTES } from "./credentials.ts";
import { DATA_ROUTES } from "./data.ts";
import { DOWNLOAD_ROUTE } from "./downloads.ts";
import { FOLDER_ROUTES } from "./folders.ts";
import { HOLD_ROUTES } from "./holds.ts";
import { HUB_ROUTES } from "./hub.ts";
import { LIMIT_ROUTES } from "./limits.ts";
import { JOB_ROUTES } from "./jobs.ts";
import { ARCHIVE_ROUTES } from "./archives.ts";
import { LOG_LINE_ROUTES } from "./log-lines.ts";
import { LOG_ROUTE } from "./logs.ts";
import { NOTIFICATION_ROUTES } from "./notifications.ts";
import { RETENTION_ROUTES } from "./retention.ts";
import { SERIES_ROUTES } from "./series.ts";
import { NOTEBOOK_ROUTE } from "./notebook.ts";
import { SYSTEM_ROUTES } from "./system.ts";

/** The whole API. A path outside this table does not exist. */
export const ROUTES: readonly Route[] = [
  ...JOB_ROUTES,
  LOG_ROUTE,
  ...LOG_LINE_ROUTES,
  ...SERIES_ROUTES,
  ...ARCHIVE_ROUTES,
  DOWNLOAD_ROUTE,
  ...CODE_ROUTES,
  ...DATA_ROUTES,
  ...SYSTEM_ROUTES,
  ...FOLDER_ROUTES,
  ...COST_ROUTES,
  ...LIMIT_ROUTES,
  ...RETENTION_ROUTES,
  ...HOLD_ROUTES,
  ...CREDENTIAL_ROUTES,
  ...HUB_ROUTES,
  ...NOTIFICATION_ROUTES,
  NOTEBOOK_ROUTE,
];
