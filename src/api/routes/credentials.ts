// Routes for credentials. They accept secrets and never return one.

import { z } from "zod";
import { CREDENTIAL_NAMES } from "../../schemas/credential-blocks.ts";
import { CredentialBody, CredentialCheck, Credentials, SavedCredential } from "../../schemas/credentials.ts";
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

/** The credentials with which svc acts for its owner. Secrets go in and never come out. */
export const CREDENTIAL_ROUTES = [
  route({
    method: "GET",
    path: "/v1/credentials",
    id: "listCredentials",
    summary: "The credentials of providers and services, masked",
    responses: {
      200: {
        description: "Every field that is set, its source, and whether it can be changed here.",
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
    description: `${NAMES} Omitted fields stay unchanged; null removes a field. With \`check=true\` svc verifies the credential with the provider first and does not save it if the provider refuses it.`,
    query: z.strictObject({ check: z.enum(["true", "false"], { error: "must be true or false" }).default("false") }),
    body: CredentialBody,
    responses: {
      200: { description: "The credential after the change, and the result of the check.", schema: SavedCredential },
    },
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
    summary: "Choose the credentials to use, by reference",
    description:
      "`configure()` of an SDK calls this. It replaces the registry of an earlier call; `{registry: {}}` clears it, and then only the " +
      "environment and the store are used. Values are stored encrypted and never shown.",
    body: RegistryBody,
    responses: { 200: { description: "The credentials in use.", schema: RegistryInUse } },
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
    summary: "Remove a stored credential",
    description: `${NAMES} Refused while a machine of the provider may cost money, because svc could no longer terminate it.`,
    responses: { 200: { description: "The credential after the change.", schema: SavedCredential } },
    errors: ["invalid_request", "credential_read_only", "credential_in_use", "credentials_unusable"],
    handle: (call) => ok(call.cp.credentials.remove(nameOf(call))),
  }),
  route({
    method: "POST",
    path: "/v1/credentials/{name}/check",
    id: "checkCredential",
    summary: "Verify a credential with its provider",
    description: `${NAMES} Returns the account, its known permissions, and the balance if the provider reports one.`,
    body: z.strictObject({}).optional(),
    responses: { 200: { description: "The provider accepts the credential.", schema: CredentialCheck } },
    errors: ["invalid_request", "credentials_unusable", ...ASKED],
    handle: async (call) => ok(await call.cp.credentials.check(nameOf(call))),
  }),
];
