// The provider `notebook`: a runtime that its owner opened, reached over SSH through a tunnel. svc adopts the runtime
// in the credential and never ends it, since it does not own it.
//
// N1. For a run, this file sends no request and no probe: every connection counts against the tunnel's limits, so the
//     one handshake of the greeting is also the test whether the runtime answers. Only `account` connects.
// N2. The endpoint is read again at every poll: a restarted tunnel has another host and port.
// N3. A command of an endpoint comes from the owner's own settings, never from pasted text. Of a pasted `ssh -J`, svc
//     takes the checked name of the jump host and makes the command itself.

import { endpointOf, type SshEndpoint } from "../../domain/endpoint.ts";
import { SvcError } from "../../errors/index.ts";
import { infoOf } from "../descriptors.ts";
import type { MachineAccess } from "../host.ts";
import type { Account, Certainty, MachineHandle, MachineStatus, Offer, Order, Provider } from "../provider.ts";
import type { ProviderCredential, RemoteOptions } from "../remote.ts";
import { greets } from "./greets.ts";
import { hostKeyOf, parseEndpoint, type PastedEndpoint } from "./endpoint.ts";

const HOW =
  "Run the bootstrap cell (GET /v1/notebook/bootstrap) in the notebook and set NOTEBOOK_ENDPOINT to the line SVC-ENDPOINT that it prints, or set NOTEBOOK_HOST and NOTEBOOK_PORT";

export class NotebookProvider implements Provider {
  readonly name = "notebook" as const;
  readonly info = infoOf("notebook");
  /** Nothing is ordered, so no answer can be lost. */
  readonly certainty: Certainty = { horizonMs: 0, listingLagMs: 0, emptyLooks: 1, lookGapMs: 0 };
  readonly #o: RemoteOptions;
  /** Names of released orders. Not stored: after a restart `terminate` is called again before `inspect`. */
  readonly #letGo = new Set<string>();

  constructor(options: RemoteOptions) {
    this.#o = options;
  }

  listOffers(): Promise<Offer[]> {
    return attempt(() => [{ id: idOf(this.#endpoint()), priceMicro: 0 }]);
  }

  create(_offer: Offer, order: Order): Promise<MachineHandle> {
    return attempt(() => {
      const { hostKey, ...way } = this.#endpoint();
      return {
        v: 1,
        provider: "notebook",
        id: idOf(way),
        name: order.name,
        address: way.host,
        priceMicro: 0,
        ssh: [way],
        ...(hostKey === undefined ? {} : { extra: { host_key: hostKey } }),
      };
    });
  }

  /** A poll cannot tell whether it still answers: a closed notebook and a cut tunnel look the same. */
  inspect(handle: MachineHandle): Promise<MachineStatus> {
    return attempt(() => {
      if (this.#letGo.has(handle.name)) return { phase: "gone", why: "svc does not own it and has released it" };
      const way = this.#wayTo(handle);
      return { phase: "ready", address: way?.host ?? handle.address, priceMicro: 0, ...(way ? { ssh: [way] } : {}) };
    });
  }

  /**
   * Ends nothing: the runtime belongs to its owner. The step that releases it ends svc's processes there
   * (`MachineAccess.leave`).
   */
  terminate(handle: MachineHandle): Promise<void> {
    this.#letGo.add(handle.name);
    return Promise.resolve();
  }

  listOwned(): Promise<MachineHandle[]> {
    return Promise.resolve([]);
  }

  async account(): Promise<Account> {
    const { proxyCommand, ...way } = this.#endpoint();
    const name = `${way.user}@${way.host.includes(":") ? `[${way.host}]` : way.host}:${way.port}`;
    if (proxyCommand !== undefined) {
      const warnings = ["the way in is a command, which is run only for a run"];
      return { name, may: [], balanceUsd: null, warnings };
    }
    await greets(way);
    return { name, may: ["reach its SSH server"], balanceUsd: 0, warnings: [] };
  }

  selfEnd(): null {
    return null;
  }

  access(handle: MachineHandle): MachineAccess {
    return this.#o.access(handle);
  }

  /** The present endpoint, unless it is gone from the settings or shows another runtime's key. */
  #wayTo(handle: MachineHandle): SshEndpoint | undefined {
    const adopted = handle.ssh?.[0];
    let now: PastedEndpoint;
    try {
      now = this.#endpoint();
    } catch (e) {
      if (e instanceof SvcError && adopted) return adopted;
      throw e;
    }
    const { hostKey, ...way } = now;
    const pinned = handle.extra?.["host_key"];
    return adopted && pinned !== undefined && hostKey !== undefined && hostKey !== pinned ? adopted : way;
  }

  #endpoint(): PastedEndpoint {
    return endpointIn(this.#o.credential());
  }
}

/** The runtime in a credential. Throws `credential_missing`, which says what to do. */
export function endpointIn({ settings }: ProviderCredential): PastedEndpoint {
  const { endpoint, host, port, ssh_user: user, proxy_command: proxyCommand, host_key: key } = settings;
  const missing = (what: string) => new SvcError("credential_missing", { provider: "notebook", missing: what });
  if (!endpoint && !host && !proxyCommand) throw missing(`the address of the runtime is unknown. ${HOW}`);
  const way: PastedEndpoint | null = endpoint
    ? asUser(parseEndpoint(endpoint), user)
    : host
      ? wayOf(host, port ?? (proxyCommand ? "22" : undefined), user)
      : endpointOf("notebook", port ?? "22", user ?? "root");
  if (!way && host && !endpoint && !port) throw missing(`the port of the tunnel is not set. ${HOW}`);
  if (!way) throw missing(`host, port and user are not such as host.example, 17042 and root. ${HOW}`);
  const hostKey = key ? hostKeyOf(key) : (way.hostKey ?? null);
  if (key && hostKey === null) throw missing(`host_key must look like ssh-ed25519 AAAA… . ${HOW}`);
  return {
    host: way.host,
    port: way.port,
    user: way.user,
    ...(proxyCommand ? { proxyCommand } : way.proxyCommand ? { proxyCommand: way.proxyCommand } : {}),
    metered: true,
    ...(hostKey === null ? {} : { hostKey }),
  };
}

/** The user may have pasted a host with its surroundings; a port or user in its own field takes precedence. */
function wayOf(host: string, port: string | undefined, user: string | undefined): PastedEndpoint | null {
  const plain = port === undefined ? null : endpointOf(host.replace(/^(tcp|ssh):\/\//, ""), port, user ?? "root");
  if (plain) return plain;
  const pasted = parseEndpoint(host);
  if (!pasted) return null;
  const exact = endpointOf(pasted.host, port ?? pasted.port, user ?? pasted.user);
  const { hostKey, proxyCommand } = pasted;
  return exact && { ...exact, ...(hostKey ? { hostKey } : {}), ...(proxyCommand ? { proxyCommand } : {}) };
}

function asUser(way: PastedEndpoint | null, user: string | undefined): PastedEndpoint | null {
  if (way === null || user === undefined) return way;
  const checked = endpointOf(way.host, way.port, user);
  return checked && { ...way, user: checked.user };
}

/** Safe in a path and on a command line; the same for the same endpoint. */
const idOf = ({ host, port }: SshEndpoint): string => `at-${host.replaceAll(":", "-").slice(0, 100)}-${port}`;

/** Turns a thrown error into a rejection. */
async function attempt<T>(look: () => T): Promise<T> {
  return look();
}
