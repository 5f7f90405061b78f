// The one list of providers. A new provider is a folder and one line here; the compiler then names `registry.ts`, where its code is.

import { cloudvm } from "./cloudvm/descriptor.ts";
import type { ProviderCredentialBlock, ProviderDescriptor } from "./descriptor.ts";
import { local } from "./local/descriptor.ts";
import { market } from "./market/descriptor.ts";
import { notebook } from "./notebook/descriptor.ts";
import { podhost } from "./podhost/descriptor.ts";

/** In the order in which people see them. */
const ALL = { local, podhost, market, cloudvm, notebook };

type Name = keyof typeof ALL;
/** Providers whose machines are not this computer: they need a credential. */
export type RemoteName = {
  [Each in Name]: (typeof ALL)[Each]["capabilities"]["runs_here"] extends true ? never : Each;
}[Name];

export const DESCRIPTORS: Readonly<Record<Name, ProviderDescriptor>> = ALL;
export const PROVIDER_NAMES = Object.keys(ALL) as Name[];
export const isRemote = (name: Name): name is RemoteName => !DESCRIPTORS[name].capabilities.runs_here;
export const REMOTE_NAMES: readonly RemoteName[] = PROVIDER_NAMES.filter(isRemote);

/** A provider's entry in `GET /v1/providers`, without the state of its credential. */
export const infoOf = <N extends Name>(name: N) => ({
  name,
  speaks: DESCRIPTORS[name].speaks,
  capabilities: { ...DESCRIPTORS[name].capabilities },
  stops_by_itself: DESCRIPTORS[name].stopsByItself,
});

/** The credential fields of a provider. */
export const credentialBlockOf = (name: RemoteName): ProviderCredentialBlock => ALL[name].credential;

/** The provider whose machine is this computer. The default of runs. */
export const THIS_COMPUTER = local.name;

/** A stored name may belong to a provider that this version does not have any more. */
export const descriptorOf = (name: string): ProviderDescriptor | undefined =>
  Object.hasOwn(ALL, name) ? DESCRIPTORS[name as Name] : undefined;

/** Whether its machines cost money. The machines of an unknown provider may. */
export const isBilled = (name: string): boolean => descriptorOf(name)?.capabilities.bills !== false;

/** The provider that a person calls by the name of the service, such as `runpod`, `Vast.ai` or `gce`; null for any other word. */
export function providerSpeaking(word: string): Name | null {
  const plain = (text: string): string => text.toLowerCase().replace(/[^a-z0-9]/g, "");
  const typed = plain(word);
  const isOf = (name: Name): boolean => {
    // The name of a service begins with a capital letter; other providers describe themselves.
    const { speaks } = DESCRIPTORS[name];
    if (!/^[A-Z]/.test(speaks)) return false;
    const initials = plain(speaks.match(/[A-Z]/g)?.join("") ?? "");
    return [plain(speaks), plain(speaks.split(/[ .]/)[0] ?? ""), initials.length > 2 ? initials : ""].includes(typed);
  };
  return typed === "" ? null : (PROVIDER_NAMES.find(isOf) ?? null);
}

/** Whether its machine is this computer. */
export const runsHere = (name: string): boolean => descriptorOf(name)?.capabilities.runs_here ?? false;
