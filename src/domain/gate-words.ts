// The measurements of a machine's test in one line, for a timeline.

type Numbers = Readonly<Record<string, unknown>>;

const UNITS: readonly (readonly [name: string, before: string, after: string])[] = [
  ["cuda", "CUDA ", ""],
  ["torch", "torch ", ""],
  ["matmul_tflops", "matmul ", " TFLOPS"],
  ["all_reduce_mb_s", "all-reduce ", " MB/s"],
  ["disk_write_mb_s", "disk ", " MB/s"],
  ["download_mb_s", "download ", " MB/s"],
];

/** `passed (CUDA 12.8, matmul 158 TFLOPS, disk 800 MB/s)`; null if `gate` is not the result of a gate. */
export function gateWords(gate: unknown): string | null {
  if (typeof gate !== "object" || gate === null || Array.isArray(gate)) return null;
  const numbers = gate as Numbers;
  const findings = Array.isArray(numbers["findings"]) ? numbers["findings"].map(String) : [];
  const told = UNITS.flatMap(([name, before, after]) => {
    const value = numbers[name];
    const values = (Array.isArray(value) ? (value as unknown[]) : [value]).filter(
      (each) => typeof each === "string" || typeof each === "number",
    );
    return values.length === 0 ? [] : [`${before}${values.join(", ")}${after}`];
  });
  const words = findings.length === 0 ? "passed" : findings.join("; ");
  return told.length === 0 ? words : `${words} (${told.join(", ")})`;
}
