// Deliberate defects in the rules that keep what a run has made: its log, its checkpoints, the store, and what may be removed. Each is
// named by the head that states its invariant, and has the test files that must notice it.

import { forRule, single, type TestedMutant } from "./mutants.ts";

const logFiles = single("log writer", "src/engine/log-files.ts", ["test/engine/log-files.test.ts"]);
const database = single("database", "src/store/database.ts", ["test/store/database.test.ts"]);
const lock = single("home lock", "src/store/home-lock.ts", ["test/store/database.test.ts"]);
const engineStore = single("store", "src/store/engine-store.ts", ["test/engine/recovery.test.ts"]);
const removals = single("removals", "src/engine/removals.ts", ["test/engine/removals.test.ts"]);
const removalStore = single("removals", "src/store/removal-store.ts", ["test/engine/removals.test.ts"]);
const checkpoints = single("checkpoint removals", "src/engine/checkpoint-removals.ts", [
  "test/engine/checkpoint-removals.test.ts",
]);
const collector = single("collector", "src/steps/checkpoints/collector.ts", [
  "test/steps/checkpoints/collector.test.ts",
  "test/steps/checkpoints/unfinished-files.test.ts",
]);
const files = single("collector", "src/steps/checkpoints/files.ts", ["test/steps/checkpoints/collector.test.ts"]);
const retention = single("retention", "src/steps/checkpoints/retention.ts", [
  "test/steps/checkpoints/retention.test.ts",
]);
const sets = single("sets", "src/steps/checkpoints/sets.ts", ["test/steps/checkpoints/sets.test.ts"]);
const announcements = single("announcements", "src/steps/checkpoints/announcements.ts", [
  "test/steps/checkpoints/announcements.test.ts",
  "test/steps/checkpoints/sets.test.ts",
]);
const unfinished = single("unfinished files", "src/steps/checkpoints/unfinished-files.ts", [
  "test/steps/checkpoints/unfinished-files.test.ts",
]);
const late = single("late parts", "src/steps/checkpoints/late-parts.ts", ["test/steps/checkpoints/late-parts.test.ts"]);
const earlier = single("earlier files", "src/steps/checkpoints/earlier-files.ts", [
  "test/steps/checkpoints/kept-at-home.test.ts",
]);
const resume = single("resume", "src/steps/checkpoints/resume.ts", ["test/steps/checkpoints/resume.test.ts"]);
const named = single("named files", "src/steps/checkpoints/named-files.ts", [
  "test/engine/checkpoint-removals.test.ts",
]);
const versions = single("old snapshots", "src/machines/versions.ts", ["test/machines/versions.test.ts"]);

export const DATA_MUTANTS: readonly TestedMutant[] = [
  logFiles("L1: the text is counted before it is on the disk", "await handle.datasync();", ""),
  logFiles(
    "L2: a write continues where the file ends",
    "constants.O_RDWR | constants.O_CREAT",
    "constants.O_RDWR | constants.O_CREAT | constants.O_APPEND",
    ["test/engine/run-log-writer.test.ts"],
  ),
  {
    name: "log writer L3: a part that arrives again is counted again",
    patches: [
      {
        file: "src/engine/run-log-writer.ts",
        find: "if (!this.#rows.moveCursor(at, from, to)) throw movedOn(jobId);",
        replace: "this.#rows.moveCursor(at, from, to);",
      },
      {
        file: "src/engine/run-log-writer.ts",
        find: "if (at.sourceOffset !== from.sourceOffset || at.samplesOffset !== from.samplesOffset) throw movedOn(jobId);",
        replace: "",
      },
    ],
    tests: ["test/engine/run-log-writer.test.ts"],
  },
  database(
    "D1: a used home without its database begins anew",
    "if (used) mayBeginAgain(home, options.newStore === true);",
    "",
  ),
  database(
    "D1: a new store is made next to a part of the old one",
    'if (!isRequested || ["-wal", "-shm"].some((suffix) => existsSync(file + suffix)))',
    "if (!isRequested)",
  ),
  database(
    "D1: a new store is made for a new installation",
    "if (installationFrom(homeLayout.installation(home)) !== null) return;",
    "return;",
  ),
  database("D1: a young store is only in its log", "if (version < latest) foldLog(db);", ""),
  logFiles(
    "L5: a file that has lost its name is written on",
    "if (now !== null && identityOf(now) === (await file.identity)) {",
    "if (now !== null) {",
    ["test/engine/run-log-writer.test.ts"],
  ),
  {
    name: "database D1: an empty file counts as a new store",
    patches: [
      {
        file: "src/store/database.ts",
        find: "} else if (used && statSync(file).size === 0) {",
        replace: "} else if (used && statSync(file).size < 0) {",
      },
      {
        file: "src/store/database.ts",
        find: "if (version === 0 && !used) return;",
        replace: "if (version === 0) return;",
      },
    ],
    tests: ["test/store/database.test.ts"],
  },
  database(
    "D2: a store of a newer program is opened",
    'if (version > latest) throw new SvcError("store_newer", { file });',
    "",
  ),
  database("D3: a migration makes no copy", "if (from > 0) await backUp(db, home, from);", "", [
    "test/store/migration.test.ts",
  ]),
  database("D4: the write-ahead log keeps its mode", "  tightenModes(file);\n    const row", "  const row"),
  database("D4: the home keeps its mode", "if ((stat.mode & 0o077) !== 0) chmodSync(home, 0o700);", ""),
  lock("D5: two control planes share a home", 'db.exec("BEGIN EXCLUSIVE");', 'db.exec("BEGIN");'),
  engineStore(
    "S2: a job's row is written over a newer one",
    '.where("seq", "=", p("expected"))',
    '.where("seq", ">=", p("expected"))',
  ),
  removals("RM3: a run that goes on is removed", 'if (row.state !== "terminal") refuse("it has not ended");', ""),
  removals(
    "RM3: a run whose machine may cost money is removed",
    "if (owed) refuse(",
    'if (owed && jobId === "") refuse(',
  ),
  removals(
    "RM3: a run that a live one resumes from is removed",
    "if (heir !== undefined) refuse(",
    'if (heir !== undefined && jobId === "") refuse(',
  ),
  removals(
    "RM3: a run whose files are still being copied is removed",
    "if (sink) refuse(",
    'if (sink && jobId === "") refuse(',
  ),
  removals(
    "RM3: a run that a submission is about to choose is removed",
    'if (claims.isClaimed(jobId)) refuse("a run that is being submitted resumes from it");',
    "",
  ),
  removals(
    "RM4: files are deleted before the removal is durable",
    "const bytes = await diskUsage(home, jobId);",
    "const bytes = await diskUsage(home, jobId);\n    for (const path of pathsOfRun(home, jobId)) await rm(path, { recursive: true, force: true });",
  ),
  removals(
    "RM6: a failed deletion is not tried again",
    "for (const jobId of again) await this.#finish(jobId);",
    "void again;",
  ),
  removalStore(
    "RM1: the machines of a removed run are forgotten",
    '"notify_message",\n];',
    '"notify_message",\n  "machine",\n];',
  ),
  checkpoints(
    "CR1: a checkpoint that a live run has received is removed",
    "for (const refusal of heirs.values()) if (refusal) throw notRemovable(jobId, refusal);",
    "",
  ),
  checkpoints(
    "CR1: a run that began meanwhile is not looked at",
    "if (liveHeirs(engine.store, jobId).some((id) => !heirs.has(id))) return false;",
    "",
  ),
  checkpoints("CR1: a checkpoint that a sink still copies is removed", "this.#checkSinks(jobId, names, nodes);", ""),
  checkpoints(
    "CR1: a part of a complete checkpoint is removed",
    "if (part !== undefined)\n        throw notRemovable(",
    'if (part === "")\n        throw notRemovable(',
  ),
  checkpoints(
    "CR2: a removal is not recorded before the first file is deleted",
    "this.#rows.begin({ job_id: jobId, name }, placesOnNodes(name, nodes), tx.at);",
    "",
  ),
  checkpoints("CR2: a start does not continue a removal", "void this.retry();\n    every(", "every("),
  checkpoints(
    "CR3: a repeated removal is an error",
    "!names.includes(name) && !this.#rows.knows({ job_id: jobId, name })",
    "!names.includes(name)",
  ),
  checkpoints("CR4: two removals run at once", "const turn = this.#last.then(work);", "const turn = work();"),
  named("NF2: a deletion follows a symlink", "if (!(await isStraight(place.home, target))) {", 'if (target === "") {'),
  collector(
    "K1: a file counts as settled at once",
    "const settled = now - entry.sinceMs >= SETTLE_MS;",
    "const settled = now >= entry.sinceMs;",
  ),
  files(
    "K1: a file that was replaced by one of the same size and time counts as unchanged",
    "a.mtimeMs === b.mtimeMs && a.inode === b.inode",
    "a.mtimeMs === b.mtimeMs",
  ),
  collector(
    "K2: files that changed lately stay behind at the end",
    "} else if (final || settled || isAsAnnounced(",
    "} else if (settled || isAsAnnounced(",
  ),
  collector(
    "K3: a file that changed during its download is moved into place",
    "if (current === undefined || !same(current, file)) {",
    "if (current === undefined) {",
  ),
  files(
    "K3: a short download counts as complete",
    "if (!stats?.isFile() || stats.size !== file.size) return false;",
    "if (!stats?.isFile()) return false;",
  ),
  files(
    "K4: a local copy has the time of its download",
    "await handle.utimes(file.mtimeMs / 1_000, file.mtimeMs / 1_000);",
    "",
  ),
  collector(
    "K5: a symlink's target is downloaded again",
    "if (leadsTo === undefined || !(await",
    'if (leadsTo !== "" || !(await',
  ),
  files(
    "K6: a symlink in the way of a folder is followed",
    "if (!(await lstat(folder)).isDirectory()) {",
    'if (folder === "") {',
  ),
  files("K6: other users can read a checkpoint", "await handle.chmod(0o600);", "await handle.chmod(0o644);"),
  single("collector", "src/steps/checkpoints/names.ts", ["test/steps/checkpoints/collector.test.ts"])(
    "K6: a path that leads out of its folder is written",
    'if (names.some((name) => name === "" || name === "." || name === "..")) return "its path is not plain and relative";',
    "",
  ),
  collector("K8: the last scan gives up although space can become free", "if (full) throw full;", ""),
  retention("KC1: the newest complete checkpoint is removed", "if (newest) stays.add(newest);", ""),
  retention(
    "KC1: one without a value is removed",
    "if (values.get(one) === null && last === undefined) stays.add(one);",
    "if (values.get(one) === null && last === 0) stays.add(one);",
  ),
  retention(
    "KC3: a removal is not recorded",
    "replaceFile(join(this.#targetDir, DROPPED), JSON.stringify([...this.#dropped.values()]));",
    "",
  ),
  retention(
    "KC3: a version that is saved under the same name is removed, too",
    "for (const [path, { name }] of this.#dropped) if (saved.has(name)) this.#dropped.delete(path);",
    "",
  ),
  retention(
    "KC7: a checkpoint is removed that a sink has not copied",
    "const uncopied = surplus.length === 0 ? [] : this.#rules.uncopied();",
    "const uncopied = surplus.length >= 0 ? [] : this.#rules.uncopied();",
  ),
  retention(
    "KC6: `rotation: follow` removes what an earlier machine saved",
    "(this.#seen.has(name) || !this.#rules.isEarlier(files.map(({ path }) => path)))",
    "files.length > 0",
  ),
  sets("U1: a set that was downloaded in part is kept", "if (!(await areAll(files, isHere))) continue;", ""),
  sets(
    "U2: any change of a set makes it complete",
    "return now.size !== then?.size || now.mtimeMs !== then.mtime_ms;",
    "return now.size !== then?.size || true;",
  ),
  sets(
    "AN2: a folder that was written again after its announcement is kept",
    "if (!script.hasSucceeded && this.#isTorn(name, files, kept, known)) {",
    "if (!script.hasSucceeded && this.#isTorn(name, [], kept, known) && files.length < 0) {",
  ),
  announcements(
    "AN2: a later mark of a framework says nothing",
    "complete.markedAt > complete.announcedAt",
    "complete.markedAt < 0",
  ),
  announcements(
    "AN2: a newer file in the first listing counts as added",
    "if (isNewer(now, at)) replaced.push(now);",
    "if (isNewer(now, at)) continue;",
  ),
  announcements(
    "AN2: a file with an older time replaces another one unnoticed",
    "else if (!isMarked && !same(now, file)) return true;",
    "",
  ),
  announcements(
    "AN2: a file that is removed does not matter",
    "if (now === undefined) return true;",
    "if (now === undefined) continue;",
  ),
  announcements(
    "AN4: an announcement is about the files of every machine",
    "(placements.get(name) ?? present) === present",
    "(placements.get(name) ?? present) > 0",
  ),
  announcements(
    "AN2: the next save is taken for a late part",
    "return replaced.some(isNext) || (replaced.length > 0 && !seen.hasRested);",
    "return isNext.length > 1 || (replaced.length > 0 && !seen.hasRested);",
  ),
  unfinished(
    "UF1: a truncated file is complete",
    "(isTruncated || this.#isWritten(file, evidence))",
    "this.#isWritten(file, evidence)",
  ),
  unfinished(
    "UF1: a file that was written after its announcement is complete",
    "(isTruncated || this.#isWritten(file, evidence))",
    "isTruncated",
  ),
  unfinished("UF1: such a file rests after the end of its script", "hasEnded || restedMs < REST_MS", "restedMs < 0"),
  unfinished(
    "UF1: a file that is written once more rests, too",
    "if (first !== undefined && !same(first, file)) return true;",
    "",
  ),
  unfinished("AN4: the lost machine has announced the next one's file", "if (isAnnouncedEarlier) return true;", ""),
  late(
    "LP1: a late part is not part of the checkpoint",
    "return newer.every(",
    "return newer.length > 1e9 && newer.every(",
  ),
  late(
    "LP1: the beginning of the next save is a late part",
    "!before.has(file.path) || older?.has(file.path) === true",
    "!before.has(file.path) || older?.has(file.path) !== undefined",
  ),
  late(
    "LP1: a late part may come again",
    "(isNext || older?.has(file.path) === true)",
    "(isNext || older?.has(file.path) !== undefined)",
  ),
  late("LP1: a late part may come at any time", "!isNewer(file, announcedAt + LATE_MS) &&", ""),
  late(
    "LP2: what was removed goes from the kept version",
    "kept.files.some(({ path }) => !paths.has(path))",
    "kept.files.length === 0",
  ),
  forRule(
    "src/steps/checkpoints/unfinished-files.ts UF2",
    collector("UF2: the complete file goes", "if (isUnfinished) await this.#growing.begins(file);", ""),
  ),
  announcements(
    "AN1: an announcement covers newer files",
    "names.has(place) && !isNewer(",
    "names.has(place) || !isNewer(",
  ),
  announcements(
    "AN2: a file that was only added counts as overwritten",
    "isNewer(file, at) && members.has(file.path)",
    "isNewer(file, at)",
  ),
  announcements("AN2: a folder rests after the end of its script", "if (isRunning) seen", "seen"),
  announcements(
    "AN3: an announcement without a time covers nothing",
    "at !== undefined && file.mtimeMs > at + ROUNDING_MS",
    "at === undefined || file.mtimeMs > at + ROUNDING_MS",
  ),
  sets(
    "U2: a set is complete only once",
    "if (announced > (kept?.announced ?? 0)) return true;",
    "if (kept === null && announced > 0) return true;",
  ),
  sets(
    "U3: files of an earlier save stay",
    "if (kept !== null) stale.push(...(await this.#removeStale(kept, files, announced)));",
    "",
    ["test/steps/checkpoints/retention.test.ts"],
  ),
  sets(
    "U3: a checkpoint inside of a folder that is saved again is removed with it",
    "|| (await this.#isBelowAnother(path, before.name))) continue;",
    ") continue;",
    ["test/steps/checkpoints/kept-at-home.test.ts"],
  ),
  sets(
    "U3: checkpoints that TensorFlow has removed on the machine are removed here",
    "if (!this.#hasRules && marksIn(names).includes(TF_STATE)) return [];",
    "",
    ["test/steps/checkpoints/kept-at-home.test.ts"],
  ),
  earlier(
    "EF1: a file of an earlier machine is replaced",
    "(await lstat(join(this.#targetDir, name)).catch(nullIfMissing)) === null",
    "(await lstat(join(this.#targetDir, name)).catch(nullIfMissing)) !== null",
  ),
  earlier(
    "EF2: a file that the new one continues gets a second name",
    "if (await beginsWith(beside, join(this.#targetDir, path), there.size)) return [];",
    "await beginsWith(beside, join(this.#targetDir, path), there.size);",
  ),
  earlier("EF3: a folder of an earlier machine goes", "if (there?.isDirectory()) {", "if (there?.isBlockDevice()) {"),
  earlier("EF3: a file goes where a folder is needed", "if (inTheWay?.isFile())", "if (inTheWay?.isBlockDevice())"),
  resume(
    "F1: a torn file counts as a checkpoint",
    "if (!(await areWhole(direct)) || !(await haveShards(direct))",
    "if (!(await haveShards(direct))",
  ),
  resume(
    "F1: a set with a missing shard counts",
    "if (!(await areWhole(direct)) || !(await haveShards(direct))",
    "if (!(await areWhole(direct))",
  ),
  resume(
    "F1: half a set counts",
    "if (await knowsSets(checkpoints)) await onlyKept(checkpoints, byName, announced);",
    "",
    ["test/steps/checkpoints/sets.test.ts"],
  ),
  resume(
    "F1: a checkpoint that is being removed counts",
    "if ([...parentsOf(name), name].some((place) => removed.has(place))) byName.delete(name);",
    "",
    ["test/engine/checkpoint-removals.test.ts"],
  ),
  resume(
    "F2: a chosen checkpoint of another length is used",
    "if ((await lstat(name)).size !== size) throw gone(resume);",
    "",
    ["test/steps/checkpoints/sets.test.ts"],
  ),
  forRule(
    "src/steps/checkpoints/resume.ts F4",
    single("resume", "src/domain/newest-first.ts", [
      "test/steps/checkpoints/retention.test.ts",
      "test/steps/checkpoints/resume.test.ts",
    ])(
      "F4: the clocks of two machines are compared",
      "b.placement - a.placement || b.at - a.at",
      "b.at - a.at || b.placement - a.placement",
    ),
  ),
  resume("F3: a resumed run without a checkpoint has none", "next = left.resumedFrom;", "next = undefined;"),
  versions("V3: a snapshot of a newer program is loaded", "if (version > latest)", "if (version > Infinity)"),
];
