// Wires the parts for rented machines: providers, their credentials, and access to machines.

import { pause, type Clock } from "../domain/clock.ts";
import { SvcError } from "../errors/index.ts";
import type { MachineHandle, Provider } from "../providers/provider.ts";
import { NO_ADDRESS, REMOTE_PROVIDERS } from "../providers/registry.ts";
import { DESCRIPTORS, isRemote, REMOTE_NAMES, type RemoteName } from "../providers/descriptors.ts";
import type { ProviderName } from "../schemas/spec.ts";
import { baseUrlOf, readCredential } from "../secrets/credentials.ts";
import { HostKeyPins, keyOfLine } from "../ssh/host-keys.ts";
import { loadSshKey, type SshKey } from "../ssh/keys.ts";
import { machineDir, RemoteMachines, type RemoteMachinesOptions } from "../ssh/remote-access.ts";
import { sshArguments } from "../ssh/system-ssh.ts";

interface Places {
  home: string;
  env: NodeJS.ProcessEnv;
}

type Programs = Pick<RemoteMachinesOptions, "runner" | "agentText" | "gateText">;

export type RemoteMachinesOf = ReturnType<typeof remoteMachines>;

function sshKeyOf(provider: ProviderName, { home, env }: Places): Promise<SshKey> {
  const { sshKeyPath } = readCredential(provider, { home, env });
  const agentSocket = env["SSH_AUTH_SOCK"];
  return loadSshKey({ path: sshKeyPath, home, ...(agentSocket ? { agentSocket } : {}) });
}

/** The ways to all machines, with the key that each provider's are opened with. */
export function remoteMachines({ home, env, runner, agentText, gateText }: Places & Programs) {
  const key = (provider: ProviderName): Promise<SshKey> => sshKeyOf(provider, { home, env });
  const pins = new HostKeyPins(home);
  const machines = new RemoteMachines({ home, key, pins, runner, agentText, gateText });
  return Object.assign(machines, { key, pins });
}

/**
 * The owner's credential for a provider, read again at each call. Throws `credential_missing`, which names what to set.
 */
export function credentialOf(provider: ProviderName, places: Places) {
  const { credential, missing } = readCredential(provider, places);
  if (!credential) throw new SvcError("credential_missing", { provider, missing: missing.join("; ") });
  return credential;
}

/** The address of a provider's API. Throws `provider_unavailable`, which names the setting. */
function addressOf(provider: RemoteName, places: Places): string {
  let credential: ReturnType<typeof credentialOf> | null = null;
  try {
    credential = credentialOf(provider, places);
  } catch {
    // Reported when the credential is needed.
  }
  return baseUrlOf(provider, places.env, credential, DESCRIPTORS[provider].address ?? NO_ADDRESS);
}

/** Throws `credential_missing` or `provider_unavailable` if a provider cannot be called with the present settings. */
export function checkConnected(provider: ProviderName, places: Places): void {
  credentialOf(provider, places);
  if (isRemote(provider) && DESCRIPTORS[provider].address !== null) addressOf(provider, places);
}

/** Every provider that rents machines, including those whose settings are unusable: only their own runs fail. */
export function remoteProviders(parts: Places & { clock: Clock; machines: RemoteMachinesOf }): [string, Provider][] {
  const { home, env, clock, machines } = parts;
  const names = REMOTE_NAMES;
  return names.map((name) => {
    const credential = () => credentialOf(name, { home, env });
    const provider = REMOTE_PROVIDERS[name].open({
      credential,
      get baseUrl() {
        return addressOf(name, { home, env });
      },
      publicKey: async () => (await machines.key(name)).publicKeyLine,
      access: (handle) => {
        // A key that the owner received together with the address is safer than the first key that answers.
        const published = keyOfLine(handle.extra?.["host_key"] ?? "");
        if (published && machines.pins.check(handle.name, published) === "new")
          machines.pins.pin(handle.name, published);
        return machines.access(handle);
      },
      now: clock.now,
      pause: (ms, signal) => pause(clock, ms, signal),
    });
    return [name, provider];
  });
}

/**
 * The arguments of OpenSSH for a shell on a held machine, with its pinned host key and without the user's own
 * configuration.
 * @returns `project`: the folder of the run's project there; null before anything was sent to it.
 */
export async function shellCommand(
  { home, env }: Places,
  handle: MachineHandle,
): Promise<{ argv: string[]; project: string | null }> {
  const endpoint = handle.ssh?.[0];
  if (!endpoint)
    throw new SvcError("ssh_unreachable", {
      machine: handle.name,
      why: "it is still starting, and its address is not known yet; try again in a moment",
    });
  const key = await sshKeyOf(handle.provider, { home, env });
  const there = handle.extra?.["home"];
  return {
    argv: sshArguments({ machine: handle.name, endpoint, key, pins: new HostKeyPins(home), interactive: true }),
    project: there?.startsWith("/") === true ? `${machineDir(there, handle.name)}/project` : null,
  };
}
