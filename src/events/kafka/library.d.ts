/** Types of a part of the library that has none. */
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
