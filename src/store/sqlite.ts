import { createRequire } from "node:module";
import type Database from "better-sqlite3";

/**
 * The SQLite library, for commands that may read a store. An import would load it with the program, before it is known
 * whether there is a store.
 */
export const sqlite = (): typeof Database => createRequire(import.meta.url)("better-sqlite3") as typeof Database;
