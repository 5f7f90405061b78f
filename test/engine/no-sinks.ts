// For a control plane whose runs have no sinks.

import type { SinkKeeper } from "../../src/engine/service-options.ts";

export const NO_SINKS: SinkKeeper = {
  check: () => Promise.resolve(),
  enter: () => undefined,
  begin: () => undefined,
  changed: () => undefined,
  retry: () => Promise.resolve(),
  uncopied: () => [],
  endUploads: () => Promise.resolve(),
  settle: () => Promise.resolve(),
  stop: () => Promise.resolve(),
};
