// Checks the home of svc: its owner, its file system, its free space, and its key.

import { accessSync, constants, existsSync, lstatSync, realpathSync, statfsSync, statSync } from "node:fs";
import { dirname, sep } from "node:path";
import { bytes } from "../../../domain/bytes.ts";
import { homeLayout } from "../../../platform/home-layout.ts";
import { fail, ok, warn, type Check } from "./check.ts";
import { systemCode, messageOf } from "../../../errors/index.ts";
import { knownUserHome } from "../../../platform/user-home.ts";

/** The SSH key for machines of providers without their own key setting. */
export function machineKey(home: string): Check {
  const path = homeLayout.sshKey(home);
  if (!existsSync(path)) return ok("machine key", `${path} (created when the first machine is rented)`);
  return statSync(path).mode & 0o077
    ? warn("machine key", `${path} is readable by other users`, `Run \`chmod 600 ${path}\`.`)
    : ok("machine key", path);
}

export async function homeFolder(home: string): Promise<Check> {
  const remedy = "Set SVC_HOME to a folder that you own and can write to.";
  try {
    const stat = lstatSync(existsSync(home) ? realpathSync(home) : home);
    if (!stat.isDirectory()) return fail("home", `${home} is not a folder`, remedy);
    if (process.getuid && stat.uid !== process.getuid()) return fail("home", `${home} belongs to another user`, remedy);
    accessSync(home, constants.R_OK | constants.W_OK | constants.X_OK);
    const mode = stat.mode & 0o777;
    if (mode & 0o022)
      return fail(
        "home",
        `${home} is writable by other users (mode ${mode.toString(8)})`,
        `Run \`chmod 700 ${home}\`.`,
      );
    if (mode & 0o077)
      return warn(
        "home",
        `${home} is readable by other users (mode ${mode.toString(8)})`,
        `Run \`chmod 700 ${home}\`.`,
      );
    return ok("home", home);
  } catch (e) {
    if (systemCode(e) !== "ENOENT") return fail("home", `${home}: ${messageOf(e)}`, remedy);
  }
  try {
    accessSync(nearestFolder(home), constants.W_OK | constants.X_OK);
    return ok("home", `${home} (created at the first start)`);
  } catch {
    return fail("home", `${home} cannot be created`, remedy);
  }
}

function nearestFolder(path: string): string {
  let at = path;
  while (!existsSync(at) && dirname(at) !== at) at = dirname(at);
  return at;
}

const NETWORK_TYPES = new Map([
  [0x6969, "NFS"],
  [0xff534d42, "CIFS"],
  [0xfe534d42, "SMB"],
  [0x517b, "SMB"],
  [0x65735546, "FUSE"],
  [0x01021997, "9P"],
  [0x00c36400, "Ceph"],
  [0x47504653, "GPFS"],
  [0x0bd00bd0, "Lustre"],
]);
const SYNCED =
  /^(dropbox( .*)?|onedrive( .*)?|google drive|googledrive|my drive|icloud drive|mobile documents|cloudstorage|nextcloud|owncloud|seafile|syncthing|pcloud ?drive|mega)$/i;

export async function placeOfHome(home: string): Promise<Check> {
  const at = realpathSync(nearestFolder(home));
  const synced = at.split(sep).find((part) => SYNCED.test(part));
  if (synced)
    return warn(
      "home place",
      `${at} is in the synced folder ${synced}`,
      "Set SVC_HOME to a folder that is not synchronised: a sync program can corrupt the store.",
    );
  let type: string | undefined;
  try {
    type = process.platform === "linux" ? NETWORK_TYPES.get(statfsSync(at).type >>> 0) : undefined;
  } catch {
    type = undefined;
  }
  if (type)
    return warn(
      "home place",
      `${at} is on a ${type} file system`,
      "Set SVC_HOME to a folder on a local disk: file locks and the store's journal are not reliable on a network file system.",
    );
  return ok("home place", at === knownUserHome() ? "your home folder" : "a local folder");
}

export async function disk(home: string): Promise<Check> {
  const s = statfsSync(nearestFolder(home));
  const free = s.bavail * s.bsize;
  if (free < 50 * 1024 ** 2) return fail("disk", `${bytes(free)} free`, "Free some space for logs and checkpoints.");
  return free < 1024 ** 3
    ? warn("disk", `${bytes(free)} free`, "Free some space: checkpoints are large.")
    : ok("disk", `${bytes(free)} free`);
}
