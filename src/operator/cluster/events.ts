import { randomUUID } from "node:crypto";
import type { Clock } from "../../clock.ts";
import type { ClusterClient } from "../../kubernetes/client.ts";

/** The object that an Event is about. */
export type EventSubject = {
  apiVersion: string;
  kind: string;
  metadata: { name: string; namespace: string; uid?: string };
};

/** Writer of Kubernetes Events. */
export type ClusterEvents = {
  /** Never fails. The Event is lost if the cluster refuses it or if the queue is full. */
  record(object: EventSubject, event: { type: "Normal" | "Warning"; reason: string; message: string }): void;
  /** Resolves when all Events recorded so far have been sent. */
  flush(): Promise<void>;
};

const MOST_WAITING = 200;
const MAX_MESSAGE_LENGTH = 1024;
const COMPONENT = "deputize-operator";

/** Creates a writer that sends Events one after another, so that they do not delay urgent calls. */
export function createClusterEvents(client: Pick<ClusterClient, "core">, clock: Clock): ClusterEvents {
  let sending = Promise.resolve();
  let waiting = 0;

  return {
    record(object, { type, reason, message }) {
      if (waiting >= MOST_WAITING) return;
      waiting += 1;
      const { apiVersion, kind, metadata } = object;
      const { name, namespace, uid } = metadata;
      const time = clock.now();
      const body = {
        metadata: { name: `${name}.${randomUUID().slice(-12)}`, namespace },
        involvedObject: { apiVersion, kind, name, namespace, ...(uid !== undefined && { uid }) },
        type,
        reason,
        message: message.slice(0, MAX_MESSAGE_LENGTH),
        count: 1,
        firstTimestamp: time,
        lastTimestamp: time,
        source: { component: COMPONENT },
        reportingComponent: COMPONENT,
      };
      sending = sending
        .then(() => client.core.createNamespacedEvent({ namespace, body }))
        .then(
          () => undefined,
          () => undefined,
        )
        .finally(() => {
          waiting -= 1;
        });
    },
    flush: () => sending,
  };
}
