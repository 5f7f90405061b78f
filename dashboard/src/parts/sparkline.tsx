const WIDTH = 72;
const HEIGHT = 20;

/** A tiny line that shows only how the values change; the page prints the value next to it. */
export function Sparkline({ values, min, max }: { values: readonly number[]; min?: number; max?: number | null }) {
  const finite = values.filter((value) => Number.isFinite(value));
  if (finite.length < 2) return <span className="sparkline" aria-hidden="true" />;
  const low = min ?? Math.min(...finite);
  const high = Math.max(max ?? Math.max(...finite), low);
  const y = (value: number) => (high === low ? HEIGHT / 2 : HEIGHT - 1 - ((value - low) / (high - low)) * (HEIGHT - 2));
  // A gap begins a line of its own.
  const path = values
    .map((value, i) => {
      if (!Number.isFinite(value)) return "";
      const pen = Number.isFinite(values[i - 1]) ? "L" : "M";
      return `${pen}${((i / (values.length - 1)) * WIDTH).toFixed(1)} ${y(value).toFixed(1)}`;
    })
    .join("");
  return (
    <svg className="sparkline" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
      <path d={path} vectorEffect="non-scaling-stroke" />
    </svg>
  );
}
