// Deliberate defects in the rules of renting: which machine is searched for and ordered, whether it fits, what its provider says about it,
// and how it is released. Each is named by the head that states its invariant, and has the tests that must notice it.

import { single, type TestedMutant } from "./mutants.ts";

const place = single("place", "src/steps/place.ts", ["test/steps/place.test.ts"]);
const fit = single("machine fit", "src/steps/rental/machine-fit.ts", ["test/steps/rental/machine-fit.test.ts"]);
const gpus = single("GPU fit", "src/domain/gpu-fit.ts", ["test/domain/gpu-fit.test.ts"]);
const ending = single("graceful shutdown", "src/engine/graceful-shutdown.ts", ["test/engine/service.test.ts"]);
const freed = single("freed machines", "src/engine/freed-machines.ts", ["test/engine/freed-machines.test.ts"]);
const offers = single("offers", "src/engine/offers.ts", ["test/engine/offers.test.ts"]);
const change = single("change of a run", "src/engine/change-run.ts", ["test/engine/change-run.test.ts"]);
const search = single("market search", "src/providers/market/search.ts", ["test/providers/market.test.ts"]);
const client = single("market client", "src/providers/market/client.ts", ["test/providers/market.test.ts"]);
const bid = single("market bid", "src/providers/market/bid.ts", ["test/providers/market-spot.test.ts"]);
const bootLog = single("boot log", "src/providers/podhost/boot-log.ts", ["test/providers/podhost-boot.test.ts"]);
const serial = single("boot serial", "src/providers/cloudvm/boot-serial.ts", ["test/providers/cloudvm-boot.test.ts"]);
const apis = single("podhost", "src/providers/podhost/api-choice.ts", ["test/providers/podhost-apis.test.ts"]);
const auth = single("cloudvm credential", "src/providers/cloudvm/auth.ts", [
  "test/providers/cloudvm-auth.test.ts",
  "test/providers/google-credentials.test.ts",
]);
const notebook = single("notebook", "src/providers/notebook/provider.ts", ["test/providers/notebook.test.ts"]);

export const RENTING_MUTANTS: readonly TestedMutant[] = [
  place(
    "W1: a slow provider holds up the others",
    "await within(ports, until(isDecided), SLOW_MS, signal);",
    "await within(ports, until(isDecided), ASK_MS, signal);",
  ),
  place(
    "W1: the order of the candidates does not count",
    'search.choose === "in_order" ? able :',
    'search.choose !== "in_order" ? able :',
  ),
  place(
    "W2: a candidate that has just refused is ordered from again",
    "(now < until ? !isWithin(passedOverMs(refusal, search.since), refusal.at, now) : isAfterGap)",
    "(now < until || isAfterGap)",
  ),
  place(
    "W2: orders that cost money are repeated as often as those of taken offers",
    "OF_STOCK.has(code) ? REFUSED_MS",
    'OF_STOCK.has(code) || code !== "" ? REFUSED_MS',
  ),
  place(
    "W3: orders that are refused in turn prolong the search",
    "(now < until ? !isWithin(passedOverMs(refusal, search.since), refusal.at, now) : isAfterGap)",
    "!isWithin(passedOverMs(refusal, search.since), refusal.at, now)",
  ),
  place(
    "W4: jobs that wait for the same offers ask one by one",
    "if (!isWithin(SHARED_MS, then, at)) this.#asked.delete(key);",
    "if (then <= at) this.#asked.delete(key);",
  ),
  place(
    "W4: each job searches at an instant of its own",
    "return Math.round((now() + delayMs - offset) / BEAT_MS) * BEAT_MS + offset;",
    "return now() + delayMs + 0 * offset;",
  ),
  place(
    "W5: a candidate of bad machines keeps its place",
    "unfit.filter((one) => one === index).length >= UNFIT_MAX;",
    "unfit.filter((one) => one === index).length >= 100 * UNFIT_MAX;",
  ),
  place(
    "W6: a spec that no candidate can serve waits to the end",
    "if (isVain && lastedMs >= SEARCH_MS_MIN && lastedMs < CONTRADICTED_MS)",
    "if (isVain && lastedMs >= CONTRADICTED_MS && lastedMs < CONTRADICTED_MS)",
  ),
  place(
    "W6: a long search ends by answers that may be a fault",
    "if (isVain && lastedMs >= SEARCH_MS_MIN && lastedMs < CONTRADICTED_MS)",
    "if (isVain && lastedMs >= SEARCH_MS_MIN)",
  ),
  place(
    "W7: a wait that ended while svc was off ends without a try",
    "if (last?.search !== since) return true;",
    "if (last?.search !== since) return false;",
  ),
  fit("D1: a failing driver tool means a machine without GPUs", "if (fault) {", "if (fault && gpus !== null) {"),
  fit("D2: one failed poll ends the machine", "const FAULTS_MAX = 2;", "const FAULTS_MAX = 1;"),
  fit(
    "D2: a driver that is being installed ends the machine",
    "const again = installs\n      ?",
    "const again = installs && faults.size < 0\n      ?",
  ),
  gpus(
    "F1: a name of unknown form refuses the machine",
    "return chipOf(order.model) === null || shown === null || chips",
    "return chipOf(order.model) === null || shown !== null && chips",
  ),
  gpus(
    "F1: another GPU passes for the ordered one",
    "shown.startsWith(ordered) && !/^\\d/.test(",
    "shown.startsWith(ordered.slice(0, 1)) || !/^\\d/.test(",
  ),
  gpus(
    "F2: an additional GPU of another kind refuses the machine",
    "if (named.length < order.count)",
    "if (named.length < gpus.length)",
  ),
  gpus("F2: fewer GPUs than ordered pass", "if (gpus.length < order.count)", "if (gpus.length < 1)"),
  ending(
    "O1: a machine stays rented because it is silent",
    "if (asked.has(id) || !collecting(parts, id).some(failing)) continue;",
    "if (asked.has(id) || collecting(parts, id).length > 0) continue;",
  ),
  ending(
    "O2: a machine whose provider is silent, too, is given up",
    "} catch {\n      return;\n    }",
    "} catch {\n      continue;\n    }",
  ),
  ending(
    "O3: a collection that goes on is cut off",
    "left.some(goesOn) ? Math.max(limits.deadlineMs, limits.collectingMs)",
    "left.some(goesOn) ? limits.deadlineMs",
  ),
  freed(
    "F1: all waiting runs search for one machine",
    'const next = waiting.find((id) => !woken.has(id) && this.#mayUse(id, provider));\n      if (next === undefined) continue;\n      woken.add(next);\n      this.#engine.hasten(next, "place");',
    'for (const next of waiting.filter((id) => !woken.has(id) && this.#mayUse(id, provider)))\n        this.#engine.hasten(next, "place");',
  ),
  freed(
    "F1: a run searches at a provider that it cannot use",
    "!woken.has(id) && this.#mayUse(id, provider)",
    "!woken.has(id) && provider !== id",
  ),
  freed(
    "F2: an order that rented nothing frees a machine",
    "placement === last && handle !== null",
    "placement === last && handle !== undefined",
  ),
  offers("O1: a provider gets many requests at a time", "const AT_ONCE = 2;", "const AT_ONCE = 20;"),
  offers(
    "O1: the same question is asked again at once",
    "parts.clock.monotonic() - before.answeredAt < FRESH_MS",
    "parts.clock.monotonic() - before.answeredAt < 0",
  ),
  offers("O1: two callers ask the same at once", "if (asking !== undefined) return asking;", ""),
  offers(
    "O2: a slow provider holds up the answer",
    "await Promise.race([Promise.all(work), late.promise]);",
    "await Promise.all(work);",
  ),
  offers(
    "O2: a failed answer is kept",
    "if (told.error === null) this.#remember(key, told);",
    "this.#remember(key, told);",
  ),
  change("C1: a repeated change is made again", "if (changed.length === 0) return false;", ""),
  change(
    "C2: a budget that is spent already is accepted",
    "if (spentMicro >= microOf(spec.budget_usd))",
    "if (spentMicro >= microOf(spec.budget_usd) + 1e9)",
  ),
  change(
    "C2: a time limit that has passed is accepted",
    "if (ranMs >= spec.max_runtime_minutes * 60_000) return",
    "if (ranMs < 0) return",
  ),
  change(
    "C2: a cap below the price of a rented machine is accepted",
    "if (dear?.price_micro)\n",
    "if (dear?.price_micro === 0)\n",
  ),
  change(
    "C2: a limit of a run that is ending is accepted",
    'if (row.state === "terminating" && !mayGoOn(context)) return "its end is under way";',
    "",
  ),
  search(
    "S1: an offer of another place is taken",
    "country !== null && wish.countries.includes(country)",
    'country !== null || wish.countries.includes(country ?? "")',
  ),
  search("S1: an offer of another GPU is taken", "isNamed(row, wish) &&\n    numberOf", "numberOf"),
  search("S1: an offer of an unverified host is taken", "verified &&\n    free &&", "free &&"),
  search(
    "S1: an offer that may end before the run is taken",
    "atLeast(row.duration, wish.seconds) &&",
    "atLeast(row.duration, 0) &&",
  ),
  search(
    "S2: an offer without a price costs nothing",
    "const priceMicro = priceMicroOf(row.dph_total);\n  if (id === null",
    "const priceMicro = priceMicroOf(row.dph_total) ?? 0;\n  if (id === null",
  ),
  search(
    "S3: bids are not offered",
    'wish.spot === "never" ? [] : onDemand.flatMap(',
    'wish.spot !== "only" ? [] : onDemand.flatMap(',
    ["test/providers/market-spot.test.ts"],
  ),
  client(
    "C1: calls of one endpoint follow each other at once",
    "create: { minIntervalMs: 4_500,",
    "create: { minIntervalMs: 0,",
  ),
  bid("B1: the bid is the least one", "Math.ceil(leastMicro / 10);", "0 * leastMicro;"),
  bootLog(
    "B1: the output of a running container ends it",
    "if (pod.up || now < seen.nextLookAt) return null;",
    "if (now < seen.nextLookAt) return null;",
  ),
  bootLog(
    "B2: a log that cannot be read ends the pod",
    "return text === null ? null : bootVerdict(runtimeLines(text));",
    'return text === null ? { why: "its log cannot be read", elsewhere: true } : bootVerdict(runtimeLines(text));',
  ),
  serial(
    "S1: a start script's error ends the machine",
    "kernel panic - not syncing|",
    "kernel panic - not syncing|error|fail|",
  ),
  serial(
    "S2: a console that cannot be read ends the machine",
    "if (text === null) seen.nextLookAt = now + LOOK_MS_UNREAD;",
    'if (text === null) seen.verdict = { why: "its console cannot be read", elsewhere: true };',
  ),
  serial(
    "S3: a machine that has booted is judged by its console",
    "|| now - seen.since > YOUNG_MS) return",
    "|| now - seen.since > 1e9 * YOUNG_MS) return",
  ),
  apis("A1: REST is used while GraphQL answers well", "return isHindered && now", "return now"),
  apis(
    "A2: limits do not lead to REST",
    "if (this.#limited >= LIMITED_IN_A_ROW)",
    "if (this.#limited >= 100 * LIMITED_IN_A_ROW)",
  ),
  apis(
    "A2: GraphQL gets no other chance after limits",
    "this.#limitedUntil = now + REST_MS;",
    "this.#limitedUntil = Infinity;",
  ),
  auth(
    "A1: a secret is sent over plain http",
    "if (!keepsSecrets(url)) throw refuse(",
    'if (!keepsSecrets(url) && url.host === "") throw refuse(',
  ),
  auth(
    "A1: an address deep in a credential is not looked at",
    'if (typeof value === "object" && value !== null)\n    for',
    'if (typeof value === "object" && value !== null && at === "")\n    for',
  ),
  auth(
    "A2: a credential that lacks a part is used",
    "if (lacking.length > 0)\n    throw",
    "if (lacking.length > 9)\n    throw",
  ),
  auth(
    "A2: a key of another kind is used",
    'if (key.asymmetricKeyType !== "rsa") throw',
    "if (key.asymmetricKeyType === undefined) throw",
  ),
  notebook(
    "N2: a restarted tunnel is not followed",
    "return adopted && pinned !== undefined && hostKey !== undefined && hostKey !== pinned ? adopted : way;",
    "return adopted ?? (pinned === hostKey ? way : way);",
  ),
  notebook(
    "N2: the tunnel of another runtime is followed",
    "return adopted && pinned !== undefined && hostKey !== undefined && hostKey !== pinned ? adopted : way;",
    "return pinned === hostKey ? way : way;",
  ),
];
