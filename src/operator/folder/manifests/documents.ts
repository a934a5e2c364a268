import { API_VERSION, type Key, type Kind, kinds } from "../../kinds.ts";
import { TENANTS_NAME } from "../../tenants.ts";
import { readYaml } from "./yaml.ts";

/**
 * What one YAML document is: an object of ours, the tenants, nothing, or something that cannot be read. That
 * may have been meant to be an object of ours: any of the file, or the one of its name when it has one.
 */
export type Identified =
  | { type: "object"; key: Key; value: Record<string, unknown> }
  | { type: "tenants"; data: Record<string, string> }
  | { type: "empty" }
  | { type: "unknown"; fault: string; name?: string };

/** A document and its number in the file, from 1. */
export type ManifestDocument = { number: number; identified: Identified };

/**
 * The documents of a file, or why it has none that could be trusted. `beingWritten`: it is being written at
 * this moment, which is nobody's mistake.
 */
export type ManifestFile =
  | { path: string; documents: ManifestDocument[]; fault?: never; beingWritten?: never }
  | { path: string; documents?: never; fault: string; beingWritten?: true };

/** Bytes that a file may have. */
export const MAX_FILE_BYTES = 1024 * 1024;

const MAX_NAME_LENGTH = 63;

/**
 * Splits a file into its documents. A syntax fault anywhere makes the whole file faulty: it may be
 * half-written.
 */
export function readDocuments(path: string, text: string): ManifestFile {
  const { values, fault } = readYaml(text);
  if (fault !== undefined) return { path, fault };
  const documents = values.map((value, index) => ({ number: index + 1, identified: identify(value) }));
  return { path, documents };
}

function identify(value: unknown): Identified {
  if (value === null || value === undefined) return { type: "empty" };
  if (!isMapping(value)) return { type: "unknown", fault: "the document is not an object" };
  const { apiVersion, kind, metadata } = value;
  if (!isMapping(metadata)) return { type: "unknown", fault: "metadata is missing" };
  const { name, namespace = "default" } = metadata;
  if (apiVersion === "v1" && kind === "ConfigMap" && name === TENANTS_NAME) return tenants(value);
  if (apiVersion !== API_VERSION || !isKind(kind)) {
    const fault = `${String(apiVersion)} ${String(kind)} is not a kind of ${API_VERSION}`;
    return { type: "unknown", fault, ...(typeof name === "string" && { name }) };
  }
  if (!isName(name, MAX_NAME_LENGTH, SUBDOMAIN)) {
    return {
      type: "unknown",
      fault: `metadata.name is missing, not a name or longer than ${MAX_NAME_LENGTH} characters`,
    };
  }
  if (!isName(namespace, MAX_NAME_LENGTH, LABEL)) {
    return { type: "unknown", fault: "metadata.namespace is not a name" };
  }
  const { status: _, ...rest } = value;
  return {
    type: "object",
    key: { kind, namespace, name },
    value: { ...rest, metadata: { ...metadata, namespace } },
  };
}

function tenants({ data }: Record<string, unknown>): Identified {
  const entries = data === undefined || data === null ? {} : data;
  if (isMapping(entries) && Object.values(entries).every((entry) => typeof entry === "string")) {
    return { type: "tenants", data: entries as Record<string, string> };
  }
  return { type: "unknown", fault: `data of ${TENANTS_NAME} must map namespaces to text` };
}

const LABEL = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/;
const SUBDOMAIN = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;

function isName(value: unknown, maxLength: number, form: RegExp): value is string {
  return typeof value === "string" && value.length <= maxLength && form.test(value);
}

function isKind(kind: unknown): kind is Kind {
  return kinds.some((known) => known === kind);
}

function isMapping(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
