import { createHash } from "node:crypto";
import { z } from "zod";
import { canonicalBytes } from "../../src/protocol/encoding/canonical.ts";
import { ProtocolError } from "../../src/protocol/encoding/errors.ts";
import { isIdOf, verifyHybrid } from "../../src/protocol/keys/hybrid.ts";
import type { Manifest } from "./contents.ts";

const hybrid = z.strictObject({ ed25519: z.string(), ml_dsa_65: z.string() });
const statement = z.strictObject({
  type: z.literal("backup"),
  version: z.literal(1),
  created_at: z.string(),
  head: z.strictObject({ seq: z.int(), mac: z.string() }),
  digest: z.string(),
  signed_by: z.string(),
});
/** What the last line of a backup must look like. */
export const signatureLine = z.strictObject({
  kind: z.literal("signature"),
  statement,
  public_key: hybrid,
  signature: hybrid,
});

/**
 * The vault's word that it wrote a backup. `digest` is SHA-256 of all lines before the signature's, base64;
 * `created_at` and `head` are those of the manifest; `signed_by` is the service key's id.
 */
export type BackupStatement = z.infer<typeof statement>;

/** Last line of a backup. */
export type SignatureLine = z.infer<typeof signatureLine>;

/** The bytes that the service key signs: canonical JSON of the whole statement. */
export function backupSignBytes({
  type,
  version,
  created_at,
  head: { seq, mac },
  digest,
  signed_by,
}: BackupStatement): Uint8Array {
  return canonicalBytes({ type, version, created_at, head: { seq, mac }, digest, signed_by });
}

/**
 * These lines, and behind them the one that `sign` makes of their SHA-256. When it rejects, so does the
 * iteration.
 */
export async function* signLines(
  lines: AsyncIterable<string>,
  sign: (digest: Buffer) => Promise<SignatureLine>,
): AsyncGenerator<string> {
  const digest = createHash("sha256");
  for await (const line of lines) {
    digest.update(line);
    yield line;
  }
  yield `${JSON.stringify(await sign(digest.digest()))}\n`;
}

/** Id of the service key that signed for exactly this manifest and digest, or undefined when none did. */
export async function signerOf(
  line: unknown,
  manifest: Pick<Manifest, "created_at" | "head">,
  digest: Buffer,
): Promise<string | undefined> {
  const read = signatureLine.safeParse(line);
  if (!read.success) return undefined;
  const { statement: said, public_key, signature } = read.data;
  const fits =
    said.digest === digest.toString("base64") &&
    said.created_at === manifest.created_at &&
    said.head.seq === manifest.head.seq &&
    said.head.mac === manifest.head.mac &&
    isIdOf(said.signed_by, public_key);
  if (!fits) return undefined;
  try {
    return (await verifyHybrid(public_key, backupSignBytes(said), signature)) ? said.signed_by : undefined;
  } catch (error) {
    if (error instanceof ProtocolError) return undefined;
    throw error;
  }
}
