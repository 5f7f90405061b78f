// Selects offers for a run from the pod host's catalogue.

import { nearestFew } from "../../domain/nearest.ts";
import { SvcError } from "../../errors/index.ts";
import type { RunSpec } from "../../schemas/spec.ts";
import { gpuIds, gpuWishOf, neverSold, refuseMemory } from "../gpu-names.ts";
import type { Offer } from "../provider.ts";
import { PODHOST } from "./transport.ts";
import type { Cloud, GpuType, Place } from "./wire.ts";

/** No host of theirs has more GPUs than this. */
const GPUS_MAX = 8;
const DATA_CENTRE = /^[A-Za-z]{2,4}(-[A-Za-z0-9]{1,8}){1,3}$/;
const COUNTRY = /^[A-Za-z]{2}$/;
/** `registry:port/path/name:tag@digest`; no text that could be an option or that a shell interprets. */
const IMAGE = /^[A-Za-z0-9][A-Za-z0-9._/:@-]*$/;

/** Throws, naming the field, if no pod can ever match. */
export function checkSpec(spec: RunSpec): void {
  const wish = gpuWishOf(PODHOST, spec.gpus);
  if (wish.count > GPUS_MAX)
    throw neverSold(PODHOST, spec.gpus, `no machine has more than ${GPUS_MAX}; use nodes for more`);
  if (gpuIds(PODHOST, wish.model).length === 0) throw neverSold(PODHOST, spec.gpus, `${wish.model} is not sold there`);
  refuseMemory(PODHOST, spec);
  const invalid = (field: string, message: string): never => {
    throw new SvcError(
      "invalid_request",
      { summary: `spec.${field} ${message}.` },
      { errors: [{ field: `spec.${field}`, message }] },
    );
  };
  const { region, image } = spec;
  if (region !== undefined && !isRegion(region)) invalid("region", MUST);
  if (image !== undefined && !IMAGE.test(image)) invalid("image", "must be a container image such as name/image:tag");
}

const MUST = "must be a data centre such as US-TX-3, or a country of two letters";
const isRegion = (region: string): boolean => DATA_CENTRE.test(region) || COUNTRY.test(region);

/** The credential's region, for runs that name none. Throws `credential_missing`. */
export function credentialRegion(setting: string | undefined): string | undefined {
  const region = setting?.trim() || undefined;
  if (region === undefined || isRegion(region)) return region;
  throw new SvcError("credential_missing", { provider: PODHOST, missing: `region ${MUST}` });
}

/**
 * The places to search: a data centre is in the secure cloud, a country in the other one; without either, the owner's
 * setting.
 */
export function placesOf(spec: RunSpec, cloud: string | undefined): Place[] {
  const region = spec.region?.toUpperCase();
  if (region !== undefined && COUNTRY.test(region))
    return [{ cloud: "COMMUNITY", dataCenterId: null, countryCode: region }];
  if (region !== undefined) return [{ cloud: "SECURE", dataCenterId: region, countryCode: null }];
  const clouds: Readonly<Record<string, Cloud[]>> = {
    secure: ["SECURE"],
    community: ["COMMUNITY"],
    any: ["SECURE", "COMMUNITY"],
  };
  const chosen = clouds[(cloud ?? "secure").toLowerCase()];
  if (chosen === undefined)
    throw new SvcError("credential_missing", { provider: PODHOST, missing: "cloud must be secure, community or any" });
  return chosen.map((one) => ({ cloud: one, dataCenterId: null, countryCode: null }));
}

/** Null if `known`, the existing places, contains it, or has none of its kind and so proves nothing. */
export function noSuchPlace(region: string, known: readonly string[]): SvcError | null {
  const isCountry = COUNTRY.test(region);
  const alike = [...new Set(known.filter((place) => COUNTRY.test(place) === isCountry))];
  if (alike.length === 0 || alike.includes(region.toUpperCase())) return null;
  const kind = isCountry ? "country" : "data centre";
  // There are a dozen countries; of the more numerous data centres, those with similar names.
  const named = isCountry ? alike.toSorted() : nearestFew(region, alike, (name) => name.toUpperCase());
  const has = named.length === 0 ? "" : `; ${isCountry ? "it has" : "near it:"} ${named.join(", ")}`;
  return new SvcError(
    "provider_refused",
    { provider: PODHOST, why: `it has no ${kind} ${region}${has}` },
    { errors: [{ field: "spec.region", message: `${region} does not exist` }] },
  );
}

/** Why a kind of GPU gives no offer, as text; null if it gives one. */
export function whyNoOffer(type: GpuType, spec: RunSpec, place: Place): string | null {
  const where = [`${place.cloud.toLowerCase()} cloud`, place.dataCenterId ?? place.countryCode]
    .filter(Boolean)
    .join(", ");
  if (!type.inStock) return `${type.id} is out of stock (${where})`;
  if (type.unitMicro === null) return `${type.id} has no price that is a number of 0 or more (${where})`;
  if (offerOf(type, spec, place).length > 0) return null;
  return `${type.id} has ${type.memoryGb ?? "an unknown number of"} GB, and ${spec.min_vram_gb} are asked for`;
}

/** Empty if the kind does not match, is out of stock, or has no valid price. */
export function offerOf(type: GpuType, spec: RunSpec, place: Place): Offer[] {
  const { count } = gpuWishOf(PODHOST, spec.gpus);
  if (!type.inStock || type.unitMicro === null) return [];
  if (spec.min_vram_gb !== undefined && !(type.memoryGb !== null && type.memoryGb >= spec.min_vram_gb)) return [];
  return [
    {
      id: `${count}x ${type.id} (${[place.cloud.toLowerCase(), place.dataCenterId ?? place.countryCode].filter(Boolean).join(", ")})`,
      priceMicro: type.unitMicro * count,
      facts: {
        gpu: `${count} × ${type.id}`,
        ...(type.memoryGb === null ? {} : { memory: `${type.memoryGb} GB` }),
        place: [place.cloud.toLowerCase(), place.dataCenterId ?? place.countryCode].filter(Boolean).join(", "),
      },
      extra: {
        gpuTypeId: type.id,
        gpuCount: String(count),
        cloud: place.cloud,
        ...(place.dataCenterId === null ? {} : { dataCenterId: place.dataCenterId }),
        ...(place.countryCode === null ? {} : { countryCode: place.countryCode }),
      },
    },
  ];
}
