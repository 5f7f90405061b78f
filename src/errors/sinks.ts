// What can go wrong between this computer and an object store. The run itself is never touched by it, and no machine waits for it.

import { entry } from "./entry.ts";

export const SINKS = {
  sink_credentials: entry<{ sink: string; missing: string }>({
    status: 400,
    exit: 4,
    retry: "backoff",
    message: (d) => `There are no credentials for ${d.sink}: ${d.missing}.`,
    hint: "Store them as objstore_a or objstore_b, name them in the sink by env:// or store://, or set up the store's own default credentials. The run and its machine do not depend on it.",
  }),
  sink_refused: entry<{ sink: string; why: string }>({
    status: 400,
    exit: 4,
    retry: "backoff",
    message: (d) => `${d.sink} refuses what is written there: ${d.why}.`,
    hint: "Check the bucket's name and region, and that the credentials may write there. The files are in this home; the run and its machine do not depend on the copy.",
  }),
  sink_unreachable: entry<{ sink: string; why: string }>({
    status: 502,
    exit: 1,
    retry: "backoff",
    message: (d) => `${d.sink} cannot be written at the moment: ${d.why}.`,
    hint: "It is tried again by itself. The files are in this home; the run and its machine do not depend on the copy.",
  }),
  sink_mismatch: entry<{ sink: string; path: string; why: string }>({
    status: 502,
    exit: 1,
    retry: "backoff",
    message: (d) => `The copy of ${d.path} in ${d.sink} is not what was sent: ${d.why}.`,
    hint: "It is sent again. If this stays, the store, or a proxy before it, changes what it is given. The file in this home is whole.",
  }),
  sinks_none: entry<{ job: string }>({
    status: 404,
    exit: 3,
    retry: "never",
    message: (d) => `Job ${d.job} has no sink.`,
    hint: "Sinks are named in `sinks` when a run is submitted.",
  }),
} as const;
