// The parts of Google's library that tokens.ts uses, in one module that it loads with the first token. The imports are static because a
// bundler finds the names of a CommonJS package only in static imports.

import * as internal from "google-auth-library/build/src/util.js";

export {
  AwsClient,
  Compute,
  gaxios,
  IdentityPoolClient,
  Impersonated,
  JWT,
  PluggableAuthClient,
  UserRefreshClient,
} from "google-auth-library";

/** Keeps the library from warning on stderr of unchecked credentials: auth.ts has checked them. Not part of the library's types. */
export const { suppressAdcWarning } = internal as unknown as { suppressAdcWarning<T>(this: void, work: () => T): T };
