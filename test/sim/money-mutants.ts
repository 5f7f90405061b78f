// Deliberate defects in the rules of money: what a machine costs, whether it is gone, and whether another one may be ordered. Each is
// named by the head that states its invariant, and has the test files that must notice it.

import { single, type TestedMutant } from "./mutants.ts";

const provision = single("provision", "src/steps/provision.ts", ["test/steps/provision.test.ts"]);
const sightings = single("sightings", "src/providers/sightings.ts", ["test/providers/sightings.test.ts"]);
const paging = single("paging", "src/providers/paging.ts", ["test/providers/paging.test.ts"]);
const billing = single("billing", "src/domain/billing.ts", ["test/domain/billing.test.ts"]);
const limits = single("limits", "src/domain/limits.ts", ["test/domain/limits.test.ts"]);
const idleness = single("idleness", "src/domain/idleness.ts", ["test/domain/idleness.test.ts"]);
const http = single("provider http", "src/providers/http.ts", ["test/providers/http.test.ts"]);
const market = single("market", "src/providers/market/provider.ts", ["test/providers/market-machines.test.ts"]);
const podhost = single("podhost", "src/providers/podhost/provider.ts", ["test/providers/podhost.test.ts"]);
const cloudvm = single("cloudvm", "src/providers/cloudvm/provider.ts", ["test/providers/cloudvm.test.ts"]);
const refusals = single("market", "src/providers/market/refusals.ts", [
  "test/providers/market.test.ts",
  "test/providers/create-refusals.test.ts",
]);
const bid = single("market bid", "src/providers/market/bid.ts", ["test/providers/market-spot.test.ts"]);
const apis = single("podhost", "src/providers/podhost/api-choice.ts", ["test/providers/podhost-apis.test.ts"]);
const insert = single("cloudvm insert", "src/providers/cloudvm/insert.ts", ["test/providers/cloudvm-create.test.ts"]);

export const MONEY_MUTANTS: readonly TestedMutant[] = [
  provision(
    "R2: a machine that a refused order made is forgotten",
    "await ports.ledger.releasing(name);\n      await ports.ledger.held(name, spoilt);",
    'await ports.ledger.released(name, "refused", { of: null });',
  ),
  provision(
    "R3: a kill drops the answer of a create call",
    "await ports.ledger.held(name, handle);\n  await endIfLate(",
    "signal.throwIfAborted();\n  await ports.ledger.held(name, handle);\n  await endIfLate(",
  ),
  provision(
    "R4: a refused order is not looked up",
    "machines.filter((machine) => machine.name === name)",
    'machines.filter((machine) => machine.name === "")',
  ),
  provision(
    "R4: an incomplete list confirms a refusal",
    "if (missing !== null) {\n      await unsure();\n      throw missing;\n    }",
    "",
    ["test/steps/incomplete-lists.test.ts"],
  ),
  provision("R5: the machines of other nodes wait for ever", "waited < GANG_WAIT_MS ?", "waited < Infinity ?"),
  provision(
    "R6: a run that asked for no waiting waits for ever",
    "last: ports.searches(jobId) || isOver, slept",
    "last: ports.searches(jobId), slept",
  ),
  provision(
    "R7: the price of the created machine is not compared with the cap",
    'checkCap(provider, spec, handle.priceOffered ? null : handle.priceMicro, "svc releases it");',
    "",
  ),
  provision(
    "R7: offers above the cap are tried after those within it",
    "sorted.filter((offer) => withinCap(spec, offer.priceMicro))",
    "sorted",
  ),
  single("held machine", "src/steps/rental/held-machine.ts", ["test/steps/billed.test.ts"])(
    "B1: a machine that no list shows counts at the price of one that has not run",
    "if (status.cheaper === true) await",
    "if (status.priceMicro === undefined) await",
  ),
  single("ledger", "src/engine/ledger.ts", ["test/engine/ledger.test.ts"])(
    "B1: time that nobody saw counts at the lower price",
    "price_micro: row.price_micro, spent_micro: microOf(spent)",
    "price_micro: Math.round(least), spent_micro: microOf(spent)",
  ),
  single("held machine", "src/steps/rental/held-machine.ts", ["test/steps/billed.test.ts"])(
    "R7: the billed price is not compared with the cap while the run goes on",
    'checkCap(provider, spec, known.priceOffered ? null : known.priceMicro, "svc releases it");',
    "",
  ),
  single("held machine", "src/steps/rental/held-machine.ts", ["test/steps/billed.test.ts"])(
    "R7: the billed price is not compared with the cap while the machine starts",
    'checkCap(provider, spec, status.priceMicro, "svc releases it");',
    "",
  ),
  sightings(
    "S1: any miss proves the end of a young machine",
    "if (madeAt === null || now - madeAt >= this.#lagMs) return null;",
    "return null;",
  ),
  sightings("S2: an accepted termination does not count", "if (seen && sighting.ending) return null;", ""),
  sightings(
    "S3: the first miss of a young machine that was seen proves its end",
    "if (now - sighting.missedAt >= MISSING_MS) return null;",
    "if (now >= (sighting.missedAt ?? now)) return null;",
  ),
  sightings("S3: a stored address does not count as seen", "|| handle.address !== null", ""),
  sightings(
    "S4: a young machine that nobody has seen is gone after a minute",
    'if (!seen && !sighting.ending) return "the provider does not show it yet";',
    "",
  ),
  sightings("S5: a connection that fails proves the end without a delay", "&& now - silence.since >= SILENT_MS", ""),
  sightings("S5: a single miss counts with a failed connection", "&& silence.misses >= SILENT_MISSES", ""),
  paging(
    "L1: a status other than 200 is a complete page",
    "if (status !== 200) signs.unclear.push(`status: ${status}`);",
    "",
  ),
  paging(
    "L1: an unclear sign counts as the end",
    'this.missing ??= this.#incomplete(`its answer holds "${signs.unclear[0]}", which may mean that there is more`);',
    "void 0;",
  ),
  paging(
    "L2: pages that repeat themselves end a complete list",
    "if (!isNew && (page.rows.length > 0 || leadsBack)) {",
    "if (!isNew && page.rows.length > 0) return null;\n      if (!isNew && leadsBack) {",
  ),
  paging(
    "L3: a list of several pages is read once",
    'pages.total === "untold" && before !== null && sameKeys(before, pages.rows)',
    'pages.total === "untold"',
  ),
  paging(
    "L3: a total that does not match counts",
    'this.#totals.size === 1 && Math.max(...this.#totals) <= this.rows.size ? "agrees" : "changed"',
    '"agrees"',
  ),
  paging(
    "L4: an incomplete list has no rows",
    "return { rows: [...shown.values()], missing: pages.missing };",
    "return { rows: [], missing: pages.missing };",
  ),
  billing(
    "B1: a machine is billed from its answer on",
    "(machine.released_at ?? now) - machine.created_at",
    "(machine.released_at ?? now) - (machine.held_at ?? machine.created_at)",
  ),
  billing(
    "B1: a released machine is billed on",
    "(machine.released_at ?? now) - machine.created_at",
    "now - machine.created_at",
  ),
  billing(
    "B2: an order without an answer costs nothing",
    "return rate === null ? null : orderedMicro(machine, rate, until);",
    "return rate === null ? null : 0 * orderedMicro(machine, rate, until);",
  ),
  billing(
    "B2: an order costs more than the budget gave to it",
    "most_micro ?? Infinity,",
    "Math.max(most_micro ?? 0, Infinity),",
    ["test/domain/unproven-orders.test.ts"],
  ),
  billing(
    "B3: a rate that is not reported is 0",
    "machine.order_micro ?? assumedMicro;\n}",
    "machine.order_micro ?? assumedMicro ?? 0;\n}",
  ),
  billing(
    "B3: a sum with an unknown part passes for the whole",
    "if (owed === null) isKnown = false;",
    "if (owed === null) spent += 0;",
  ),
  billing("B4: the minimum is not owed", "return Math.max(least, owed);", "return Math.max(0 * least, owed);"),
  limits("H1: a run that is let in takes nothing from the limits", "used = plus(used, claim);", ""),
  limits(
    "H2: a run that does not fit holds up those that do",
    "shortage === null && behind === null;",
    "shortage === null && behind === null && verdicts.every((one) => one.isIn);",
  ),
  limits("H3: younger runs pass for ever", "one.passes >= PASSES_MAX", "one.passes >= Infinity"),
  limits(
    "H4: a run that never fits blocks the others",
    "!one.isIn && !one.never && one.passes",
    "!one.isIn && one.passes",
  ),
  limits(
    "H5: an unknown claim counts as none",
    "before === null || needs === null || !(before + needs <= of)",
    "!((before ?? 0) + (needs ?? 0) <= of)",
  ),
  idleness("I1: a checkpoint is no work", 'busy(input.lastCheckpointAtMs, "a checkpoint changed");', ""),
  idleness(
    "I2: an unreadable sample counts as zero",
    'if (gpu === null && sample.cpu_cores === null) return "the use of CPU and GPU could not be read";',
    "",
  ),
  idleness(
    "I3: a gap in the samples is quiet",
    'if (nowMs - before > gapMs) busy(nowMs, "no sample has come since");',
    "",
  ),
  idleness(
    "I3: a gap between two samples is quiet",
    'if (sample.at_ms - before > gapMs) busy(sample.at_ms, "samples began again after a gap");',
    "",
  ),
  idleness("I5: a heartbeat is work for ever", "if (heartbeat) since =", "if (nowMs < 0) since ="),
  idleness(
    "I6: keystrokes are no work",
    "if (sample.terminal_idle_seconds !== null)",
    "if (sample.at_ms < 0 && sample.terminal_idle_seconds !== null)",
  ),
  idleness(
    "I7: one busy GPU of several is a stall",
    "known.some((util) => util < GPU_STALLED_PERCENT)",
    "known.every((util) => util < GPU_STALLED_PERCENT)",
  ),
  market("M1: one offer is rented twice by one process", "this.renting.add(offerId);", "", [
    "test/providers/market.test.ts",
  ]),
  market(
    "M2: a machine that a refused order made is forgotten",
    "throw id === null ? error : inVain(error, made(id));",
    "throw error;",
    ["test/providers/market.test.ts"],
  ),
  market(
    "M3: one listing proves the end of a machine",
    "const row = await this.secondLook(handle, signal);",
    "const row = null as InstanceRow | null;",
  ),
  market(
    "M3: the second look follows at once",
    "if (wait > 0) await this.options.pause(Math.min(wait, LOOKS_APART_MS), signal);",
    "",
  ),
  market(
    "M3: a young machine is gone like an old one",
    "const doubt = this.sightings.doubt(key, numberOf(handle.extra?.made_at), handle);",
    "const doubt = this.sightings.doubt(key, null, handle);",
    ["test/providers/young-machines.test.ts"],
  ),
  market(
    "P5: a machine's variables hold the key",
    "env: { SVC_MACHINE: name },",
    "env: { SVC_MACHINE: name, SVC_KEY: this.client.secret() },",
    ["test/providers/market.test.ts"],
  ),
  market(
    "P2: an incomplete listing proves an absence",
    'if (value.missing !== null) throw inPart(value.missing, owned, "anywhere");',
    "",
    ["test/providers/market-pages.test.ts"],
  ),
  refusals(
    "F1: a bad key means that a machine does not exist",
    "objectOf(answer) !== null && !isAboutKey(answer, refusal);",
    "objectOf(answer) !== null;",
    ["test/providers/market-machines.test.ts"],
  ),
  refusals("F2: any failed answer means that nothing was made", "(CLEAR.has(status) ||", "(status >= 400 ||"),
  refusals("F2: an order that was queued counts as refused", "if (refuses && !QUEUED.test(text)) {", "if (refuses) {"),
  single("market listing", "src/providers/market/shared-look.ts", ["test/providers/market-machines.test.ts"])(
    "L1: a running listing answers a caller who needs a fresh one",
    "ageMs > 0 && startedAt >= now - ageMs",
    "startedAt >= now - Math.max(ageMs, 60_000)",
  ),
  bid(
    "B2: a bid exceeds the cap",
    "Math.min(onDemandMicro, capMicro, MOST_MICRO)",
    "Math.min(onDemandMicro, Math.max(capMicro, MOST_MICRO))",
  ),
  bid(
    "B2: a bid exceeds the price on demand",
    "Math.min(onDemandMicro, capMicro, MOST_MICRO)",
    "Math.min(capMicro, MOST_MICRO)",
  ),
  podhost(
    "D1: one look proves the end of a pod",
    "if (look.askedAt < missedAt + LOOKS_APART_MS) {",
    "if (look.askedAt < 0) {",
  ),
  podhost(
    "D1: a pod is not looked up by its id",
    "const pod = inList ?? (await byId()) ?? null;",
    "const pod = inList ?? (byId === null ? null : null);",
  ),
  podhost(
    "D1: an incomplete list proves the end of a pod",
    "if (missing !== null && (pod === null || list.half)) throw missing;",
    "if (missing !== null && list.half) throw missing;",
    ["test/providers/podhost-pages.test.ts"],
  ),
  podhost(
    "D1: a young pod is gone like an old one",
    "this.#sightings.doubt(key, Number.isFinite(createdAt) ? createdAt : null, handle)",
    "this.#sightings.doubt(key, createdAt < 0 ? createdAt : null, handle)",
    ["test/providers/podhost-young.test.ts"],
  ),
  podhost(
    "D4: a pod with an unusable id is not ended",
    "const ids = handle.id === ODD_ID ? await this.#oddIds(handle.name, signal) : [handle.id];",
    "const ids = handle.id === ODD_ID ? [] : [handle.id];",
    ["test/providers/podhost-odd.test.ts"],
  ),
  podhost(
    "D2: a pod that a refused order made is not looked for",
    "if (pod !== null) return pod;",
    "if (pod !== null && sent < 0) return pod;",
    ["test/providers/podhost-refused.test.ts"],
  ),
  podhost(
    "D2: a refused order made nothing, although no list says so",
    "throw unclearRefusal(e);",
    "{\n          unclearRefusal(e);\n          return null;\n        }",
    ["test/providers/podhost-refused.test.ts"],
  ),
  podhost("D2: a refused order is sent without end", "const SENDINGS = 2;", "const SENDINGS = 2_000;", [
    "test/providers/podhost-refused.test.ts",
  ]),
  podhost(
    "D2: an order is sent again and again although earlier ones were made in spite of their refusals",
    "pods.length === 0 && earlier === undefined) return null;",
    "pods.length === 0) return null;",
    ["test/providers/podhost-refused.test.ts"],
  ),
  apis(
    "A3: REST takes over without having read its own list",
    "if (!isList && !hadAnswered) await this.#rest.list();",
    "void hadAnswered;",
    ["test/providers/podhost-both.test.ts"],
  ),
  apis(
    "A3: what fails at REST is not asked of GraphQL",
    "if (!(e instanceof SvcError)) throw e;\n      this.#restAnswered = false;",
    "if (!(e instanceof SvcError) || hadAnswered) throw e;\n      this.#restAnswered = false;",
    ["test/providers/podhost-both.test.ts"],
  ),
  apis(
    "A5: REST's list counts alone although it never showed a pod",
    "[...this.#graphqlShows].every((key) => this.#restHasShown.has(key))",
    "[...this.#graphqlShows].every((key) => key !== this.#restHasShown.size.toString())",
    ["test/providers/podhost-both.test.ts"],
  ),
  apis(
    "A5: REST alone ends a pod",
    'if (this.#mode() === "auto" && !this.#graphqlIsGone && (this.#restIsDue() || this.#pages !== null))',
    'if (this.#mode() !== "auto" && !this.#graphqlIsGone && (this.#restIsDue() || this.#pages !== null))',
    ["test/providers/podhost-both.test.ts"],
  ),
  apis(
    "A5: a pod that REST has ended is requested of GraphQL until GraphQL answers",
    "(rest.value || restCounts || this.#restKnowsAll())",
    "(rest.value || restCounts)",
    ["test/providers/podhost-both.test.ts"],
  ),
  apis(
    "A5: REST's list alone proves the end of a pod",
    "half: api === this.#rest && !this.#restCounts()",
    "half: api === this.#rest && this.#restCounts()",
    ["test/providers/podhost-both.test.ts"],
  ),
  apis(
    "A5: a list of GraphQL that fails proves the end of a pod",
    "this.#restCounts() || this.#restKnowsAll() ? null : e",
    "this.#restCounts() || this.#restKnowsAll() ? e : null",
    ["test/providers/podhost-both.test.ts"],
  ),
  apis(
    "A2: a bare page of a proxy ends GraphQL at once",
    "return pages.count >= PAGES.least && pages.lastAt - pages.firstAt >= PAGES.overMs;",
    "return pages.count > 0;",
    ["test/providers/podhost-both.test.ts"],
  ),
  apis(
    "A2: bare pages that came hours apart end GraphQL",
    "now - this.#pages.lastAt <= PAGES.apartMs",
    "now - this.#pages.lastAt < Infinity",
    ["test/providers/podhost-both.test.ts"],
  ),
  apis(
    "A2: bare pages count although another answer came between them",
    'sign === "page" ? { count: (before?.count ?? 0) + 1, firstAt: before?.firstAt ?? now, lastAt: now } : null;',
    'sign === "page" ? { count: (before?.count ?? 0) + 1, firstAt: before?.firstAt ?? now, lastAt: now } : before;',
    ["test/providers/podhost-both.test.ts"],
  ),
  apis(
    "A2: a GraphQL that only bare pages ended is never asked again",
    "now() < this.#pages.lastAt + PAGE_MS",
    "now() < this.#pages.lastAt + PAGES.apartMs",
    ["test/providers/podhost-both.test.ts"],
  ),
  apis(
    "A2: REST serves nothing while bare pages come from GraphQL",
    "now < this.#limitedUntil || this.#pageIsRecent();",
    "now < this.#limitedUntil;",
    ["test/providers/podhost-both.test.ts", "test/providers/podhost.test.ts"],
  ),
  apis(
    "A5: while bare pages come from GraphQL, REST alone is asked to end a pod",
    "(this.#restIsDue() || this.#pages !== null))",
    "this.#restIsDue() && this.#pages === null)",
    ["test/providers/podhost.test.ts"],
  ),
  apis(
    "D3: REST makes a second pod of the same name",
    "missing === null && !rows.some((pod) => pod.name === name)",
    "missing === null",
  ),
  apis("D3: an incomplete list of REST lets it make a second pod", "missing === null && !rows.some(", "!rows.some("),
  apis("A4: one failure keeps REST away for ten minutes", "REST_AGAIN_MS * 2 **", "40 * REST_AGAIN_MS * 2 **"),
  apis(
    "A3: an order goes through an API that never answered",
    "return this.#restAnswered ? this.#rest : this.#graphql;",
    "return this.#rest;",
  ),
  http(
    "H1: an answer may be a flood of lists",
    "const JSON_BOUNDS = { values: 1_000_000, depth: 64 };",
    "const JSON_BOUNDS = { values: 1_000_000_000, depth: 640 };",
    ["test/providers/http.test.ts"],
  ),
  http(
    "P1: a lost answer counts as a refusal",
    "if (error instanceof SvcError && (NOTHING_MADE.has(error.code) || !mayHaveBeenSent(error))) return error;",
    "if (error instanceof SvcError) return error;",
    ["test/providers/podhost-create.test.ts"],
  ),
  insert(
    "I1: an accepted request counts as a machine",
    'const failure = operation.status === "DONE" ? failureOf(operation) : null;',
    'const failure = operation.status === "" ? failureOf(operation) : null;',
  ),
  insert(
    "I2: a refusal after a lost answer counts as one",
    "else throw doubt === null ? refused : unknownOutcome(order, refused);",
    "else throw refused;",
  ),
  insert(
    "I3: a machine that a failed operation left is forgotten",
    "throw (await isAbsent(ports, order)) ? refusal : inVain(refusal, order.handleOf(made));",
    'throw (await isAbsent(ports, order)) || made.id !== "" ? refusal : inVain(refusal, order.handleOf(made));',
  ),
  cloudvm(
    "C2: a machine that is being made is gone",
    'if (making === "going on") return { phase: "starting", why: "the provider is still making it" };',
    "",
  ),
  cloudvm(
    "C2: not found proves the end of a young machine",
    "this.#sightings.doubt(key, Number.isFinite(madeAt) ? madeAt : null, handle)",
    "this.#sightings.doubt(key, madeAt < 0 ? madeAt : null, handle)",
  ),
  cloudvm(
    "C3: a machine without this installation's mark is listed as ours",
    "instance.name.startsWith(prefix) &&\n  (owner",
    "(owner",
  ),
  single("price", "src/domain/money.ts", ["test/domain/money.test.ts"])(
    "P4: a price that is no number counts",
    "!Number.isFinite(usd) || usd < 0 ||",
    "",
  ),
];
