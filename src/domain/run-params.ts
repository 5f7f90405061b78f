// The parameters of a run, as its arguments name them. The list of runs shows and compares them.

const VALUE_MAX = 80;
const NAME = /^[A-Za-z_][\w.+/-]{0,79}$/;

/** `--lr 0.1`, `--lr=0.1`, `lr=0.1` and `-b 64` by name; a flag without a value is `yes`. The last one of a name wins. */
export function paramsOf(args: readonly string[]): Readonly<Record<string, string>> {
  const found = new Map<string, string>();
  const put = (name: string, value: string): void => {
    if (NAME.test(name)) found.set(name, value.length > VALUE_MAX ? `${value.slice(0, VALUE_MAX)}…` : value);
  };
  for (let i = 0; i < args.length; i++) {
    const arg = args[i] ?? "";
    if (arg === "--") break;
    const name = arg.replace(/^-{1,2}/, "");
    const cut = name.indexOf("=");
    if (cut > 0) {
      put(name.slice(0, cut), name.slice(cut + 1));
    } else if (arg !== name) {
      const next = args[i + 1];
      // A negative number is a value, and any other word with a dash is the next flag.
      const isValue = next !== undefined && (!next.startsWith("-") || /^-[\d.]/.test(next));
      put(name, isValue ? next : "yes");
      if (isValue) i += 1;
    }
  }
  // Without a prototype: a run without the parameter `constructor` has none.
  const params = Object.create(null) as Record<string, string>;
  for (const [name, value] of found) params[name] = value;
  return params;
}
