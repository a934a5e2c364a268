import type { ClusterClient, ClusterWatch } from "../../kubernetes/client.ts";
import { API_VERSION, type Kind } from "../kinds.ts";
import { SECRET_TYPE } from "../reconcile/platform_secret.ts";

/** Parameters of one page of a list: the maximum length, and the token of the previous page. */
export type Page = { limit?: number; continue?: string };

/** All objects of a kind in a cluster or a namespace, or those that match a selector. */
export type Collection = {
  /** Used in error messages. */
  resource: string;
  list(page: Page, signal: AbortSignal): Promise<unknown>;
  /** Resolves when the API server ends the watch. */
  watch(query: Record<string, string>, ends: Pick<ClusterWatch, "signal" | "onEvent">): Promise<void>;
};

type Client = Pick<ClusterClient, "core" | "custom" | "until" | "watch">;

const [group = "", version = ""] = API_VERSION.split("/");
const OURS = { fieldSelector: `type=${SECRET_TYPE}` };

/** Returns the plural name of a kind, as used in API paths and roles. */
export function pluralOf(kind: Kind): string {
  return `${kind.toLowerCase()}s`;
}

/** Returns the group, version, namespace and plural of a kind, for calls of `CustomObjectsApi`. */
export function placeOf(kind: Kind, namespace: string) {
  return { group, version, plural: pluralOf(kind), namespace };
}

/** Returns the collection of all objects of a kind. */
export function kindCollection(client: Client, kind: Kind, namespace?: string): Collection {
  const resource = pluralOf(kind);
  return {
    resource,
    list(page, signal) {
      const options = client.until(signal);
      const query = pageQuery(page);
      return namespace === undefined
        ? client.custom.listCustomObjectForAllNamespaces(
            { group, version, resourcePlural: resource, ...query },
            options,
          )
        : client.custom.listNamespacedCustomObject({ ...placeOf(kind, namespace), ...query }, options);
    },
    watch: (query, ends) =>
      client.watch({ path: pathOf(`/apis/${API_VERSION}`, resource, namespace), query, ...ends }),
  };
}

/** Returns the collection of the Secrets that the operator manages. */
export function secretCollection(client: Client, namespace?: string): Collection {
  return {
    resource: "secrets",
    list(page, signal) {
      const query = { ...OURS, ...pageQuery(page) };
      return namespace === undefined
        ? client.core.listSecretForAllNamespaces(query, client.until(signal))
        : client.core.listNamespacedSecret({ namespace, ...query }, client.until(signal));
    },
    watch: (query, ends) =>
      client.watch({ path: pathOf("/api/v1", "secrets", namespace), query: { ...OURS, ...query }, ...ends }),
  };
}

/** Returns the collection of all ConfigMaps in a namespace that match a selector. */
export function configMapCollection(
  client: Client,
  namespace: string,
  selector: Record<string, string>,
): Collection {
  return {
    resource: "configmaps",
    list: (page, signal) =>
      client.core.listNamespacedConfigMap(
        { namespace, ...selector, ...pageQuery(page) },
        client.until(signal),
      ),
    watch: (query, ends) =>
      client.watch({
        path: pathOf("/api/v1", "configmaps", namespace),
        query: { ...selector, ...query },
        ...ends,
      }),
  };
}

/** Returns the collection of the cluster's namespaces that match a label selector. */
export function namespaceCollection(client: Client, labelSelector: string): Collection {
  return {
    resource: "namespaces",
    list: (page, signal) =>
      client.core.listNamespace({ labelSelector, ...pageQuery(page) }, client.until(signal)),
    watch: (query, ends) =>
      client.watch({
        path: pathOf("/api/v1", "namespaces", undefined),
        query: { labelSelector, ...query },
        ...ends,
      }),
  };
}

function pageQuery({ limit, continue: token }: Page) {
  return { ...(limit !== undefined && { limit }), ...(token !== undefined && { _continue: token }) };
}

function pathOf(root: string, resource: string, namespace: string | undefined): string {
  return `${root}${namespace === undefined ? "" : `/namespaces/${namespace}`}/${resource}`;
}
