// As whom machines are entered where the provider says nothing of it, or where the owner knows better: the setting `ssh_user`.

import { endpointOf, type SshEndpoint } from "../domain/endpoint.ts";
import { SvcError } from "../errors/index.ts";
import type { ProviderName } from "../schemas/spec.ts";
import type { MachineStatus } from "./provider.ts";

type Settings = Readonly<Record<string, string>>;

const nameIn = (settings: Settings): string | undefined => settings["ssh_user"]?.trim() || undefined;

/** Before anything is ordered. @throws `credential_missing` where `ssh_user` can be no name of a user */
export function checkSshUser(provider: ProviderName, settings: Settings): void {
  const user = nameIn(settings);
  if (user === undefined || endpointOf("localhost", 22, user)) return;
  throw new SvcError("credential_missing", {
    provider,
    missing: "ssh_user is no name of a user; leave it out for root",
  });
}

/** The ways into a machine that is ready, as that user. The settings are asked for only where there is a way in. */
export function enteredBySetting<S extends MachineStatus>(status: S, settings: () => Settings): S {
  if (status.phase !== "ready" || !status.ssh) return status;
  const set = settings();
  return { ...status, ssh: status.ssh.map((way) => asSshUser(way, set)) };
}

/** The way as that user; as it is where none is set, or where what is set since can be no name: machines must still be looked at. */
function asSshUser(way: SshEndpoint, settings: Settings): SshEndpoint {
  return endpointOf(way.host, way.port, nameIn(settings) ?? way.user) ?? way;
}
