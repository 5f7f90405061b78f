// Makes one connection to one endpoint of a machine: TCP or the owner's command, SSH handshake, host key, login.

import ssh2, { type AuthenticationType, type Client, type ConnectConfig, type ServerHostKeyAlgorithm } from "ssh2";
import type { Clock } from "../domain/clock.ts";
import type { SshEndpoint } from "../domain/endpoint.ts";
import { messageOf, SvcError } from "../errors/index.ts";
import { keyOfLine, type HostKeyPins } from "./host-keys.ts";
import type { SshKey } from "./keys.ts";
import { OneKeyAgent } from "./one-key-agent.ts";
import { openProxy, type ProxiedStream } from "./proxy-command.ts";
import { NO_HANDSHAKE, whyUnreachable } from "./words.ts";

/** How long silence is tolerated. */
export interface DialPatience {
  /** Until the login. */
  readyMs: number;
  /** Interval of keepalive probes; after three without an answer the connection is lost. */
  keepaliveMs: number;
}

/** A connection that falls silent is lost after 15 to 20 s. */
const DIAL_PATIENCE: DialPatience = { readyMs: 10_000, keepaliveMs: 5_000 };
const KEEPALIVES_UNANSWERED = 3;
const LAST_WORDS_MS = 1_000;

/** Best first. SHA-1 signatures (`ssh-rsa`) and DSA are not among them. */
const HOST_KEY_ALGORITHMS: readonly ServerHostKeyAlgorithm[] = [
  "ssh-ed25519",
  "ecdsa-sha2-nistp256",
  "ecdsa-sha2-nistp384",
  "ecdsa-sha2-nistp521",
  "rsa-sha2-512",
  "rsa-sha2-256",
];

export interface DialOptions {
  machine: string;
  endpoint: SshEndpoint;
  key: SshKey;
  pins: HostKeyPins;
  clock: Clock;
  patience?: DialPatience;
}

/** A logged-in connection. */
export interface Link {
  readonly client: Client;
  readonly endpoint: SshEndpoint;
  /** Called once the connection is dead. */
  readonly onLost: Set<(why: SvcError) => void>;
  /** Ends it at once. */
  end(): void;
}

/** Throws `ssh_unreachable`, `ssh_refused`, `host_key_changed`. */
export async function dial(options: DialOptions): Promise<Link> {
  return enter(options, await proxyOf(options));
}

/** Null if the endpoint connects straight to sshd. */
async function proxyOf({ machine, endpoint }: DialOptions): Promise<ProxiedStream | null> {
  const { proxyCommand } = endpoint;
  if (proxyCommand === undefined) return null;
  return openProxy({ ...endpoint, proxyCommand }).catch((cause: unknown) => {
    // Not `closed`: this computer lacks something, and the machine may be fine.
    const why = `the proxy command could not be started: ${messageOf(cause)}`;
    throw new SvcError("ssh_unreachable", { machine, why }, { cause });
  });
}

function enter(options: DialOptions, proxy: ProxiedStream | null): Promise<Link> {
  const { machine, endpoint, key, pins, clock, patience = DIAL_PATIENCE } = options;
  return new Promise((resolve, reject) => {
    const client = new ssh2.Client();
    let shown: Buffer | null = null;
    let changed = false;
    let ready = false;
    let over = false;
    const onLost = new Set<(why: SvcError) => void>();

    const end = (why: SvcError): void => {
      if (over) return;
      over = true;
      late.cancel();
      client.destroy();
      proxy?.end();
      reject(why);
      for (const listener of onLost) listener(why);
    };
    const unreachable = (why: string, cause?: unknown, closed = false): SvcError => {
      const said = proxy?.words() ?? "";
      const all = said === "" ? why : `${why}; the proxy command: ${said}`;
      return new SvcError("ssh_unreachable", { machine, why: all, closed }, { cause });
    };
    /** Before a login, a proxy command that is about to end gets time to report why. */
    const endExplained = (why: () => SvcError): void => {
      if (over || ready || !proxy || why().code !== "ssh_unreachable") return end(why());
      const enough = clock.setTimer(LAST_WORDS_MS, () => end(why()));
      void proxy.ended.then(() => {
        enough.cancel();
        end(why());
      });
    };
    const failure = (thrown: unknown): SvcError => {
      if (changed) return new SvcError("host_key_changed", { machine });
      const { level } = thrown as { level?: unknown };
      if (!ready && (level === "client-authentication" || level === "agent")) {
        const why =
          level === "agent"
            ? "the SSH agent does not sign with the key"
            : `it does not accept the key ${key.path} (${key.publicKeyLine.split(" ")[0] ?? ""})`;
        return new SvcError("ssh_refused", { machine, user: endpoint.user, why }, { cause: thrown });
      }
      return unreachable(
        ready ? whyLost(thrown, patience) : whyUnreachable(thrown, endpoint, patience.readyMs),
        thrown,
        !ready && wasTurnedAway(thrown),
      );
    };
    // A separate timer also covers a proxy command and a name server.
    const late = clock.setTimer(patience.readyMs, () => end(failure({ level: "client-timeout" })));

    // Keep this listener: an error after the end would otherwise be uncaught.
    client.on("error", (e) => endExplained(() => failure(e)));
    const closed = (): void =>
      endExplained(() =>
        ready ? unreachable("the other side closed it") : unreachable(hungUp(endpoint), undefined, true),
      );
    client.on("end", closed);
    client.on("close", closed);
    client.on("ready", () => {
      if (over) return;
      // Only a signature was sent so far. A machine may make itself new host keys while it boots, so the first key that
      // counts is the one of the first successful login.
      if (shown && pins.check(machine, shown) === "new") pins.pin(machine, shown);
      if (!shown || pins.check(machine, shown) !== "same") return end(new SvcError("host_key_changed", { machine }));
      ready = true;
      late.cancel();
      client.setNoDelay(true);
      resolve({
        client,
        endpoint,
        onLost,
        end: () => end(new SvcError("ssh_unreachable", { machine, why: "the connection was closed here" })),
      });
    });

    try {
      client.connect({
        ...(proxy ? { sock: proxy.stream } : { host: endpoint.host, port: endpoint.port }),
        username: endpoint.user,
        readyTimeout: 0,
        keepaliveInterval: patience.keepaliveMs,
        keepaliveCountMax: KEEPALIVES_UNANSWERED,
        agentForward: false,
        tryKeyboard: false,
        ...credentialOf(key),
        algorithms: { serverHostKey: hostKeyAlgorithms(pins.types(machine)) },
        hostVerifier: (presented: Buffer): boolean => {
          shown = presented;
          changed = pins.check(machine, presented) === "changed";
          return !changed;
        },
      });
    } catch (e) {
      end(failure(e));
    }
  });
}

/** The pinned type comes first, so that a machine with several keys shows the known one. */
function hostKeyAlgorithms(pinned: readonly string[]): ServerHostKeyAlgorithm[] {
  const known = (algorithm: string): boolean =>
    pinned.includes(algorithm) || (algorithm.startsWith("rsa-") && pinned.includes("ssh-rsa"));
  return [
    ...HOST_KEY_ALGORITHMS.filter((algorithm) => known(algorithm)),
    ...HOST_KEY_ALGORITHMS.filter((algorithm) => !known(algorithm)),
  ];
}

function credentialOf(key: SshKey): Partial<ConnectConfig> {
  const methods = (method: AuthenticationType): AuthenticationType[] => [method];
  if (key.privateKey !== null) return { privateKey: key.privateKey, authHandler: methods("publickey") };
  const publicKey = keyOfLine(key.publicKeyLine) ?? Buffer.alloc(0);
  return { agent: new OneKeyAgent(key.agent ?? "", publicKey), authHandler: methods("agent") };
}

/** Errors of a connection that the other end closed. */
const TURNED_AWAY: ReadonlySet<string> = new Set(["ECONNREFUSED", "ECONNRESET", "EPIPE"]);

function wasTurnedAway(thrown: unknown): boolean {
  const { code, message } = thrown as { code?: unknown; message?: unknown };
  return TURNED_AWAY.has(String(code)) || message === NO_HANDSHAKE;
}

const hungUp = ({ host, port }: SshEndpoint): string => `${host} port ${port} closed the connection before the login`;

function whyLost(thrown: unknown, { keepaliveMs }: DialPatience): string {
  const { level, code } = thrown as { level?: unknown; code?: unknown };
  if (level === "client-timeout")
    return `it did not answer for ${Math.round((KEEPALIVES_UNANSWERED * keepaliveMs) / 1000)} s`;
  return typeof code === "string" ? `the connection was lost (${code})` : "the connection was lost";
}
