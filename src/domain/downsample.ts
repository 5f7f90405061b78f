// Fewer points for a chart, without hiding what matters in it: the first and the last point, the least and the greatest
// of each bucket, and values that are not finite (a loss that became NaN must never be hidden).

interface HasValue {
  value: number | "NaN" | "Infinity" | "-Infinity";
}

/**
 * At most `max` (2 or more) of the points, in their order. Points that are not finite take at most half of the room: where
 * there are more, the first and the last of them stay and those between are thinned evenly.
 */
export function downsample<P extends HasValue>(points: readonly P[], max: number): P[] {
  if (points.length <= max) return [...points];
  const keep = new Set([0, points.length - 1]);
  const inner = Array.from({ length: points.length - 2 }, (_, i) => i + 1);
  const odd = inner.filter((i) => typeof points[i]!.value === "string");
  for (const i of thin(odd, Math.floor((max - 2) / 2))) keep.add(i);
  const finite = inner.filter((i) => typeof points[i]!.value === "number");
  const room = max - keep.size;
  for (const i of room >= finite.length ? finite : extremes(points, finite, Math.floor(room / 2))) keep.add(i);
  return [...keep].sort((a, b) => a - b).map((i) => points[i]!);
}

/** The least and the greatest of each of `buckets` equal parts. */
function extremes(points: readonly HasValue[], finite: readonly number[], buckets: number): number[] {
  const kept: number[] = [];
  for (let b = 0; b < buckets; b++) {
    const from = Math.floor((b * finite.length) / buckets);
    const to = Math.floor(((b + 1) * finite.length) / buckets);
    let low = finite[from]!;
    let high = low;
    for (let j = from + 1; j < to; j++) {
      const i = finite[j]!;
      if (points[i]!.value < points[low]!.value) low = i;
      if (points[i]!.value > points[high]!.value) high = i;
    }
    kept.push(low, high);
  }
  return kept;
}

/** At most `max` of the items, evenly spaced, the first and the last among them. */
function thin(items: readonly number[], max: number): number[] {
  if (items.length <= max) return [...items];
  if (max <= 1) return items.slice(0, max);
  return Array.from({ length: max }, (_, j) => items[Math.round((j * (items.length - 1)) / (max - 1))]!);
}
