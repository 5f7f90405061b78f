// Recognises secrets by their own shape, under whatever name: keys with their maker's prefix, and addresses of webhooks.
// A prefix that begins an ordinary name too (`hf_`, `sk-`, `local-`) counts only before what no name looks like.

/** Each is a whole value. */
const KEYS = [
  // Models and their hosts
  "hf_[A-Za-z0-9]{16,}",
  "hf_(?:oauth|jwt)_[\\w.-]{16,}",
  "api_org_[A-Za-z0-9]{30,}",
  "sk-(?=[\\w-]{0,200}\\d)[\\w-]{0,200}[A-Za-z0-9]{16}[\\w-]{0,500}",
  "nvapi-[\\w-]{20,}",
  "AIza[\\w-]{30,}",
  "gsk_[A-Za-z0-9]{20,}",
  "r8_[A-Za-z0-9]{20,}",
  "xai-[A-Za-z0-9]{20,}",
  "pplx-[A-Za-z0-9]{20,}",
  "tgp_v1_[\\w-]{20,}",
  "pcsk_\\w{20,}",
  "KGAT_[0-9a-f]{32}",
  // Trackers: W&B, LangSmith, and Neptune's, which is JSON that begins with the same name
  "local-[0-9a-f]{32,}",
  "wandb_v1_[\\w-]{16,}",
  "lsv2_(?:pt|sk)_\\w{20,}",
  "eyJhcGlfYWRkcmVzcyI6[\\w+/=-]{8,}",
  // Machines and clouds
  "(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{12,}",
  "rpa_[A-Za-z0-9]{20,}",
  "a[ks]-[A-Za-z0-9]{22}",
  "dapi[0-9a-f]{32}(?:-\\d)?",
  "do[opr]_v1_[0-9a-f]{32,}",
  "ya29\\.[\\w-]{20,}",
  "GOCSPX-[\\w-]{20,}",
  "hvs\\.[\\w-]{20,}",
  "tskey-[a-z]+-[\\w-]{16,}",
  // Code and packages
  "gh[pousr]_[\\w.-]{12,}",
  "github_pat_\\w{12,}",
  "gl(?:agent|cbt|dt|ft|imt|oas|pat|ptt|rt|soat)-[\\w.-]{12,}",
  "dckr_[op]at_[\\w-]{12,}",
  "npm_[A-Za-z0-9]{30,}",
  "pypi-Ag[\\w-]{16,}",
  // Messages and payments
  "xox[a-z]-[\\w-]{12,}",
  "xapp-\\d-[\\w-]{12,}",
  "\\d{8,10}:AA[\\w-]{30,}",
  "SG\\.[\\w-]{16,}\\.[\\w-]{16,}",
  "ntn_[A-Za-z0-9]{30,}",
  "[rs]k_(?:live|test)_[A-Za-z0-9]{12,}",
];
const KEY = new RegExp(`^(?:${KEYS.join("|")})$|-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----|^eyJ[\\w-]{10,}\\.eyJ`);

/** Whether a value is a key as a whole, or holds a private key. */
export const isKey = (value: string): boolean => KEY.test(value.trim());

/** Keys with their maker's prefix beside other text: in a JSON object, in a line of a shell. */
export const keysIn = (text: string): string[] =>
  text.split(/[\s"'`,;:=&|<>(){}[\]\\]+/).filter((word) => word !== text && isKey(word));

/** Who knows the rest of such an address may write there. */
const WEBHOOK =
  /\bhttps:\/\/(?:hooks\.slack(?:-gov)?\.com\/(?:services|triggers|workflows)|(?:\w+\.)?discord(?:app)?\.com\/api(?:\/v\d+)?\/webhooks|[\w-]+\.webhook\.office\.com\/webhookb2|outlook\.office(?:365)?\.com\/webhook|hooks\.zapier\.com\/hooks\/catch|open\.(?:feishu\.cn|larksuite\.com)\/open-apis\/bot\/v2\/hook)\/([^\s"'`?#]{8,1000})|\bhttps:\/\/api\.telegram\.org\/bot(\d+:[\w-]{20,200})/gi;
/** The end of a webhook's path is its token; a shorter one is a word. */
const TOKEN_MIN = 16;

/** What is secret in the addresses of webhooks anywhere in a text. */
export const webhookTokens = (text: string): string[] =>
  [...text.matchAll(WEBHOOK)].flatMap(([, path = "", token]) => {
    const last = path.split("/").at(-1) ?? "";
    return [token ?? path, ...(last.length >= TOKEN_MIN && last !== path ? [last] : [])];
  });

/**
 * Whether letters and digits are mixed as in a random key. In names of columns, layers and models (`top1_acc`, `layer12.weight`) words
 * and numbers are few or apart.
 */
export const looksRandom = (value: string): boolean =>
  value.split(/[^A-Za-z0-9]+/).some((part) => part.length >= 12 && changes(part) >= 4);

const changes = (part: string): number => part.match(/[A-Za-z](?=\d)|\d(?=[A-Za-z])/g)?.length ?? 0;
