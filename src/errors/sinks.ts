// Errors between this computer and an object store. They never affect the run itself, and no machine waits for them.

import { entry } from "./entry.ts";

export const SINKS = {
  sink_credentials: entry<{ sink: string; missing: string }>({
    status: 400,
    exit: 4,
    retry: "backoff",
    message: (d) => `No credentials are set for ${d.sink}: ${d.missing}.`,
    hint: "Store them as objstore_a or objstore_b, refer to them in the sink with env:// or store://, or set up the object store's own default credentials. The run and its machine do not depend on them.",
  }),
  sink_refused: entry<{ sink: string; why: string }>({
    status: 400,
    exit: 4,
    retry: "backoff",
    message: (d) => `${d.sink} refuses the upload: ${d.why}.`,
    hint: "Check the bucket's name and region, and that the credentials have write access. The files are safe in this home; the run and its machine do not depend on the copy.",
  }),
  sink_unreachable: entry<{ sink: string; why: string }>({
    status: 502,
    exit: 1,
    retry: "backoff",
    message: (d) => `${d.sink} is not reachable or not writable at the moment: ${d.why}.`,
    hint: "svc retries the upload by itself. The files are safe in this home; the run and its machine do not depend on the copy.",
  }),
  sink_mismatch: entry<{ sink: string; path: string; why: string }>({
    status: 502,
    exit: 1,
    retry: "backoff",
    message: (d) => `The copy of ${d.path} in ${d.sink} differs from what svc sent: ${d.why}.`,
    hint: "svc retries the upload. If it keeps failing, the object store or a proxy is modifying uploads. The local copy is intact.",
  }),
  sinks_none: entry<{ job: string }>({
    status: 404,
    exit: 3,
    retry: "never",
    message: (d) => `Job ${d.job} has no sink.`,
    hint: "Set `sinks` when you submit a run.",
  }),
} as const;
