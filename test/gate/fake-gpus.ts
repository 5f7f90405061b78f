// Fake GPUs for machines without real ones: an nvidia-smi, a CUDA driver library and a torch whose answers the test
// sets. The product does not know about them; a machine finds them by the variables that `env` adds to its sessions.

import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";

export interface FakeGpu {
  name: string;
  memory_mib: number;
  free_mib?: number;
  uncorrected?: number;
  remapping?: "ok" | "pending" | "failed";
}

const RTX4090: FakeGpu = { name: "NVIDIA GeForce RTX 4090", memory_mib: 24_564 };

/** cuInit returns the number in the file; if the file holds `hang`, cuInit waits for ever. */
const LIBCUDA = `#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static int value(const char *name, int otherwise) {
  char path[4096], text[64] = "";
  snprintf(path, sizeof path, "%s/%s", getenv("FAKE_GPUS"), name);
  FILE *f = fopen(path, "r");
  if (!f) return otherwise;
  if (!fgets(text, sizeof text, f)) text[0] = 0;
  fclose(f);
  if (!strncmp(text, "hang", 4)) for (;;) pause();
  if (!strncmp(text, "crash", 5)) abort();
  return atoi(text);
}
int cuInit(unsigned flags) { return value("cuinit", 0); }
int cuDriverGetVersion(int *version) { *version = value("cuversion", 12080); return 0; }
int cuDeviceGetCount(int *count) { *count = value("cucount", 1); return 0; }
int cuGetErrorName(int code, const char **name) { *name = code == 999 ? "CUDA_ERROR_UNKNOWN" : "CUDA_ERROR"; return 0; }
`;

/**
 * Has only the functions that the gate's test calls. Products are right and immediate unless the test says otherwise.
 */
const TORCH = `import json, os, time
_told = json.load(open(os.path.join(os.environ["FAKE_GPUS"], "torch.json")))
bfloat16 = "bf16"
class Tensor:
    def __init__(self, value=0.0):
        self.value = value
    def __matmul__(self, other):
        return self
    def __eq__(self, other):
        return Tensor(self.value == other)
    def all(self):
        return self.value
randn = lambda *size, **how: Tensor()
eye = lambda n, **how: Tensor()
full = lambda size, value, **how: Tensor(value)
equal = lambda a, b: _told["right"]
def mm(a, b, out):
    time.sleep(_told["mm_seconds"])
`;
const TORCH_CUDA = `from .. import _told
device_count = lambda: _told["count"]
get_device_capability = lambda i: (8, 9)
get_device_name = lambda i: _told["name"]
synchronize = lambda i: None
`;
const TORCH_NCCL = `from .. import _told
def all_reduce(parts):
    if _told["nccl_error"]:
        raise RuntimeError(_told["nccl_error"])
    total = sum(i + 1 for i in range(len(parts)))
    for part in parts:
        part.value = total if _told["sum_right"] else total + 1
`;

export interface FakeTorch {
  count?: number;
  name?: string;
  cuda?: string | null;
  right?: boolean;
  mm_seconds?: number;
  sum_right?: boolean;
  nccl_error?: string;
}

export class FakeGpus {
  readonly folder = mkdtempSync(join(tmpdir(), "svc-gpus-"));
  readonly #bin = join(this.folder, "bin");
  readonly #lib = join(this.folder, "lib");
  readonly #packages = join(this.folder, "packages");

  constructor(gpus: readonly FakeGpu[] = [RTX4090]) {
    for (const folder of [this.#bin, this.#lib, this.#packages]) mkdirSync(folder);
    this.show(gpus);
  }

  get env(): Record<string, string> {
    return {
      PATH: [this.#bin, ...(process.env["PATH"] ?? "/usr/bin:/bin").split(delimiter)].join(delimiter),
      LD_LIBRARY_PATH: this.#lib,
      PYTHONPATH: this.#packages,
      FAKE_GPUS: this.folder,
    };
  }

  /** Installs the nvidia-smi of a machine with these GPUs. */
  show(gpus: readonly FakeGpu[]): void {
    const rows = (each: (gpu: FakeGpu, i: number) => string): string =>
      gpus.map((gpu, i) => `echo '${each(gpu, i)}'`).join("\n");
    const uuid = (i: number): string => `GPU-0000000${i}-aaaa-bbbb-cccc-000000000000`;
    const remapped = { ok: "No, No", pending: "Yes, No", failed: "No, Yes" };
    this.smi(`case "$1" in
--query-gpu=*ecc*) ${rows((gpu, i) => `${uuid(i)}, ${gpu.uncorrected ?? "[N/A]"}`)} ;;
--query-remapped-rows=*) ${rows((gpu, i) => `${uuid(i)}, ${remapped[gpu.remapping ?? "ok"]}`)} ;;
--query-gpu=index,*) ${rows(
      (gpu, i) =>
        `${i}, ${uuid(i)}, 00000000:0${i + 1}:00.0, ${gpu.memory_mib}, ${gpu.free_mib ?? gpu.memory_mib - 400}, 570.86.15, ${gpu.name}`,
    )} ;;
--query-gpu=name*) ${rows((gpu) => `${gpu.name}, ${gpu.memory_mib}, 570.86.15`)} ;;
*) exit 2 ;;
esac`);
  }

  /** Installs this script as nvidia-smi. */
  smi(script: string): void {
    writeFileSync(join(this.#bin, "nvidia-smi"), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  }

  /** Installs a driver library whose cuInit returns `init`, hangs or crashes. Needs a C compiler. */
  cuda(how: { init?: number | "hang" | "crash"; version?: number; count?: number } = {}): void {
    const source = join(this.folder, "cuda.c");
    writeFileSync(source, LIBCUDA);
    execFileSync("cc", ["-shared", "-fPIC", "-o", join(this.#lib, "libcuda.so.1"), source]);
    writeFileSync(join(this.folder, "cuinit"), String(how.init ?? 0));
    writeFileSync(join(this.folder, "cuversion"), String(how.version ?? 12_080));
    writeFileSync(join(this.folder, "cucount"), String(how.count ?? 1));
  }

  torch({ cuda = "12.8", ...how }: FakeTorch = {}): void {
    const folder = join(this.#packages, "torch");
    mkdirSync(join(folder, "cuda"), { recursive: true });
    writeFileSync(join(folder, "cuda", "__init__.py"), TORCH_CUDA);
    writeFileSync(join(folder, "cuda", "nccl.py"), TORCH_NCCL);
    const text = cuda === null ? "None" : `'${cuda}'`;
    writeFileSync(join(folder, "version.py"), `__version__ = '2.9.0'\ncuda: Optional[str] = ${text}\nhip = None\n`);
    const told = { count: 1, name: RTX4090.name, right: true, mm_seconds: 0, sum_right: true, nccl_error: "", ...how };
    writeFileSync(join(this.folder, "torch.json"), JSON.stringify(told));
    // `import torch` makes torch.cuda known, as the real one does.
    writeFileSync(join(folder, "__init__.py"), `${TORCH}from . import cuda\n`);
  }

  close(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}
