// The cell that a user runs in a notebook so that svc can reach it, alone and as a whole notebook.

import { SvcError } from "../../errors/index.ts";
import { CELL } from "./cell.ts";

const KEY_LINE =
  /^((?:ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(?:256|384|521)|sk-[a-z0-9@.-]{1,60}) [A-Za-z0-9+/]{40,8192}={0,2})(?: .*)?$/;

const TERMS = `# Connect this runtime to svc

**Read the terms first.** Runtimes without paid compute units usually forbid SSH shells and being driven mainly from outside the
notebook. No tier allows file hosting, proxies, torrents, mining, attacks or several accounts to dodge limits. It is your account:
if your plan does not allow it, do not run the cell.

1. Choose a GPU runtime, then run the cell below. It installs an SSH daemon that only a tunnel can reach, lets in the one key of
   this installation of svc, and opens the tunnel with a token of your own, which it asks for. Never paste the token into the cell.
2. Give svc the line \`SVC-ENDPOINT …\` that it prints.
3. Keep the notebook open and in use; closing it ends the runtime. svc never ends it.
`;

/** The cell's source. `publicKey` is one line in the form of authorized_keys. Throws `ssh_key_unusable`. */
export function bootstrapCell(publicKey: string): string {
  const [, key] = KEY_LINE.exec(publicKey.trim()) ?? [];
  if (key === undefined)
    throw new SvcError("ssh_key_unusable", {
      path: "of this home",
      why: "its public half is not one line of a known kind",
    });
  // JSON in plain ASCII is a Python string, too.
  return CELL.replace("@PUBLIC_KEY@", () => JSON.stringify(`${key} svc`));
}

/** The same as a notebook, nbformat 4.0: the version that notebook sites write. */
export function bootstrapNotebook(publicKey: string): object {
  return {
    nbformat: 4,
    nbformat_minor: 0,
    metadata: {
      colab: { name: "svc-connect.ipynb", provenance: [], gpuType: "T4" },
      accelerator: "GPU",
      kernelspec: { name: "python3", display_name: "Python 3" },
      language_info: { name: "python" },
    },
    cells: [
      { cell_type: "markdown", metadata: { id: "svc-terms" }, source: linesOf(TERMS) },
      {
        cell_type: "code",
        execution_count: null,
        metadata: { id: "svc-connect", cellView: "form" },
        outputs: [],
        source: linesOf(bootstrapCell(publicKey)),
      },
    ],
  };
}

/** Both, for `GET /v1/notebook/bootstrap`. */
export const bootstrapOf = (publicKey: string): { cell: string; notebook: object } => ({
  cell: bootstrapCell(publicKey),
  notebook: bootstrapNotebook(publicKey),
});

/** Each line with its end, except the last. */
const linesOf = (text: string): string[] => text.trimEnd().split(/(?<=\n)/);
