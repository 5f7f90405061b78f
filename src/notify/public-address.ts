// Decides whether svc may connect to an address on behalf of a target, and pins the addresses that it has checked.
//
// A1. Without `allow_private` only addresses of the public network: no loopback, private, link-local, shared or reserved one, in
//     IPv4, IPv6, or IPv4 within IPv6.
// A2. The connection goes to the address that was checked: a name that resolves differently a moment later changes nothing.
// A3. One inside address among those of a name refuses the name.

import { lookup as resolve } from "node:dns/promises";
import { BlockList, isIP, type LookupFunction } from "node:net";
import { SvcError } from "../errors/index.ts";

const INSIDE = new BlockList();
for (const [net, bits] of [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.0.0.0", 24],
  ["192.0.2.0", 24],
  ["192.88.99.0", 24],
  ["192.168.0.0", 16],
  ["198.18.0.0", 15],
  ["198.51.100.0", 24],
  ["203.0.113.0", 24],
  ["224.0.0.0", 4],
  ["240.0.0.0", 4],
] as const)
  INSIDE.addSubnet(net, bits, "ipv4");

/** Of IPv6 only the global unicast range is public, and parts of it carry IPv4 or are set aside. */
const GLOBAL = new BlockList();
GLOBAL.addSubnet("2000::", 3, "ipv6");
for (const [net, bits] of [
  ["2001::", 23],
  ["2001:db8::", 32],
  ["2002::", 16],
  ["3fff::", 20],
] as const)
  INSIDE.addSubnet(net, bits, "ipv6");

/** A1. False for text that is not an address. */
export function isPublicAddress(address: string): boolean {
  const family = isIP(address);
  if (family === 4) return !INSIDE.check(address, "ipv4");
  // An IPv4 address within IPv6 lies outside of the global range.
  return family === 6 && GLOBAL.check(address, "ipv6") && !INSIDE.check(address, "ipv6");
}

export interface PinnedAddress {
  address: string;
  family: 4 | 6;
}

export type Resolver = (host: string) => Promise<readonly { address: string; family: number }[]>;
const byDns: Resolver = (host) => resolve(host, { all: true, verbatim: true });

/**
 * The addresses of a host, checked. Throws `notify_address` if one of them may not be reached, and the resolver's error if
 * there is none.
 * @param host as `URL` writes it, or a plain name or address
 */
export async function pinnedAddresses(
  host: string,
  { allowPrivate, resolver = byDns }: { allowPrivate: boolean; resolver?: Resolver },
): Promise<PinnedAddress[]> {
  const bare = host.replace(/^\[(.*)\]$/, "$1");
  const found = isIP(bare) ? [{ address: bare, family: isIP(bare) }] : await resolver(bare);
  const inside = allowPrivate ? undefined : found.find(({ address }) => !isPublicAddress(address));
  if (inside !== undefined) {
    const why = isIP(bare)
      ? "it is not an address of the public network"
      : `it leads to ${inside.address}, which is not an address of the public network`;
    throw new SvcError("notify_address", { host: bare, why });
  }
  return found.map(({ address, family }) => ({ address, family: family === 6 ? 6 : 4 }));
}

/** A2: a lookup that knows these addresses only. */
export const lookupOf =
  (pinned: readonly PinnedAddress[]): LookupFunction =>
  (_host, options, callback) => {
    const [first] = pinned;
    if (options.all === true) callback(null, [...pinned]);
    else if (first) callback(null, first.address, first.family);
    else callback(new Error("no address"), "", 4);
  };
