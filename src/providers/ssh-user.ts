// The user name for logins if the provider does not report one, or if the owner knows better: the setting `ssh_user`.

import { endpointOf, type SshEndpoint } from "../domain/endpoint.ts";
import { SvcError } from "../errors/index.ts";
import type { ProviderName } from "../schemas/spec.ts";
import type { MachineStatus } from "./provider.ts";

type Settings = Readonly<Record<string, string>>;

const nameIn = (settings: Settings): string | undefined => settings["ssh_user"]?.trim() || undefined;

/** Called before anything is ordered. @throws `credential_missing` if `ssh_user` cannot be a user name */
export function checkSshUser(provider: ProviderName, settings: Settings): void {
  const user = nameIn(settings);
  if (user === undefined || endpointOf("localhost", 22, user)) return;
  throw new SvcError("credential_missing", {
    provider,
    missing: "ssh_user is not a user name; leave it out for root",
  });
}

/** The endpoints of a ready machine, with that user. The settings are read only if there is an endpoint. */
export function enteredBySetting<S extends MachineStatus>(status: S, settings: () => Settings): S {
  if (status.phase !== "ready" || !status.ssh) return status;
  const set = settings();
  return { ...status, ssh: status.ssh.map((way) => asSshUser(way, set)) };
}

/**
 * The endpoint with that user; unchanged if none is set, or if the present setting cannot be a user name: machines must
 * still be polled.
 */
function asSshUser(way: SshEndpoint, settings: Settings): SshEndpoint {
  return endpointOf(way.host, way.port, nameIn(settings) ?? way.user) ?? way;
}
