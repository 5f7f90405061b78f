// The proxy that calls over https go through, where the environment names one: HTTPS_PROXY and NO_PROXY, as curl reads them.
//
// Calls over plain http use no proxy: they are made to this computer itself, and a proxy would read the key in them.
// Over https the proxy is asked for a tunnel (CONNECT) and sees the name of the host alone.

export interface ProxyEnv {
  https_proxy: string;
  no_proxy: string;
}

const HERE = "localhost,127.0.0.1,::1";

/** Undefined if no proxy is set, or if its address is malformed. */
export function proxyEnvOf(env: Readonly<Record<string, string | undefined>>): ProxyEnv | undefined {
  const named = (...names: string[]): string =>
    names.map((name) => env[name]?.trim() ?? "").find((v) => v !== "") ?? "";
  const proxy = named("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY");
  if (!URL.canParse(proxy) || !/^https?:$/.test(new URL(proxy).protocol)) return undefined;
  const none = named("no_proxy", "NO_PROXY");
  return { https_proxy: proxy, no_proxy: none === "" ? HERE : `${none},${HERE}` };
}

/** Options for an agent of `node:https`. */
export function throughProxy(env: Readonly<Record<string, string | undefined>>): { proxyEnv?: NodeJS.ProcessEnv } {
  const proxy = proxyEnvOf(env);
  return proxy === undefined ? {} : { proxyEnv: { ...proxy } };
}
