// The places of offers: the marketplace knows no regions, only a country at the end of a free text. A region of a spec
// is a list of countries, as their two letters, and of continents.

import { SvcError } from "../../errors/index.ts";
import type { RunSpec } from "../../schemas/spec.ts";

const split = (codes: string): readonly string[] => codes.split(" ");

const CONTINENTS: Readonly<Record<string, readonly string[]>> = {
  northamerica: split(
    "AG AI AW BB BL BM BQ BS BZ CA CR CU CW DM DO GD GL GP GT HN HT JM KN KY LC MF MQ MS MX NI PA PM PR SV SX TC TT US VC VG VI",
  ),
  southamerica: split("AR BO BR CL CO EC FK GF GY PE PY SR UY VE"),
  europe: split(
    "AD AL AT AX BA BE BG BY CH CY CZ DE DK EE ES FI FO FR GB GG GI GR HR HU IE IM IS IT JE LI LT LU LV MC MD ME MK MT NL NO PL PT RO RS RU SE SI SJ SK SM UA VA XK",
  ),
  asia: split(
    "AE AF AM AZ BD BH BN BT CN GE HK ID IL IN IQ IR JO JP KG KH KP KR KW KZ LA LB LK MM MN MO MV MY NP OM PH PK PS QA SA SG SY TH TJ TL TM TR TW UZ VN YE",
  ),
  oceania: split("AS AU CK FJ FM GU KI MH MP NC NF NR NU NZ PF PG PN PW SB TK TO TV VU WF WS"),
  africa: split(
    "AO BF BI BJ BW CD CF CG CI CM CV DJ DZ EG EH ER ET GA GH GM GN GQ GW KE KM LR LS LY MA MG ML MR MU MW MZ NA NE NG RE RW SC SD SH SL SN SO SS ST SZ TD TG TN TZ UG YT ZA ZM ZW",
  ),
};
const ALIASES: Readonly<Record<string, readonly string[]>> = { EU: CONTINENTS.europe ?? [], UK: ["GB"] };
const MUST =
  "must be countries by their two letters (US, CA) or continents (North_America, South_America, Europe, Asia, Oceania, Africa)";
const COUNTRIES = new Set(Object.values(CONTINENTS).flat());

/** Country codes of a region such as `US`, `us, CA` or `Europe`. Throws `invalid_request`, naming the field. */
function countriesOf(region: string): readonly string[] {
  const codes = codesOf(region);
  if (codes !== null) return codes;
  throw new SvcError(
    "invalid_request",
    { summary: `market does not know the region ${region}: it ${MUST}.` },
    { errors: [{ field: "spec.region", message: MUST }] },
  );
}

/** As `countriesOf`, for a run: its own region, else the credential's; null for any country. Throws `credential_missing`. */
export function countriesFor(spec: RunSpec, setting: string | undefined): readonly string[] | null {
  if (spec.region !== undefined) return countriesOf(spec.region);
  const region = setting?.trim() ?? "";
  const codes = region === "" ? null : codesOf(region);
  if (region !== "" && codes === null)
    throw new SvcError("credential_missing", { provider: "market", missing: `region ${MUST}` });
  return codes;
}

function codesOf(region: string): readonly string[] | null {
  const found = region.split(/[,;]/).map((part) => {
    const code = part.trim().toUpperCase();
    if (COUNTRIES.has(code)) return [code];
    return ALIASES[code] ?? CONTINENTS[code.toLowerCase().replace(/[\s_-]/g, "")];
  });
  return found.every((codes) => codes !== undefined) ? [...new Set(found.flat())] : null;
}

/** The country at the end of `"City, CC"`; null if there is none. */
export function countryOf(geolocation: unknown): string | null {
  const code = typeof geolocation === "string" ? /(?:^|[\s,])([A-Za-z]{2})\s*$/.exec(geolocation)?.[1] : undefined;
  return code?.toUpperCase() ?? null;
}
