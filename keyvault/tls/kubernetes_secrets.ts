import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { Agent, request } from "undici";
import { reasonOf, UserError } from "../errors.ts";

/** Contents of a Secret, by the names of its files. */
export type SecretFiles = Readonly<Record<string, Buffer>>;

/** A Secret to write. An `immutable` Secret is written once and never changed. */
export type SecretToApply = {
  name: string;
  type: "Opaque" | "kubernetes.io/tls";
  immutable: boolean;
  labels: Readonly<Record<string, string>>;
  files: Readonly<Record<string, string>>;
};

/** The Secrets of one namespace, by name. */
export type Secrets = {
  /** Resolves to `undefined` if the Secret does not exist. */
  read(name: string): Promise<SecretFiles | undefined>;
  /**
   * Creates or updates the Secret. Returns false if the existing Secret is immutable and its files differ.
   */
  apply(secret: SecretToApply): Promise<boolean>;
  close(): Promise<void>;
};

const MANAGER = "deputize-keyvault-certificates";
const TIMEOUT_MS = 10_000;

/**
 * Opens the Secrets of this program's namespace with the pod's service account, whose `token`, `ca.crt` and
 * `namespace` are in the folder `account`. Throws `UserError` if the folder does not contain a service
 * account. Calls throw `UserError` if the API server refuses or does not answer.
 */
export async function openSecrets(url: string, account: string): Promise<Secrets> {
  const read = (name: string): Promise<string> =>
    readFile(join(account, name), "utf8").catch((error: unknown) => {
      throw new UserError(
        `${join(account, name)} cannot be read: run this command in a pod that mounts the token of its service account`,
        { cause: error },
      );
    });
  const [ca, token, namespace] = await Promise.all([read("ca.crt"), read("token"), read("namespace")]);
  const dispatcher = new Agent({ connect: { ca } });

  async function call(method: "GET" | "PATCH", name: string, body?: object): Promise<[number, Answer]> {
    const path = `/api/v1/namespaces/${namespace.trim()}/secrets/${encodeURIComponent(name)}`;
    const query = method === "PATCH" ? `?fieldManager=${MANAGER}&force=true` : "";
    try {
      const answer = await request(new URL(`${path}${query}`, url), {
        method,
        dispatcher,
        headers: { authorization: `Bearer ${token.trim()}`, "content-type": "application/apply-patch+yaml" },
        body: body === undefined ? null : JSON.stringify(body),
        headersTimeout: TIMEOUT_MS,
        bodyTimeout: TIMEOUT_MS,
      });
      return [answer.statusCode, (await answer.body.json()) as Answer];
    } catch (error) {
      throw new UserError(`The API server at ${url} does not answer: ${reasonOf(error)}`, { cause: error });
    }
  }

  return {
    async read(name) {
      const [status, answer] = await call("GET", name);
      if (status === 404) return undefined;
      if (status !== 200) throw refused(name, status, answer);
      const files = Object.entries(answer.data ?? {});
      return Object.fromEntries(files.map(([file, text]) => [file, Buffer.from(text, "base64")]));
    },
    async apply({ name, type, immutable, labels, files }) {
      const data = Object.entries(files).map(([file, text]) => [file, Buffer.from(text).toString("base64")]);
      const [status, answer] = await call("PATCH", name, {
        apiVersion: "v1",
        kind: "Secret",
        metadata: { name, labels },
        type,
        immutable,
        data: Object.fromEntries(data),
      });
      if (status === 422 && immutable) return false;
      if (status !== 200 && status !== 201) throw refused(name, status, answer);
      return true;
    },
    close: () => dispatcher.close(),
  };
}

type Answer = { data?: Record<string, string>; message?: string };

function refused(name: string, status: number, { message = "" }: Answer): UserError {
  return new UserError(`The API server refuses the Secret ${name} (${status}): ${message}`);
}
