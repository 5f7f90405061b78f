// The parts of the provider's answers that svc uses. Other parts may change without notice; 64-bit numbers are strings,
// and empty lists are omitted.

import { z } from "zod";
import { oneLine } from "../../domain/terminal-text.ts";

const optionalText = z.string().optional().catch(undefined);
const number64 = z.union([z.string(), z.number().int().nonnegative()]).transform(String).optional().catch(undefined);

/** Text from the provider as one line for people. */
export function plainText(text: string, max = 500): string {
  // svc's own sentence already ends with a full stop.
  return oneLine(oneLine(text).replace(/\s+/g, " "), max).replace(/\.$/, "");
}

/** The last part of a URL or path: `zones/us-central1-a` and `https://…/zones/us-central1-a` are both `us-central1-a`. */
export const lastPart = (path: string): string => path.slice(path.lastIndexOf("/") + 1);

const Labels = z.record(z.string(), z.string());

export const Instance = z.looseObject({
  id: number64,
  name: z.string(),
  status: z.string().catch(""),
  labels: Labels.catch({}).default({}),
  scheduling: z.looseObject({ provisioningModel: optionalText }).optional().catch(undefined),
  networkInterfaces: z
    .array(
      z.looseObject({
        networkIP: optionalText,
        accessConfigs: z
          .array(z.looseObject({ natIP: optionalText }))
          .optional()
          .catch(undefined),
      }),
    )
    .catch([])
    .default([]),
});
export type Instance = z.infer<typeof Instance>;

const OperationError = z.looseObject({
  code: optionalText,
  message: optionalText,
  errorDetails: z
    .array(
      z.looseObject({
        localizedMessage: z.looseObject({ message: optionalText }).optional().catch(undefined),
        errorInfo: z
          .looseObject({ metadatas: z.record(z.string(), z.unknown()).optional().catch(undefined) })
          .optional()
          .catch(undefined),
        quotaInfo: z
          .looseObject({
            metricName: optionalText,
            limitName: optionalText,
            limit: z.union([z.number(), z.string()]).optional().catch(undefined),
            dimensions: z.record(z.string(), z.unknown()).optional().catch(undefined),
          })
          .optional()
          .catch(undefined),
      }),
    )
    .catch([])
    .default([]),
});
export type OperationError = z.infer<typeof OperationError>;

const OperationErrors = z
  .looseObject({ errors: z.array(OperationError).catch([]).default([]) })
  .catch(() => ({ errors: [] }));

export const Operation = z.looseObject({
  name: z.string().regex(/^[A-Za-z0-9][A-Za-z0-9_.-]{0,200}$/),
  status: z.string().catch(""),
  operationType: optionalText,
  targetId: number64,
  targetLink: optionalText,
  user: optionalText,
  insertTime: optionalText,
  /** Any value here means a failure, except null. */
  error: z
    .unknown()
    .transform((value) => (value === undefined || value === null ? null : OperationErrors.parse(value)))
    .default(null),
  httpErrorStatusCode: z.coerce.number().optional().catch(undefined),
  httpErrorMessage: optionalText,
});
export type Operation = z.infer<typeof Operation>;

const pageToken = z.string().max(8_192).optional();
const Warning = z.looseObject({ code: z.string().catch("unknown"), message: optionalText }).nullish();

/** Whether an object is a list at all: an empty list lacks its items, but has a kind. */
const isList = (kind: string, answer: { kind?: string | undefined; items?: unknown }): boolean =>
  answer.kind === kind || (answer.items ?? null) !== null;

export const OperationList = z
  .looseObject({ kind: optionalText, items: z.array(z.unknown()).nullish(), nextPageToken: pageToken })
  .refine((answer) => isList("compute#operationList", answer));

/** Its labels name its owner. */
export const ListedInstance = Instance.extend({ labels: Labels.default({}) });

/** Strict on purpose: an unreadable entry in a listing might be a machine. Each of `instances` is read alone, as a `ListedInstance`. */
export const AggregatedInstances = z
  .looseObject({
    kind: optionalText,
    items: z
      .record(z.string(), z.looseObject({ instances: z.array(z.unknown()).nullish(), warning: Warning }))
      .nullish(),
    nextPageToken: pageToken,
    unreachables: z.array(z.string()).nullish(),
    warning: Warning,
  })
  .refine((answer) => isList("compute#instanceAggregatedList", answer));

export const Project = z.looseObject({
  name: optionalText,
  commonInstanceMetadata: z
    .looseObject({
      items: z
        .array(z.looseObject({ key: optionalText, value: optionalText }))
        .catch([])
        .default([]),
    })
    .optional()
    .catch(undefined),
  quotas: z
    .array(z.looseObject({ metric: optionalText, limit: z.number().optional().catch(undefined) }))
    .catch([])
    .default([]),
});

export const SerialOutput = z.looseObject({ contents: z.string() });

export const Region = z.looseObject({ zones: z.array(z.string()).catch([]).default([]) });

export const ErrorBody = z.looseObject({
  error: z.looseObject({
    message: optionalText,
    status: optionalText,
    errors: z
      .array(z.looseObject({ reason: optionalText, message: optionalText }))
      .catch([])
      .default([]),
    details: z
      .array(
        z.looseObject({
          reason: optionalText,
          metadata: z.record(z.string(), z.unknown()).optional().catch(undefined),
          metadatas: z.record(z.string(), z.unknown()).optional().catch(undefined),
        }),
      )
      .catch([])
      .default([]),
  }),
});
