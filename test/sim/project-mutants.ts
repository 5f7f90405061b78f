// Deliberate defects in the rules about a project: which files belong to it, how they are kept, compared and restored, and how its
// dependencies are found. Each is named by the head that states its invariant, and has the tests that must notice it.

import { single, type TestedMutant } from "./mutants.ts";

const SNAPSHOT = ["test/files/code-snapshot.whole.test.ts"];
const LISTING = ["test/files/project-listing.test.ts"];

const kinds = single("code or data", "src/files/code/code-or-data.ts", ["test/files/code-or-data.test.ts"]);
const snapshot = single("snapshot", "src/files/code/code-snapshot.ts", SNAPSHOT);
const garbage = single("garbage", "src/files/code/collect-garbage.ts", ["test/files/collect-garbage.whole.test.ts"]);
const diff = single("diff", "src/files/code/diff.ts", ["test/files/code-diff.whole.test.ts"]);
const restore = single("restore", "src/files/code/restore-code.ts", ["test/files/restore-code.test.ts"]);
const data = single("data", "src/files/data/scan.ts", ["test/files/data.test.ts"]);
const install = single("install", "src/files/install/install-recipe.ts", ["test/files/install-recipe.test.ts"]);
const git = single("git", "src/files/listing/ask-git.ts", LISTING);
const project = single("project", "src/files/listing/project-files.ts", SNAPSHOT);
const listing = single("listing", "src/files/listing/project-listing.ts", LISTING);
const repository = single("repository", "src/files/listing/repository-files.ts", LISTING);

export const PROJECT_MUTANTS: readonly TestedMutant[] = [
  kinds("T1: a large file is code", "size > CODE_BYTES_MAX || DATA_ENDINGS", "size < 0 || DATA_ENDINGS"),
  kinds(
    "T1: a format for data is code",
    "size > CODE_BYTES_MAX || DATA_ENDINGS",
    "size > CODE_BYTES_MAX && DATA_ENDINGS",
  ),
  kinds("T2: copies have no bound", "&& copied + size <= COPIED_BYTES_MAX", "&& copied + size <= Infinity"),
  kinds("T3: a large data file is hashed", "size > HASHED_BYTES_MAX || hashed", "size > Infinity || hashed"),
  kinds("T3: hashing has no bound", "hashed + size > HASHED_IN_ALL_MAX", "hashed + size > Infinity"),
  snapshot(
    "C1: a content is written under its final name",
    "await write(beside);\n    await rename(beside, path);",
    "await write(path);",
  ),
  snapshot(
    "C2: the id of a snapshot has its time",
    'const id = hash("sha256", canonical, "hex").slice(0, ID_CHARS);',
    'const id = hash("sha256", `${canonical} ${performance.now()}`, "hex").slice(0, ID_CHARS);',
  ),
  snapshot(
    "C3: changed content is sent",
    'if (hash("sha256", bytes, "hex") !== file.sha256) throw damaged(id, file, "has changed");',
    "",
  ),
  snapshot("C4: a tree for sending costs a copy", "return linkSync(blob, path);", "copyFileSync(blob, path);"),
  garbage(
    "G1: what a submission holds is deleted",
    "for (const hold of store.holds) for (const name of hold) used.add(name);",
    "",
  ),
  garbage("G2: a hold that was taken later does not count", "for (const seen of store.collecting) seen.add(name);", ""),
  garbage(
    "G3: a turn of the event loop passes between looking and deleting",
    "if (used.has(id)) return null;\n      return unlinked(join(folder, name), deleteNow);",
    "if (used.has(id)) return null;\n      await setImmediate();\n      return unlinked(join(folder, name), deleteNow);",
  ),
  garbage(
    "G4: a manifest that cannot be read names nothing",
    "return `the manifest ${manifest} of a run cannot be read, so the contents that it needs are unknown`;",
    "return null;",
  ),
  diff(
    "F1: a rename is a removal and an addition",
    "byContent.get(after.sha256)?.shift()",
    "byContent.get(after.path)?.shift()",
  ),
  diff(
    "F2: bytes are compared as no text",
    'const now = after ? decodedText(await to.read(after)) : "";',
    'const now = after ? (decodedText(await to.read(after)) ?? "") : "";',
  ),
  diff("F3: a large file is compared line by line", "> TEXT_BYTES_MAX)", "> Infinity)"),
  diff(
    "F4: a patch has no bound",
    "change.note === ONLY_RECORDED || bytes > bytesLeft",
    "change.note === ONLY_RECORDED",
  ),
  restore(
    "R1: a refused restore has written some",
    "if (different.length > 0 && !force)",
    "if (different.length < 0 && !force)",
  ),
  {
    name: "restore R2: a symlink below the folder is followed",
    patches: [
      {
        file: "src/files/code/restore-code.ts",
        find: "return await lstat(join(root, path));",
        replace: "return await stat(join(root, path));",
      },
      {
        file: "src/files/code/restore-code.ts",
        find: "realpath, rename, rm } from",
        replace: "realpath, rename, rm, stat } from",
      },
      { file: "src/files/code/restore-code.ts", find: "link, lstat, mkdir,", replace: "link, mkdir," },
    ],
    tests: ["test/files/restore-code.test.ts"],
  },
  restore(
    "R3: a file appears without its mode",
    'await chmod(beside, (file.mode === "executable" ? 0o777 : 0o666) & ~givenUmask());',
    "await chmod(beside, 0o666 & ~givenUmask());",
  ),
  restore(
    "R4: an unreadable path counts as absent",
    "throw refuse(root, `${path} cannot be looked at (${systemCode(cause)})`, cause);",
    "return null;",
  ),
  data(
    "D1: a pipe is left out without a word",
    'else this.leftOut.push({ path: inside, why: "it is neither a file nor a folder" });',
    "",
  ),
  data(
    "D2: a symlink that leaves the folder is followed",
    "else if (!inside && !this.#options.followLinks)",
    "else if (!inside && this.#options.followLinks)",
  ),
  data(
    "D3: a symlink to the folder itself is followed",
    "else if (within.chain.some(",
    "else if (within.chain.slice(1).some(",
  ),
  data(
    "D4: a folder of keys is data",
    "else if (NEVER.includes(entry.name))",
    'else if (path === "" && NEVER.includes(entry.name))',
  ),
  data("D5: an unreadable symlink counts as absent", "else this.problems.push({ path, why: whyNot(cause) });", ""),
  install(
    "I1: a pyproject.toml that only configures tools is installed",
    "if (isPackage) add(projectStep(folder, file,",
    'if (isPackage || file === "pyproject.toml") add(projectStep(folder, file,',
  ),
  install("I2: other files count beside a lock file", "decides`);\n    return found;", "decides`);"),
  install(
    "I3: the folder of the script counts before the project",
    'return ["", ...parts.map((_, i) => parts.slice(0, i + 1).join("/"))];',
    'return [...parts.map((_, i) => parts.slice(0, i + 1).join("/")), ""];',
  ),
  install(
    "I4: a path that is not sent is installed",
    'if (path.startsWith("/") || inner.startsWith("..") || !isThere)',
    'if (inner === "" && !isThere)',
  ),
  {
    name: "git A2: the repository of another user is refused",
    patches: [
      { file: "src/files/listing/ask-git.ts", find: '"-c", "safe.directory=*", ...args', replace: "...args" },
      {
        file: "src/files/listing/ask-git.ts",
        find: 'if (/dubious ownership|unsafe repository/.test(words)) return { kind: "owner", why };',
        replace: "",
      },
    ],
    tests: LISTING,
  },
  git(
    "A4: an incomplete answer is used",
    'words.split("\\n").find((line) => isUnreadRules(line));',
    'words.split("\\n").find((line) => line === "" && isUnreadRules(line));',
  ),
  project(
    "P4: the home of the user is a project",
    "if (user !== null && isWithin(real, await realOrSame(user)))",
    "if (user !== null && isWithin(real, await realOrSame(user)) && real !== user)",
  ),
  project(
    "P4: the home of svc is a project",
    "if (isWithin(real, home) || isWithin(home, real))",
    "if (isWithin(real, home) && isWithin(home, real))",
  ),
  listing(
    "P1: a .svcignore leaves nothing out",
    "if (said === true) return { out: entry(WHY.svcignore, false), outUntracked: null };",
    "",
    SNAPSHOT,
  ),
  listing(
    "P2: a .svcignore includes a folder of keys",
    "if (never.decide(full, isFolder))",
    "if (never.decide(full, isFolder) && decideBy(frames, path, isFolder) !== false)",
    SNAPSHOT,
  ),
  listing(
    "P3: a symlink includes a file that git ignores",
    "else if (!holds(taken, target)) this.leave(path, leftOutTarget(target), true);",
    "",
  ),
  listing(
    "P5: a file that is missing is not reported",
    "for (const { path, why } of set.missing) listing.leave(path, why, true);",
    "",
  ),
  repository(
    "B1: without git no repository is listed",
    'if (kind === "broken" || (kind === "no-repository" && wasRepository(top))) throw cause;',
    'if (kind !== "owner" || wasRepository(top)) throw cause;',
  ),
  repository(
    "B2: a submodule sends nothing",
    "if (this.#isCheckedOut(inside)) await this.#enter(inside);",
    'if (this.#isCheckedOut(inside) && inside === "") await this.#enter(inside);',
  ),
  repository(
    "B3: the files of a broken repository are guessed",
    'if (kind === "broken" || (kind === "no-repository" && wasRepository(top))) throw cause;',
    'if (kind === "no-repository" && wasRepository(top)) throw cause;',
  ),
];
