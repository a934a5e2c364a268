import type { Operation } from "./components.ts";
import type { Json } from "./schema.ts";

type Placed = { path: string; operation: Operation };

/** Links to the next calls of the main job that do not read an object. */
const NEXT: Readonly<Record<string, Json>> = {
  create_challenge: {
    present_proof: { operationId: "present_proof", description: "Its `challenge` is that of this response" },
  },
  present_proof: {
    verify_proof: { operationId: "verify_proof", description: "Its `proof_ref` is that of this response" },
  },
  request_delegation: {
    approve_delegation_request: {
      operationId: "approve_delegation_request",
      parameters: { request_id: "$response.body#/request_id" },
    },
  },
  verify_proof: {
    get_receipt: {
      operationId: "get_receipt",
      parameters: { receipt_id: "$response.body#/receipt/receipt_id" },
    },
  },
};

/**
 * Returns the links of an operation's successful response. They lead from a new object to the operations that
 * read objects whose ids are in the response, and to the next calls of the main job. The object schemas must
 * not be references yet.
 */
export function linksOf({ path, operation }: Placed, all: readonly Placed[]): Record<string, Json> {
  const members = Object.keys(membersOf(operation));
  const inPath = namesIn(path);
  const isCreating = /^(create|register|request|approve|verify|report)_/.test(operation.operationId);
  const readers = (isCreating ? all : []).filter(({ path: other, operation: reader }) => {
    const needed = namesIn(other);
    const isKnown = needed.every((name) => members.includes(name) || inPath.includes(name));
    const isReader =
      /^get_(?!audit|published|connected|customer)/.test(reader.operationId) &&
      other.endsWith("}") &&
      other !== path;
    return isReader && isKnown && needed.some((name) => members.includes(name));
  });
  const links = readers.map(({ path: other, operation: { operationId } }): [string, Json] => {
    const places = namesIn(other).map((name) => [
      name,
      members.includes(name) ? `$response.body#/${name}` : `$request.path.${name}`,
    ]);
    return [operationId, { operationId, parameters: Object.fromEntries(places) }];
  });
  return { ...Object.fromEntries(links), ...(NEXT[operation.operationId] as Record<string, Json>) };
}

function membersOf({ responses }: Operation): Json {
  const success = Object.entries(responses).find(([status]) => status < "300")?.[1];
  return (success?.content?.["application/json"]?.schema.properties ?? {}) as Json;
}

function namesIn(path: string): string[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name = ""]) => name);
}
