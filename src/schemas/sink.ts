// Sinks: object stores that receive copies of checkpoints and logs. The fields that a spec may set for one.

import { z } from "zod";
import { keepsSecrets } from "./address.ts";
import { line } from "./line.ts";

export const SinkKind = z.enum(["objstore_a", "objstore_b"]).meta({
  id: "SinkKind",
  title: "Kind",
  description: "objstore_a uses the S3 API (`s3://bucket/prefix`), objstore_b the Google Cloud Storage API (`gs://…`).",
});
export type SinkKind = z.infer<typeof SinkKind>;

/** A run's record is shown and stored, so it only names secrets. */
const secret = line(2_048).refine(
  (s) => /^(env|store):\/\/./.test(s),
  "must be a reference, env://NAME or store://path: a secret itself is never written into a run's record",
);
/** Not a secret itself, but may be stored next to one. */
const plain = line(512).refine(
  (s) => !/^(file|literal):\/\//.test(s),
  "must not begin with file:// or literal://, which only the owner's registry may use; use env:// or store://",
);
/** The mask shown in an earlier run's record is not a valid key id. */
const keyId = plain.refine((s) => s !== "***", "is masked in a run's record: enter it again");

const FIELDS = {
  access_key_id: keyId.optional().meta({ title: "Access key id" }),
  secret_access_key: secret.optional().meta({ title: "Secret access key", description: "A reference." }),
  session_token: secret.optional().meta({ title: "Session token", description: "A reference." }),
  region: plain.optional().meta({ title: "Region" }),
  profile: plain.optional().meta({ title: "Profile", description: "A profile of the shared configuration files." }),
  service_account_json: secret.optional().meta({ title: "Service account", description: "A reference." }),
  endpoint: line(2_048)
    .optional()
    .meta({ title: "Endpoint", description: "Address of the object store; https, or this computer." }),
};
type Fields = { [Name in keyof typeof FIELDS]?: string | undefined };
const NAMES = Object.keys(FIELDS) as (keyof Fields)[];
const OF_KIND: Record<SinkKind, readonly (keyof Fields)[]> = {
  objstore_a: ["access_key_id", "secret_access_key", "session_token", "region", "profile", "endpoint"],
  objstore_b: ["service_account_json", "endpoint"],
};

/** Credentials as one object, from either place in which they may be written. */
export function credentialsOf(sink: Sink): Fields {
  return {
    ...Object.fromEntries(NAMES.flatMap((n) => (sink[n] === undefined ? [] : [[n, sink[n]]]))),
    ...sink.credentials,
  };
}

export interface SinkPlace {
  bucket: string;
  /** Empty, or without a slash at either end. */
  prefix: string;
}

const SCHEMES: Record<SinkKind, string> = { objstore_a: "s3", objstore_b: "gs" };

/** The place that a sink's url names, or an error message if the url is wrong. */
export function sinkPlaceOf(kind: SinkKind, url: string): SinkPlace | string {
  const scheme = SCHEMES[kind];
  const [, bucket, rest = ""] = new RegExp(`^${scheme}://([^/]*)(?:/(.*))?$`).exec(url) ?? [];
  if (bucket === undefined) return `must be ${scheme}://bucket or ${scheme}://bucket/prefix for ${kind}`;
  if (bucket === "") return `has no bucket: write ${scheme}://bucket or ${scheme}://bucket/prefix`;
  if (!/^[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]$/.test(bucket) || bucket.includes(".."))
    return "has an invalid bucket name: use 3 or more of a-z, 0-9, `-` and `.`";
  const prefix = rest.replace(/\/+$/, "");
  const names = prefix === "" ? [] : prefix.split("/");
  if (names.some((name) => !/^[A-Za-z0-9._=@+~-]+$/.test(name) || name === "." || name === ".."))
    return "has a prefix with an empty part, `..`, or characters other than A-Z a-z 0-9 . _ = @ + ~ -";
  if (prefix.length > 512) return "has a prefix longer than 512 characters";
  return { bucket, prefix };
}

const isSafeAddress = (text: string): boolean => {
  if (!URL.canParse(text)) return false;
  const url = new URL(text);
  return url.username === "" && url.password === "" && keepsSecrets(url);
};

export const Sink = z
  .strictObject({
    kind: SinkKind,
    url: line(2_048).meta({ title: "Address", description: "`s3://bucket/prefix` or `gs://bucket/prefix`." }),
    what: z
      .array(z.enum(["checkpoints", "logs"]))
      .min(1)
      .max(2)
      .meta({ title: "What", description: "The files to copy." }),
    ...FIELDS,
    credentials: z.strictObject(FIELDS).optional().meta({
      title: "Credentials",
      description:
        "The same fields in a separate object. If none are given, svc uses the stored credentials, then the default chain.",
    }),
  })
  .superRefine((sink, context) => {
    const refuse = (path: (string | number)[], message: string): void =>
      context.addIssue({ code: "custom", path, message });
    const place = sinkPlaceOf(sink.kind, sink.url);
    if (typeof place === "string") refuse(["url"], place);
    const pathOf = (name: keyof Fields): string[] => (sink[name] === undefined ? ["credentials", name] : [name]);
    for (const name of NAMES) {
      const given = sink[name] ?? sink.credentials?.[name];
      if (given === undefined) continue;
      if (sink[name] !== undefined && sink.credentials?.[name] !== undefined) refuse([name], "is set twice");
      if (!OF_KIND[sink.kind].includes(name)) refuse(pathOf(name), `is not a field of ${sink.kind}`);
    }
    const given = credentialsOf(sink);
    const lacks = (name: keyof Fields, beside: keyof Fields): void => {
      if (given[name] === undefined && given[beside] !== undefined) refuse([name], `is required with ${beside}`);
    };
    lacks("secret_access_key", "access_key_id");
    lacks("secret_access_key", "session_token");
    if (given.profile !== undefined && given.access_key_id !== undefined)
      refuse(pathOf("profile"), "cannot be combined with access_key_id");
    if (given.endpoint !== undefined && !isSafeAddress(given.endpoint))
      refuse(pathOf("endpoint"), "must begin with https:// (http:// is allowed only for this computer)");
  })
  .meta({ id: "Sink" });
export type Sink = z.infer<typeof Sink>;

/** Two sinks at one place would overwrite each other's manifest. */
export const Sinks = z
  .array(Sink)
  .max(16)
  .default([])
  .superRefine((sinks, context) => {
    const seen = new Map<string, number>();
    for (const [i, { kind, url }] of sinks.entries()) {
      const place = `${kind} ${url.replace(/\/+$/, "")}`;
      const first = seen.get(place);
      if (first === undefined) seen.set(place, i);
      else
        context.addIssue({
          code: "custom",
          path: [i, "url"],
          message: `is the same place as sinks[${first}]: list both in its \`what\``,
        });
    }
  })
  .meta({
    title: "Sinks",
    description: "Object stores that receive checkpoints and logs during the run.",
  });
