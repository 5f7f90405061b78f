import { z } from "zod";
import {
  CredentialBody,
  CredentialCheck,
  CREDENTIAL_NAMES,
  Credentials,
  SavedCredential,
} from "../../schemas/credentials.ts";
import { RegistryBody, RegistryInUse } from "../../schemas/registry.ts";
import { ok, route, type Call } from "../route.ts";

const nameOf = (call: Call): string => (call.params["name"] ?? "").slice(0, 64);
const NAMES = `\`name\` is one of ${CREDENTIAL_NAMES.join(", ")}.`;
const ASKED = [
  "credential_missing",
  "credential_refused",
  "provider_unreachable",
  "provider_error",
  "provider_unavailable",
] as const;

/** What svc needs to act in its owner's name. Secrets go in and never come out. */
export const CREDENTIAL_ROUTES = [
  route({
    method: "GET",
    path: "/v1/credentials",
    id: "listCredentials",
    summary: "What is set for providers and services, masked",
    responses: {
      200: {
        description: "Each given field, where it comes from, and whether it can be changed here.",
        schema: Credentials,
      },
    },
    errors: ["credentials_unusable"],
    handle: (call) => ok(call.cp.credentials.list()),
  }),
  route({
    method: "PUT",
    path: "/v1/credentials/{name}",
    id: "saveCredential",
    summary: "Set fields of a credential",
    description: `${NAMES} Fields that are left out stay as they are, null takes one away. With \`check=true\` the other side is asked first, and what it refuses is not saved.`,
    query: z.strictObject({ check: z.enum(["true", "false"], { error: "must be true or false" }).default("false") }),
    body: CredentialBody,
    responses: { 200: { description: "What is set now, and what the check found.", schema: SavedCredential } },
    errors: [
      "invalid_request",
      "invalid_json",
      "unsupported_media_type",
      "credential_read_only",
      "credential_in_use",
      "credentials_unusable",
      "ssh_key_unusable",
      ...ASKED,
    ],
    handle: async (call) =>
      ok(await call.cp.credentials.save(nameOf(call), call.body, { check: call.query.check === "true" })),
  }),
  route({
    method: "PUT",
    path: "/v1/registry",
    id: "configure",
    summary: "Say which credentials are used, by reference",
    description:
      "What `configure()` of an SDK sends. It takes the place of what an earlier call named; `{registry: {}}` names nothing, and then the " +
      "environment and the store count alone. Values are kept sealed and shown nowhere.",
    body: RegistryBody,
    responses: { 200: { description: "What is used now.", schema: RegistryInUse } },
    errors: [
      "invalid_request",
      "invalid_json",
      "unsupported_media_type",
      "secret_not_found",
      "credential_in_use",
      "credentials_unusable",
    ],
    handle: (call) => ok(call.cp.credentials.configure(call.body)),
  }),
  route({
    method: "DELETE",
    path: "/v1/credentials/{name}",
    id: "removeCredential",
    summary: "Take a stored credential away",
    description: `${NAMES} Refused while a machine of the provider may cost money: it could not be ended any more.`,
    responses: { 200: { description: "What is set now.", schema: SavedCredential } },
    errors: ["invalid_request", "credential_read_only", "credential_in_use", "credentials_unusable"],
    handle: (call) => ok(call.cp.credentials.remove(nameOf(call))),
  }),
  route({
    method: "POST",
    path: "/v1/credentials/{name}/check",
    id: "checkCredential",
    summary: "Ask the other side whether what is set works",
    description: `${NAMES} Says whose account it is, what it may do as far as can be told, and the balance where the other side tells.`,
    body: z.strictObject({}).optional(),
    responses: { 200: { description: "It is accepted.", schema: CredentialCheck } },
    errors: ["invalid_request", "credentials_unusable", ...ASKED],
    handle: async (call) => ok(await call.cp.credentials.check(nameOf(call))),
  }),
];
