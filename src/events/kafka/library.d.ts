/** A part of `kafkajs` that has no types of its own. */
declare module "kafkajs/src/network/requestQueue/index.js" {
  type Queue = {
    pending: unknown[];
    throttledUntil: number;
    throttleCheckTimeoutId: NodeJS.Timeout | null;
    checkPendingRequests(): void;
    scheduleCheckPendingRequests(): void;
  };
  const RequestQueue: { prototype: Queue };
  export default RequestQueue;
}
