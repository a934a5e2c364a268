import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  sign as signBytes,
} from "node:crypto";
import { readFile } from "node:fs/promises";
import { UserError } from "../user_error.ts";
import { addArtifact, bytesOf } from "./layout.ts";

/** Signs bytes with ECDSA P-256 and SHA-256, which `cosign` verifies. */
export type Signer = {
  /** Returns the signature in DER and base64. */
  sign(content: Uint8Array): string;
  /** The public key in PEM, for `cosign verify --key`. */
  publicKey: string;
};

const IN_TOTO = "application/vnd.in-toto+json";

/** Returns a signer with a new key, which exists only in this process. */
export const ephemeralSigner = (): Signer =>
  signerOf(generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey);

/**
 * Reads a signer's key: a P-256 key in PEM (PKCS #8 or SEC 1), encrypted if `passphraseFile` is given. Throws
 * `UserError`.
 */
export async function signerFrom(keyFile: string, passphraseFile: string | undefined): Promise<Signer> {
  const read = (path: string) =>
    readFile(path, "utf8").catch((error: unknown) => {
      throw new UserError(`${path} cannot be read`, "Check the options --key and --passphrase-file", {
        cause: error,
      });
    });
  const key = await read(keyFile);
  const passphrase = passphraseFile === undefined ? undefined : (await read(passphraseFile)).trimEnd();
  return signerOf(privateKeyOf(keyFile, key, passphrase));
}

function privateKeyOf(path: string, key: string, passphrase: string | undefined): KeyObject {
  const wanted = `Create a key with: openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -aes256 -out ${path}`;
  try {
    const found = createPrivateKey({ key, ...(passphrase === undefined ? {} : { passphrase }) });
    if (found.asymmetricKeyDetails?.namedCurve === "prime256v1") return found;
  } catch (error) {
    throw new UserError(`${path} is not a private key in PEM, or its passphrase is wrong`, wanted, {
      cause: error,
    });
  }
  throw new UserError(`${path} is not a P-256 key`, wanted);
}

function signerOf(key: KeyObject): Signer {
  return {
    sign: (content) => signBytes("sha256", content, key).toString("base64"),
    publicKey: createPublicKey(key).export({ type: "spki", format: "pem" }).toString(),
  };
}

/** A finished artifact: its OCI layout, its name in the registry, its tag, and its manifest's digest. */
export type Signed = { layout: string; repository: string; tag: string; digest: string };

/** Returns the tag under which `cosign` looks for a manifest's signatures (`sig`) or attestations (`att`). */
export const cosignTag = (digest: string, kind: "sig" | "att"): string =>
  `${digest.replace(":", "-")}.${kind}`;

/** Adds the signature of an artifact to its layout, in the form of `cosign sign`. */
export async function addSignature(signer: Signer, artifact: Signed): Promise<void> {
  const { layout, repository, tag, digest } = artifact;
  // The name includes the tag, so that nobody can serve a signed older release under this tag.
  const identity = { "docker-reference": `${repository}:${tag}` };
  const image = { "docker-manifest-digest": digest };
  const content = bytesOf({
    critical: { identity, image, type: "cosign container image signature" },
    optional: null,
  });
  const annotations = { "dev.cosignproject.cosign/signature": signer.sign(content) };
  const mediaType = "application/vnd.dev.cosign.simplesigning.v1+json";
  await addArtifact(layout, cosignTag(digest, "sig"), { layers: [{ mediaType, content, annotations }] });
}

/** A statement about an artifact: its type and its content. */
export type Predicate = { type: string; content: object };

/** Adds statements about an artifact to its layout, in the form of `cosign attest`. */
export async function addAttestations(
  signer: Signer,
  { layout, repository, digest }: Signed,
  predicates: readonly Predicate[],
): Promise<void> {
  const subject = [{ name: repository, digest: { sha256: digest.replace("sha256:", "") } }];
  const layers = predicates.map(({ type, content }) => ({
    mediaType: "application/vnd.dsse.envelope.v1+json",
    content: bytesOf(
      envelope(signer, {
        _type: "https://in-toto.io/Statement/v1",
        subject,
        predicateType: type,
        predicate: content,
      }),
    ),
    annotations: { "dev.cosignproject.cosign/signature": "", predicateType: type },
  }));
  await addArtifact(layout, cosignTag(digest, "att"), { layers });
}

/** Returns a DSSE envelope: https://github.com/secure-systems-lab/dsse/blob/v1.0.0/protocol.md. */
export function envelope(signer: Signer, statement: object) {
  const payload = bytesOf(statement);
  const head = `DSSEv1 ${IN_TOTO.length} ${IN_TOTO} ${payload.length} `;
  const sig = signer.sign(Buffer.concat([Buffer.from(head), payload]));
  return { payloadType: IN_TOTO, payload: payload.toString("base64"), signatures: [{ keyid: "", sig }] };
}
