// Makes the pages of the documentation: `npm run site`. A control plane that starts afterwards serves them at /docs.

import { buildSite, SiteError } from "./lib/build-site.ts";

try {
  buildSite();
  console.log("dist/site is complete. A control plane that starts now serves it at /docs.");
} catch (error) {
  if (!(error instanceof SiteError)) throw error;
  console.error(error.message);
  process.exitCode = 1;
}
