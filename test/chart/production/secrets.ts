import { NAMESPACE, type Rendered } from "../render.ts";
import { EXAMPLE, ofKind } from "./files.ts";

/** A key of a Secret, as `<namespace>/<name> <key>`. */
export type SecretKey = string;

const keyOf = (namespace: string | undefined, name: string, key: string): SecretKey =>
  `${namespace ?? NAMESPACE}/${name} ${key}`;
const keysOf = ({ metadata }: Rendered, name: string, keys: readonly string[]) =>
  keys.map((key) => keyOf(metadata.namespace, name, key));

/** The Secret keys that operators and files create. Operators also create keys that nobody reads. */
export const MADE_BY_OPERATORS: readonly SecretKey[] = [
  ...ofKind("Cluster").flatMap((one) => keysOf(one, `${one.metadata.name}-ca`, ["ca.crt", "ca.key"])),
  ...ofKind("Kafka").flatMap((one) => keysOf(one, `${one.metadata.name}-cluster-ca-cert`, ["ca.crt"])),
  ...ofKind("KafkaUser").flatMap((one) => keysOf(one, one.metadata.name, ["password"])),
];
export const MADE_BY_FILES: readonly SecretKey[] = [
  ...ofKind("ExternalSecret").flatMap((one) => {
    const { target = {}, data } = one.spec;
    const keys =
      target.template === undefined
        ? data.map(({ secretKey }: { secretKey: string }) => secretKey)
        : Object.keys(target.template.data);
    return keysOf(one, target.name ?? one.metadata.name, keys);
  }),
  ...ofKind("Certificate").flatMap((one) => keysOf(one, one.spec.secretName, ["tls.crt", "tls.key"])),
];

/** The Secret keys that the chart reads, with the example's values, and those that other objects read. */
export const READ_BY_VALUES: readonly SecretKey[] = namedSecrets(EXAMPLE);
export const READ_BY_FILES: readonly SecretKey[] = [
  ...ofKind("Cluster").flatMap((one) => {
    const owner: string = one.spec.bootstrap.initdb.secret.name;
    const roles: { passwordSecret: { name: string } }[] = one.spec.managed?.roles ?? [];
    const names = [owner, ...roles.map(({ passwordSecret }) => passwordSecret.name)];
    return names.flatMap((name) => keysOf(one, name, ["username", "password"]));
  }),
  ...ofKind("ObjectStore").flatMap(({ metadata, spec }) =>
    Object.values(spec.configuration.s3Credentials as Record<string, { name: string; key: string }>).map(
      ({ name, key }) => keyOf(metadata.namespace, name, key),
    ),
  ),
  ...ofKind("Issuer")
    .filter(({ spec }) => spec.ca !== undefined)
    .flatMap((one) => keysOf(one, one.spec.ca.secretName, ["tls.crt", "tls.key"])),
  ...ofKind("Gateway").flatMap((one) =>
    (one.spec.listeners as { tls: { certificateRefs: { name: string }[] } }[]).flatMap(({ tls }) =>
      tls.certificateRefs.flatMap(({ name }) => keysOf(one, name, ["tls.crt", "tls.key"])),
    ),
  ),
];

/** Returns the Secret keys that `existingSecret` names at any depth, and the image pull Secrets. */
function namedSecrets(value: unknown): SecretKey[] {
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([field, inner]) => {
    if (field === "imagePullSecrets") {
      return (inner as { name: string }[]).map(({ name }) => keyOf(NAMESPACE, name, ".dockerconfigjson"));
    }
    if (field !== "existingSecret") return namedSecrets(inner);
    const { name, ...keys } = inner as Record<string, string>;
    return Object.values(keys).map((key) => keyOf(NAMESPACE, name ?? "", key));
  });
}

export function templateOf(name: string): Record<string, string> {
  const found = ofKind("ExternalSecret").find(({ metadata }) => metadata.name === name);
  if (found === undefined) throw new Error(`no ExternalSecret makes ${name}`);
  return found.spec.target.template.data;
}
