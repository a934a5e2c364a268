import canonicalize from "canonicalize";

/**
 * Returns canonical JSON from the `canonicalize` package for RFC 8785, with the two deviations of the wire
 * format. Keys are encoded as the hex of their UTF-8 bytes, so that the package orders them by byte.
 */
export function independentCanonicalJson(value: unknown): string {
  const ordered = canonicalize(withHexKeys(value)) ?? "";
  return ordered
    .replace(
      /"k:([0-9a-f]*)":/g,
      (_, hex: string) => `${JSON.stringify(Buffer.from(hex, "hex").toString("utf8"))}:`,
    )
    .replace(/\u2028/g, "\\u2028")
    .replace(/\u2029/g, "\\u2029");
}

function withHexKeys(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withHexKeys);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, member]) => [
      `k:${Buffer.from(key, "utf8").toString("hex")}`,
      withHexKeys(member),
    ]),
  );
}
