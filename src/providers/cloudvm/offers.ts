// The offers of the cloud, which lists none itself: each zone that may have the machine, on each of the terms that the run takes.

import type { RunSpec } from "../../schemas/spec.ts";
import type { Offer } from "../provider.ts";
import { planFor, type Settings } from "./machine-types.ts";

/** The terms that a run takes, best first: true for a spot machine. */
const spotChoicesOf = ({ spot }: RunSpec): readonly boolean[] =>
  spot === "prefer" ? [true, false] : spot === "only" ? [true] : [false];

/**
 * The offers, best first. If the spec allows both kinds, the spot machines of all zones come before those on demand,
 * because their prices are unknown.
 * @param asked the zone that the owner named, if any
 */
export const offersIn = (zones: readonly string[], asked: string | null, spec: RunSpec, settings: Settings): Offer[] =>
  spotChoicesOf(spec).flatMap((spot) => {
    const { machineType, terms: warning } = planFor(spec, settings, spot);
    const terms = spot ? "spot: the provider may take it back at any time" : warning;
    return zones.map((zone): Offer => ({
      id: `${zone}.${machineType}${spot ? ".spot" : ""}`,
      priceMicro: null,
      ...(spot ? { spot: true } : {}),
      facts: { machine: machineType, place: zone, ...(terms === null ? {} : { terms }) },
      extra: { zone, ...(zone === asked ? { asked: "yes" } : {}) },
    }));
  });
